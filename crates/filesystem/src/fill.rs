//! Fills in the placeholders of commands: `{device}`, `{journal}`, `{uuid}`, `{hash_seed}`, `{volume_id}`,
//! `{uuid:NAME}`.

use fsdyno_record::seed;

/// The devices of a file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Devices<'a> {
    /// The device of the file system: `{device}`.
    pub device: &'a str,
    /// The device of its journal, if separate: `{journal}`.
    pub journal: Option<&'a str>,
    /// The seed of UUIDs, if it differs from the trial's: neither a kernel nor mkfs.btrfs accepts a second file system
    /// with the same UUID, so on a host each file system gets different ones.
    pub uuids: Option<u64>,
}

/// Replaces the placeholders of a command. Arbitrary values are drawn from the seed: `{uuid}` and `{hash_seed}` are
/// draws with these names, `{volume_id}` has 32 bits, `{uuid:NAME}` is a draw named `uuid:NAME`. Other words in braces,
/// and `{journal}` without a journal device, are left unchanged.
pub fn fill(argv: &[String], devices: Devices<'_>, seed: u64) -> Vec<String> {
    argv.iter().map(|word| fill_word(word, devices, seed)).collect()
}

/// Replaces the placeholders of one word; see [`fill`].
pub fn fill_word(word: &str, devices: Devices<'_>, seed: u64) -> String {
    let mut filled = String::new();
    let mut remaining = word;
    while let Some((before, after)) = remaining.split_once('{') {
        filled.push_str(before);
        let draw =
            after.split_once('}').and_then(|(name, tail)| Some((draw(name, devices, seed)?, tail)));
        match draw {
            Some((value, tail)) => {
                filled.push_str(&value);
                remaining = tail;
            }
            None => {
                filled.push('{');
                remaining = after;
            }
        }
    }
    filled + remaining
}

fn draw(name: &str, devices: Devices<'_>, seed: u64) -> Option<String> {
    match name {
        "device" => Some(devices.device.to_string()),
        "journal" => devices.journal.map(String::from),
        "hash_seed" => Some(seed::uuid(seed, name)),
        // The first of a UUID's groups: 8 hexadecimal digits.
        "volume_id" => seed::uuid(seed, name).split('-').next().map(String::from),
        _ if name == "uuid" || name.starts_with("uuid:") => {
            Some(seed::uuid(devices.uuids.unwrap_or(seed), name))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_DEVICE: Devices<'_> = Devices { device: "/dev/nbd0", journal: None, uuids: None };

    fn filled(word: &str) -> String {
        fill_word(word, ONE_DEVICE, 7)
    }

    #[test]
    fn devices_and_draws_are_filled_in_and_other_braces_are_unchanged() {
        assert_eq!(filled("{device}"), "/dev/nbd0");
        assert_eq!(filled("uuid={uuid}"), format!("uuid={}", seed::uuid(7, "uuid")));
        assert_eq!(filled("{hash_seed},x"), format!("{},x", seed::uuid(7, "hash_seed")));
        assert_eq!(filled("a{b}{journal}{"), "a{b}{journal}{");
        let two = Devices { journal: Some("/dev/nbd1"), ..ONE_DEVICE };
        assert_eq!(fill_word("logdev={journal},{device}", two, 7), "logdev=/dev/nbd1,/dev/nbd0");
        assert_eq!(filled("{{device}}"), "{/dev/nbd0}");
    }

    #[test]
    fn draws_differ_by_name_and_by_seed() {
        assert_ne!(filled("{uuid}"), filled("{hash_seed}"));
        assert_eq!(filled("{volume_id}").len(), 8);
        assert_ne!(filled("{uuid:log}"), filled("{uuid:data}"));
        assert_ne!(fill_word("{uuid}", ONE_DEVICE, 7), fill_word("{uuid}", ONE_DEVICE, 8));
        let separate = Devices { uuids: Some(9), ..ONE_DEVICE };
        assert_ne!(fill_word("{uuid}", separate, 7), filled("{uuid}"));
        assert_ne!(fill_word("{uuid:log}", separate, 7), filled("{uuid:log}"));
        assert_eq!(fill_word("{hash_seed}", separate, 7), filled("{hash_seed}"));
    }
}
