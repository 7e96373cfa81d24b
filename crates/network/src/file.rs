//! A network as a file: rate, delay and queue of its links, each with its source.

use fsdyno_catalog::{FileError, Source, Text};
use fsdyno_record::Nanos;
use serde::Deserialize;
use toml::Spanned;

/// A network: a switch with a link to the server and to each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name in the catalog, or the path of its file as given.
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// Rate of a link in either direction, in bits per second.
    pub bits_per_second: u64,
    /// Delay of a packet on a link, in either direction.
    pub delay_ns: Nanos,
    /// Maximum number of packets that wait for a link or are in transit on it.
    pub limit: u32,
    /// The origin of each value.
    pub source: Vec<Source>,
}

/// The file of a network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    rate: Spanned<String>,
    delay: Spanned<String>,
    limit: Spanned<u32>,
    #[serde(default)]
    source: Vec<Source>,
}

/// A description of the keys of a file, for errors.
const KEYS_HINT: &str = "a network file has the keys about, rate, delay and limit, and a [[source]] with what and from for each (an \
                    example: fsdyno show network lan-10g)";

/// The rates that the model supports, in bits per second: from that of an old modem to more than the guest's processor
/// can send.
const RATES: (u64, u64) = (1_000, 1_000_000_000_000);

/// The maximum delay of a link.
const MAX_DELAY: Nanos = Nanos(10_000_000_000);

/// The maximum number of packets in a queue, so that they fit in the guest's memory.
const MAX_PACKETS: u32 = 1_000_000;

impl Network {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`FileError`] for the first invalid value.
    pub fn from_toml(name: &str, file: &str, text: &str) -> Result<Network, FileError> {
        let text = Text { file, text };
        let parsed: File = text.parse(KEYS_HINT)?;
        let bits_per_second = parse_rate(parsed.rate.get_ref()).ok_or_else(|| {
            let value = parsed.rate.get_ref();
            let correction = "write a whole number with a unit, such as \"10 Gbit/s\" or \"800 Mbit/s\", up to 1000 Gbit/s";
            text.error_at(parsed.rate.span(), format!("rate = \"{value}\" is not valid; {correction}"))
        })?;
        let delay_ns = parse_delay(parsed.delay.get_ref()).ok_or_else(|| {
            let value = parsed.delay.get_ref();
            let correction = "write a whole number with a unit, such as \"2500 ns\", \"8 us\" or \"5 ms\", up to 10 s";
            text.error_at(parsed.delay.span(), format!("delay = \"{value}\" is not valid; {correction}"))
        })?;
        let limit = *parsed.limit.get_ref();
        if !(1..=MAX_PACKETS).contains(&limit) {
            let problem = format!(
                "limit = {limit} is not valid; write a number of packets from 1 to {MAX_PACKETS}"
            );
            return Err(text.error_at(parsed.limit.span(), problem));
        }
        let (name, about, source) = (name.to_string(), parsed.about, parsed.source);
        Ok(Network { name, about, bits_per_second, delay_ns, limit, source })
    }
}

/// Splits a value into a whole number and its unit.
fn split_unit(value: &str) -> Option<(u64, &str)> {
    let end = value.find(|c: char| !c.is_ascii_digit())?;
    Some((value[..end].parse().ok()?, value[end..].trim()))
}

fn parse_rate(value: &str) -> Option<u64> {
    let (number, unit) = split_unit(value)?;
    let unit_bits = match unit {
        "kbit/s" => 1_000,
        "Mbit/s" => 1_000_000,
        "Gbit/s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit_bits).filter(|rate| (RATES.0..=RATES.1).contains(rate))
}

fn parse_delay(value: &str) -> Option<Nanos> {
    let (number, unit) = split_unit(value)?;
    let unit_ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit_ns).map(Nanos).filter(|delay| *delay <= MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str =
        "about = \"mine\"\nrate = \"10 Gbit/s\"\ndelay = \"2500 ns\"\nlimit = 1000\n";

    #[test]
    fn a_file_has_the_values_of_a_link() {
        let network = Network::from_toml("n", "n.toml", EXAMPLE).unwrap();
        assert_eq!((network.bits_per_second, network.delay_ns), (10_000_000_000, Nanos(2_500)));
        assert_eq!((network.limit, network.about.as_str()), (1000, "mine"));
        let changed = EXAMPLE.replace("10 Gbit/s", "800Mbit/s").replace("2500 ns", "5 ms");
        let network = Network::from_toml("n", "n.toml", &changed).unwrap();
        assert_eq!((network.bits_per_second, network.delay_ns), (800_000_000, Nanos(5_000_000)));
    }

    #[test]
    fn an_invalid_value_is_refused_with_its_line_and_a_correction() {
        for (from, to, expected) in [
            (
                "10 Gbit/s",
                "10G",
                "n.toml:2: rate = \"10G\" is not valid; write a whole number with a unit",
            ),
            ("10 Gbit/s", "0 Gbit/s", "n.toml:2: rate"),
            ("10 Gbit/s", "2000 Gbit/s", "n.toml:2: rate"),
            ("10 Gbit/s", "99999999999999999999 Gbit/s", "n.toml:2: rate"),
            ("2500 ns", "2500", "n.toml:3: delay = \"2500\" is not valid"),
            ("2500 ns", "1 h", "n.toml:3: delay"),
            ("2500 ns", "11 s", "n.toml:3: delay"),
            (
                "limit = 1000",
                "limit = 0",
                "n.toml:4: limit = 0 is not valid; write a number of packets",
            ),
            ("limit = 1000", "limit = -1", "n.toml:4: "),
            ("limit", "loss", "n.toml:4: unknown field `loss`"),
            (
                "limit = 1000\n",
                "",
                "missing field `limit`; a network file has the keys about, rate, delay and limit",
            ),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            let error = Network::from_toml("n", "n.toml", &text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{to}: {error}");
        }
    }
}
