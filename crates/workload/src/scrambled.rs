//! Generates and parses names that look random and all have the same length, without a table.

use fsdyno_record::seed::mix;

use crate::op::Name;
use crate::permutation::Permutation;

/// The alphabet of a family of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `0` to `9` and `a` to `f`: names like digests.
    Hex,
    /// Letters of both cases and digits.
    Alphanumeric,
}

impl Alphabet {
    fn letters(self) -> &'static [u8] {
        match self {
            Alphabet::Hex => b"0123456789abcdef",
            Alphabet::Alphanumeric => {
                b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
            }
        }
    }

    /// Returns the maximum number of letters that fit in a 63-bit number.
    fn number_length(self) -> u32 {
        match self {
            Alphabet::Hex => 15,
            Alphabet::Alphanumeric => 10,
        }
    }

    /// Returns the number of names of `length` letters that can be numbered.
    pub fn names(self, length: usize) -> u64 {
        (self.letters().len() as u64).pow(self.number_length().min(length as u32))
    }
}

/// A family of names: a prefix, then letters drawn for the number.
///
/// The first letters (15 for hex, 10 for letters and digits, fewer in shorter names) are the number itself after a
/// bijection over all numbers that they can represent, so names are unique and can be parsed. The letters after
/// them are derived from the number, and checked when a name is parsed.
#[derive(Clone, Debug)]
pub struct Scrambled {
    prefix: Vec<u8>,
    alphabet: Alphabet,
    /// Number of letters after the prefix.
    length: usize,
    order: Permutation,
    seed: u64,
}

impl Scrambled {
    /// Creates the family of names of `prefix` and `length` letters; there are [`Alphabet::names`] of them.
    pub fn new(prefix: &str, alphabet: Alphabet, length: usize, seed: u64) -> Scrambled {
        let order = Permutation::new(alphabet.names(length), seed, "names");
        Scrambled { prefix: prefix.as_bytes().to_vec(), alphabet, length, order, seed: mix(seed) }
    }

    /// Returns the length of every name in bytes.
    pub fn length(&self) -> usize {
        self.prefix.len() + self.length
    }

    /// Writes the name of `number` at byte `offset` of `name`.
    #[inline(never)]
    pub fn write(&self, name: &mut Name, offset: usize, number: u64) {
        name.truncate(offset);
        name.push(&self.prefix);
        let drawn = self.order.at(number);
        let letters = self.alphabet.letters();
        (0..self.length).for_each(|index| name.push(&[letters[self.letter(drawn, index)]]));
    }

    /// Returns the index in the alphabet of the letter at `index` of the name that `drawn` determines.
    fn letter(&self, drawn: u64, index: usize) -> usize {
        let base = self.alphabet.letters().len() as u64;
        let number_length = self.alphabet.number_length();
        if index < number_length as usize {
            return (drawn / base.pow(index as u32) % base) as usize;
        }
        let draw = mix(drawn ^ self.seed ^ (index as u64) << 56);
        ((u128::from(draw) * u128::from(base)) >> 64) as usize
    }

    /// Returns the number whose name is `text`, or `None` if `text` is not a name of the family.
    pub fn parse(&self, text: &[u8]) -> Option<u64> {
        let text = text.strip_prefix(self.prefix.as_slice())?;
        if text.len() != self.length {
            return None;
        }
        let letters = self.alphabet.letters();
        let value = |byte: &u8| letters.iter().position(|letter| letter == byte);
        let first = &text[..self.length.min(self.alphabet.number_length() as usize)];
        let drawn = first.iter().rev().try_fold(0, |number, byte| {
            Some(number * letters.len() as u64 + value(byte)? as u64)
        })?;
        let matches = |(index, byte): (usize, &u8)| letters[self.letter(drawn, index)] == *byte;
        text.iter().enumerate().all(matches).then(|| self.order.index_of(drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(family: &Scrambled, number: u64) -> String {
        let mut name = Name::default();
        name.push(b"d/rest");
        family.write(&mut name, 2, number);
        name.display()[2..].to_string()
    }

    proptest! {
        #[test]
        fn a_name_is_parsed_and_a_changed_name_is_another(
            (number, seed) in (0u64..100_000_000, prop::num::u64::ANY),
            (length, index) in (7usize..255, 0usize..254),
            hex in prop::bool::ANY,
        ) {
            let alphabet = if hex { Alphabet::Hex } else { Alphabet::Alphanumeric };
            let family = Scrambled::new("", alphabet, length, seed);
            let text = name(&family, number);
            prop_assert_eq!(text.len(), length);
            prop_assert_eq!(family.parse(text.as_bytes()), Some(number));
            let mut changed = text.clone().into_bytes();
            let changed_index = index % length;
            changed[changed_index] = if changed[changed_index] == b'0' { b'1' } else { b'0' };
            prop_assert_ne!(family.parse(&changed), Some(number));
            changed[changed_index] = b'-';
            prop_assert_eq!(family.parse(&changed), None);
        }
    }

    #[test]
    fn two_hex_digits_name_256_distinct_files() {
        let family = Scrambled::new("x", Alphabet::Hex, 2, 7);
        let mut names: Vec<String> = (0..256).map(|number| name(&family, number)).collect();
        assert_ne!(names[..3], ["x00", "x01", "x02"], "in order");
        names.sort();
        let all: Vec<String> = (0..256).map(|number| format!("x{number:02x}")).collect();
        assert_eq!(names, all);
        assert_eq!(Alphabet::Hex.names(2), 256);
        assert_eq!(Alphabet::Alphanumeric.names(1), 62);
    }

    #[test]
    fn all_letters_are_about_equally_frequent_at_every_index() {
        let family = Scrambled::new("", Alphabet::Hex, 40, 3);
        let mut counts = [[0u32; 256]; 40];
        for number in 0..16_000 {
            for (index, byte) in name(&family, number).bytes().enumerate() {
                counts[index][usize::from(byte)] += 1;
            }
        }
        // A thousand of each are expected; six standard deviations are 184.
        for (index, counts) in counts.iter().enumerate() {
            for letter in b"0123456789abcdef" {
                let count = counts[usize::from(*letter)];
                assert!((816..=1184).contains(&count), "{count} at index {index}");
            }
        }
    }
}
