//! Maildir names in closed form: time, process and inode are computed from a message's number, and the number from its
//! name.
//!
//! Mail arrives at ten messages per second, so ten numbers share the time in a name, and a lookup tries all of them.
//! No table of names is needed.

use std::ops::Range;

use crate::op::Name;

/// Time of the first message: 2004-11-01 00:00 UTC, in the year of the original.
pub const FIRST_TIME: u64 = 1_099_267_200;
/// Maximum length of a message's name, that of Dovecot: 10 digits of time, 2 + 6 for the microseconds, 1 + 5 for the
/// process, 5 for the host, twice 3 + 10 for the sizes and 4 for the flag; numbers in names have at most 10 digits.
pub const MAX_NAME: usize = 10 + 8 + 6 + 5 + 26 + 4;
/// Messages per second [OWN].
const MESSAGES_PER_SECOND: u64 = 10;
const HOST_NAME: &[u8] = b"mail";

/// The form of a name computed from the number of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// `<time>.<pid>_<number>.<host>`: one process that numbers its messages.
    Sequence,
    /// `<time>.<pid>.<host>`: one process per message (qmail).
    Process,
    /// `<time>.P<pid>.<host>` (Postfix, in tmp).
    PrefixedProcess,
    /// `<time>.V<device>I<inode>.<host>`, in hexadecimal (Postfix, in new). The file system chooses the inode of a
    /// file, so the message's number is used instead.
    Inode,
    /// `<time>.M<microseconds>P<pid>.<host>` (Dovecot).
    Microseconds,
}

impl NameForm {
    /// Appends the name of `number`.
    pub fn push(self, name: &mut Name, number: u64) {
        name.push_number(FIRST_TIME + number / MESSAGES_PER_SECOND, 1);
        name.push(b".");
        match self {
            NameForm::Sequence => {
                name.push(b"2119_");
                name.push_number(number, 1);
            }
            NameForm::Process => name.push_number(process_id(number), 1),
            NameForm::PrefixedProcess => {
                name.push(b"P");
                name.push_number(process_id(number), 1);
            }
            NameForm::Inode => {
                name.push(b"V801I");
                push_hexadecimal(name, 0x8000 + number);
            }
            NameForm::Microseconds => {
                name.push(b"M");
                name.push_number(
                    number % MESSAGES_PER_SECOND * (1_000_000 / MESSAGES_PER_SECOND)
                        + number % 99_991,
                    1,
                );
                name.push(b"P");
                name.push_number(process_id(number), 1);
            }
        }
        name.push(b".");
        name.push(HOST_NAME);
    }
}

/// Returns the numbers whose names have the same time as `name`.
pub fn candidates(name: &[u8]) -> Range<u64> {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let time = std::str::from_utf8(&name[..digits]).ok().and_then(|time| time.parse::<u64>().ok());
    let seconds = time.and_then(|time| time.checked_sub(FIRST_TIME));
    seconds
        .and_then(|seconds| seconds.checked_mul(MESSAGES_PER_SECOND))
        .map_or(0..0, |first| first..first.saturating_add(MESSAGES_PER_SECOND))
}

/// Computes the process id of a message. Ids increase by three per message and wrap below 32,768, as in the Linux of
/// 2004; two messages of the same second never share one.
fn process_id(number: u64) -> u64 {
    300 + 3 * number % 32_400
}

fn push_hexadecimal(name: &mut Name, number: u64) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        name.push(&[b"0123456789abcdef"[((number >> (4 * digit)) & 0xf) as usize]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const FORMS: [NameForm; 5] = [
        NameForm::Sequence,
        NameForm::Process,
        NameForm::PrefixedProcess,
        NameForm::Inode,
        NameForm::Microseconds,
    ];

    fn name(form: NameForm, number: u64) -> String {
        let mut name = Name::default();
        form.push(&mut name, number);
        name.display()
    }

    #[test]
    fn names_have_the_format_of_their_programs() {
        let expected = [
            "1099267212.2119_123.mail",
            "1099267212.669.mail",
            "1099267212.P669.mail",
            "1099267212.V801I807b.mail",
            "1099267212.M300123P669.mail",
        ];
        assert_eq!(FORMS.map(|form| name(form, 123)), expected);
    }

    #[test]
    fn no_two_messages_share_a_name_and_each_name_is_mapped_back_to_its_number() {
        for form in FORMS {
            let mut seen = HashSet::new();
            for number in (0..70_000).chain(9_999_990..10_000_010) {
                let name = name(form, number);
                assert!(candidates(name.as_bytes()).contains(&number), "{name}");
                assert!(seen.insert(name), "{form:?} of {number}");
            }
        }
        for invalid in ["", "x", "12.P3.mail", "99999999999999999999999", "18446744073709551615.x"]
        {
            assert_eq!(candidates(invalid.as_bytes()), 0..0, "{invalid}");
        }
    }
}
