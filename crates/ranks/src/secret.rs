//! The secret of a run: both ends of a connection prove that they know it (HMAC-SHA256 of fresh nonces) without
//! sending it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secret, 32 random bytes in hex.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Draws a secret.
    ///
    /// # Errors
    /// The error from getrandom(2).
    pub fn draw() -> std::io::Result<Secret> {
        draw_nonce().map(Secret)
    }

    /// Parses a secret.
    ///
    /// # Errors
    /// The text has fewer than 16 or more than 200 characters, or blanks.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let fits =
            (16..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        match fits {
            true => Ok(Secret(text.to_string())),
            false => Err("a secret has 16 to 200 characters without blanks".into()),
        }
    }

    /// Returns the secret as text.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn mac(&self, parts: &[&str]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac)
    }

    /// Returns a proof that this process knows the secret, over these parts, in hex.
    pub fn proof(&self, parts: &[&str]) -> String {
        let bytes = self.mac(parts).map(|mac| mac.finalize().into_bytes());
        bytes.map(|bytes| hex(&bytes)).unwrap_or_default()
    }

    /// Checks a proof, in constant time.
    pub fn is_proof(&self, parts: &[&str], proof: &str) -> bool {
        let (Some(mac), Some(bytes)) = (self.mac(parts), unhex(proof)) else { return false };
        mac.verify_slice(&bytes).is_ok()
    }
}

/// Returns a fresh nonce: 32 random bytes in hex.
///
/// # Errors
/// The error from getrandom(2).
pub fn draw_nonce() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    match got == bytes.len() {
        true => Ok(hex(&bytes)),
        false => Err(std::io::Error::other("getrandom(2) gave too few bytes")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, without this module's lengths before each part.
    #[test]
    fn the_library_computes_the_hmac_of_the_rfc() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&mac.finalize().into_bytes()), expected);
    }

    #[test]
    fn a_proof_is_valid_for_one_secret_and_its_parts_only() {
        let (secret, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert_ne!(secret, other);
        let proof = secret.proof(&["rank", "a", "b"]);
        assert!(secret.is_proof(&["rank", "a", "b"], &proof));
        assert!(!other.is_proof(&["rank", "a", "b"], &proof));
        assert!(!secret.is_proof(&["rank", "ab", ""], &proof));
        assert!(!secret.is_proof(&["rank", "a", "b"], "") && !secret.is_proof(&["rank"], "zz"));
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = Secret::draw().unwrap();
        assert!(!format!("{secret:?}").contains(secret.text()));
        assert!(Secret::parse("short").is_err() && Secret::parse(&"x".repeat(16)).is_ok());
    }
}
