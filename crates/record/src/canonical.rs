//! Canonical JSON and its SHA-256: equal values have the same bytes, and therefore the same hash.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns canonical JSON: sorted keys and no white space (the parts of RFC 8785 that this project's records need:
/// hashed values contain no floating-point numbers).
///
/// # Errors
/// The error of `serde_json` for a value without a JSON form.
pub fn to_string<T: Serialize>(value: &T) -> serde_json::Result<String> {
    // serde_json's map is a BTreeMap, so converting to a value sorts the keys.
    let value: Value = serde_json::to_value(value)?;
    serde_json::to_string(&value)
}

/// Returns the SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 of some bytes, in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha256(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An incremental SHA-256 computation.
#[derive(Clone, Debug, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all bytes, in lower-case hex.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value =
            serde_json::from_str(r#"{"b":{"z":1,"a":2},"a":[{"d":1,"c":2}]}"#).unwrap();
        assert_eq!(to_string(&value).unwrap(), r#"{"a":[{"c":2,"d":1}],"b":{"a":2,"z":1}}"#);
    }

    #[test]
    fn a_number_is_read_exactly_as_written() {
        // Without serde_json's float_roundtrip these are read as their neighbours.
        for number in ["47.325527971339596", "0.010000000000000002"] {
            let value: Value = serde_json::from_str(number).unwrap();
            assert_eq!(to_string(&value).unwrap(), number);
        }
    }

    #[test]
    fn the_hash_is_sha256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
