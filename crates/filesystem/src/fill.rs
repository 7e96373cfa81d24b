//! The seed's draws in a command: `{device}`, `{uuid}`, `{hash_seed}`, `{uuid:NAME}`.

use fsdyno_record::seed;

/// The command with every placeholder filled in. What is arbitrary in life comes from the seed:
/// `{uuid}` and `{hash_seed}` are draws of these names, `{uuid:NAME}` is a draw called `uuid:NAME`.
/// Braces around anything else, such as `{journal}`, stay as they are.
pub fn fill(argv: &[String], device: &str, seed: u64) -> Vec<String> {
    argv.iter().map(|word| fill_word(word, device, seed)).collect()
}

fn fill_word(word: &str, device: &str, seed: u64) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let draw =
            after.split_once('}').and_then(|(name, tail)| Some((draw(name, device, seed)?, tail)));
        match draw {
            Some((value, tail)) => {
                filled.push_str(&value);
                rest = tail;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

fn draw(name: &str, device: &str, seed: u64) -> Option<String> {
    match name {
        "device" => Some(device.to_string()),
        "uuid" | "hash_seed" => Some(seed::uuid(seed, name)),
        _ => name.strip_prefix("uuid:").map(|_| seed::uuid(seed, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(word: &str) -> String {
        fill(&[word.to_string()], "/dev/nbd0", 7).concat()
    }

    #[test]
    fn device_and_draws_are_filled_in_and_other_braces_stay() {
        assert_eq!(filled("{device}"), "/dev/nbd0");
        assert_eq!(filled("uuid={uuid}"), format!("uuid={}", seed::uuid(7, "uuid")));
        assert_eq!(filled("{hash_seed},x"), format!("{},x", seed::uuid(7, "hash_seed")));
        assert_eq!(filled("a{b}{journal}{"), "a{b}{journal}{");
        assert_eq!(filled("{{device}}"), "{/dev/nbd0}");
    }

    #[test]
    fn every_draw_is_its_own_and_follows_the_seed() {
        assert_ne!(filled("{uuid}"), filled("{hash_seed}"));
        assert_ne!(filled("{uuid:log}"), filled("{uuid:data}"));
        assert_ne!(fill(&["{uuid}".into()], "x", 7), fill(&["{uuid}".into()], "x", 8));
    }
}
