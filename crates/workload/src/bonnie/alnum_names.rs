//! Generates and parses names of ten hexadecimal digits and up to twelve random letters, as bonnie++ does.

use fsdyno_record::seed::{SplitMix64, mix};

use crate::op::Name;

/// Number of hexadecimal digits; numbers must be below 16^10.
const DIGIT_COUNT: usize = 10;
/// Maximum number of letters; the minimum is zero.
const MAX_LETTERS: u64 = 12;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A family of names, each computed from its number.
#[derive(Clone, Debug)]
pub struct AlnumNames {
    seed: u64,
    /// True if the letters precede the digits; the names of consecutive numbers are then not in order.
    letters_first: bool,
}

impl AlnumNames {
    /// Maximum length of a name in bytes.
    pub const MAX_LENGTH: usize = DIGIT_COUNT + MAX_LETTERS as usize;

    /// Creates a family of names whose letters are drawn from `seed` and placed before or after the number.
    pub fn new(seed: u64, letters_first: bool) -> AlnumNames {
        AlnumNames { seed: mix(seed ^ u64::from(letters_first)), letters_first }
    }

    /// Appends the name of `number`.
    pub fn push(&self, name: &mut Name, number: u64) {
        let (mut letters, length) = ([0; MAX_LETTERS as usize], self.letters_of(number));
        let letters = &mut letters[..length.0];
        let mut draws = length.1;
        letters.fill_with(|| ALPHABET[draws.below(ALPHABET.len() as u64) as usize]);
        let digits: [u8; DIGIT_COUNT] = std::array::from_fn(|index| {
            HEX[(number >> (4 * (DIGIT_COUNT - 1 - index)) & 0xf) as usize]
        });
        if self.letters_first {
            name.push(letters);
            name.push(&digits);
        } else {
            name.push(&digits);
            name.push(letters);
        }
    }

    /// Returns the number of letters in the name of `number`, and the stream from which they are drawn.
    fn letters_of(&self, number: u64) -> (usize, SplitMix64) {
        let mut draws = SplitMix64::new(mix(self.seed ^ mix(number)));
        (draws.below(MAX_LETTERS + 1) as usize, draws)
    }

    /// Returns the number whose name is `text`, or `None` if `text` is not a name of the family.
    pub fn parse(&self, text: &[u8]) -> Option<u64> {
        let digits = if self.letters_first {
            text.get(text.len().checked_sub(DIGIT_COUNT)?..)?
        } else {
            text.get(..DIGIT_COUNT)?
        };
        let number = digits.iter().try_fold(0, |number, digit| {
            let value = HEX.iter().position(|hex| hex == digit)?;
            Some(number << 4 | value as u64)
        })?;
        let mut name = Name::default();
        self.push(&mut name, number);
        (name.as_bytes() == text).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(names: &AlnumNames, number: u64) -> String {
        let mut name = Name::default();
        names.push(&mut name, number);
        name.display()
    }

    proptest! {
        #[test]
        fn a_name_is_parsed_and_no_similar_one_is(number in 0u64..1 << 40, seed: u64, first: bool) {
            let names = AlnumNames::new(seed, first);
            let text = name(&names, number);
            let digits = format!("{number:010x}");
            let placed = if first { text.ends_with(&digits) } else { text.starts_with(&digits) };
            prop_assert!(placed);
            prop_assert!((10..=AlnumNames::MAX_LENGTH).contains(&text.len()));
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(names.parse(text.as_bytes()), Some(number));
            for invalid in [format!("{text}0"), format!("0{text}"), text[1..].to_string()] {
                prop_assert!(names.parse(invalid.as_bytes()) != Some(number), "{}", invalid);
            }
        }
    }

    #[test]
    fn each_number_of_letters_from_0_to_12_is_equally_frequent() {
        let names = AlnumNames::new(7, false);
        let mut counts = [0u32; 13];
        (0..13_000).for_each(|number| counts[name(&names, number).len() - 10] += 1);
        // Binomial with mean 1,000 and a standard deviation of 30.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
    }

    #[test]
    fn invalid_names_are_not_parsed() {
        let names = AlnumNames::new(1, true);
        for invalid in ["", "0", "000000000", "00000000Z0", "zzz/0000000000"] {
            assert_eq!(names.parse(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
