//! Replaces names by hashes: equal names get equal hashes, extensions are kept, and lengths are rounded up to classes.

use fsdyno_trace::Name;
use sha2::{Digest, Sha256};

/// Maximum length of an extension that is kept, in bytes, with its dot.
const EXTENSION: usize = 9;

/// The possible lengths of a hash.
const CLASSES: [usize; 5] = [12, 24, 48, 96, 192];

/// Hashes a name to 12, 24, 48, 96 or 192 characters: the shortest of these lengths that is at least the stem's, or
/// 192. The extension (at most eight letters and digits after the last dot) follows.
pub fn name(name: &Name) -> Name {
    let bytes = name.bytes();
    let (stem, extension) = split(bytes);
    let class = CLASSES.into_iter().find(|class| stem.len() <= *class).unwrap_or(192);
    let mut hashed = Vec::with_capacity(class + extension.len());
    if bytes.starts_with(b".") {
        // A hidden name stays hidden.
        hashed.push(b'.');
    }
    for block in 0u8.. {
        let mut hash = Sha256::new();
        hash.update([block]);
        hash.update(bytes);
        for byte in hash.finalize() {
            hashed.push(b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte & 31)]);
        }
        if hashed.len() >= class {
            break;
        }
    }
    hashed.truncate(class);
    hashed.extend_from_slice(extension);
    Name::new(&hashed).unwrap_or_else(|_| name.clone())
}

/// Splits a name into stem and extension.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let dot = bytes.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
    match dot.map(|at| bytes.split_at(at)) {
        Some((stem, extension))
            if extension.len() <= EXTENSION
                && extension.len() > 1
                && extension[1..].iter().all(u8::is_ascii_alphanumeric) =>
        {
            (stem, extension)
        }
        _ => (bytes, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(text: &[u8]) -> Vec<u8> {
        name(&Name::new(text).unwrap()).bytes().to_vec()
    }

    #[test]
    fn a_hash_keeps_the_extension_and_the_class_of_the_length() {
        let it = hashed(b"salary-2026.xlsx");
        assert_eq!(it.len(), 12 + 5);
        assert!(it.ends_with(b".xlsx"));
        assert_eq!(it, hashed(b"salary-2026.xlsx"));
        assert_ne!(it[..12], hashed(b"salary-2025.xlsx")[..12]);
        assert_eq!(hashed(&[b'n'; 40]).len(), 48);
        assert_eq!(hashed(&[b'n'; 255]).len(), 192);
        assert!(hashed(b".bashrc").starts_with(b"."));
        assert_eq!(hashed(b"a.not an extension").len(), 24);
        assert!(hashed(b"\xff\xfe\n").iter().all(u8::is_ascii_alphanumeric));
    }
}
