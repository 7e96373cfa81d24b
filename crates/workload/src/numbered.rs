//! Generates and parses names made of a prefix and a number.

use crate::op::{Name, digits_limit};

/// A family of names: `f0000000`, `f0000001` ... A number with more digits than the width is written in full, so no two
/// numbers share a name.
#[derive(Clone, Debug)]
pub struct Numbered {
    prefix: Vec<u8>,
    width: usize,
    /// Numbers below this use the fast path.
    limit: u64,
}

impl Numbered {
    /// Creates the family of names of `prefix` and at least `width` digits.
    pub fn new(prefix: &str, width: usize) -> Numbered {
        let width = width.clamp(1, 20);
        Numbered { prefix: prefix.as_bytes().to_vec(), width, limit: digits_limit(width) }
    }

    /// Creates the family of names of `prefix` and as many digits as the largest of `count` numbers needs.
    pub fn for_count(prefix: &str, count: u64) -> Numbered {
        Numbered::new(prefix, digits(count.saturating_sub(1)))
    }

    /// Returns the length of the name of `number`, in bytes.
    pub fn length_of(&self, number: u64) -> usize {
        self.prefix.len() + self.width.max(digits(number))
    }

    /// Writes the prefix at byte `offset` of `name`, to be completed by [`Numbered::finish`] any number
    /// of times.
    #[inline(never)]
    pub fn begin(&self, name: &mut Name, offset: usize) {
        name.truncate(offset);
        name.push(&self.prefix);
    }

    /// Writes the number after a prefix that begins at byte `offset`; anything after the number is cut off.
    #[inline]
    pub fn finish(&self, name: &mut Name, offset: usize, number: u64) {
        let offset = offset + self.prefix.len();
        if number < self.limit {
            name.set_digits(offset as u16, number as u32, self.width as u16);
        } else {
            name.set_long_number(offset, number, self.width);
        }
    }

    /// Appends the whole name.
    pub fn push(&self, name: &mut Name, number: u64) {
        name.push(&self.prefix);
        name.push_number(number, self.width);
    }

    /// Returns the number whose name is `text`, or `None` if `text` is not a name of the family.
    pub fn parse(&self, text: &[u8]) -> Option<u64> {
        let digits = text.strip_prefix(self.prefix.as_slice())?;
        let padded = digits.len() == self.width || (digits.len() > self.width && digits[0] != b'0');
        if !padded || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// Returns the number of decimal digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_parsed_and_has_the_stated_length(number: u64, width in 1usize..20) {
            let family = Numbered::new("f", width);
            let mut name = Name::default();
            name.push(b"dir/");
            family.begin(&mut name, 4);
            family.finish(&mut name, 4, 123);
            family.finish(&mut name, 4, number);
            let expected = format!("dir/f{number:0width$}");
            prop_assert_eq!(name.display(), expected);
            prop_assert_eq!(family.parse(&name.as_bytes()[4..]), Some(number));
            prop_assert_eq!(family.length_of(number), name.as_bytes().len() - 4);
        }
    }

    #[test]
    fn names_outside_the_family_are_not_parsed() {
        let family = Numbered::new("f", 4);
        for name in
            ["f", "f12", "f00012", "g0012", "f001x", "f0012 ", "0012", "f99999999999999999999"]
        {
            assert_eq!(family.parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(Numbered::for_count("d", 725).parse(b"d007"), Some(7));
        assert_eq!(Numbered::for_count("d", 1).parse(b"d0"), Some(0));
    }
}
