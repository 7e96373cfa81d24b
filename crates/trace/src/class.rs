//! The compressibility of contents.

use crate::wire::codes;

codes! {
    /// The compressibility of bytes: the ratio of compressed to original size of a 4 KiB sample with LZ4.
    Compressibility, "class of contents" {
        /// Not sampled.
        Unknown = 0, "unknown";
        /// Zeros only.
        Zeros = 1, "zeros";
        /// At most a third.
        High = 2, "high";
        /// At most two thirds.
        Medium = 3, "medium";
        /// At most 95 %.
        Low = 4, "low";
        /// More than 95 %.
        Incompressible = 5, "incompressible";
    }
}

impl Compressibility {
    /// Returns the class of a sample, by compressing it.
    pub fn of(sample: &[u8]) -> Compressibility {
        if sample.is_empty() {
            return Compressibility::Unknown;
        }
        if sample.iter().all(|byte| *byte == 0) {
            return Compressibility::Zeros;
        }
        let compressed = lz4_flex::block::compress(sample).len() as u64;
        let original = sample.len() as u64;
        match compressed * 100 {
            scaled if scaled <= original * 33 => Compressibility::High,
            scaled if scaled <= original * 67 => Compressibility::Medium,
            scaled if scaled <= original * 95 => Compressibility::Low,
            _ => Compressibility::Incompressible,
        }
    }

    /// Returns the ratio of compressed to original size, as a middle value of the class, or `None` if the class is
    /// unknown.
    pub fn share(self) -> Option<f64> {
        match self {
            Compressibility::Unknown => None,
            Compressibility::Zeros => Some(0.0),
            Compressibility::High => Some(0.2),
            Compressibility::Medium => Some(0.5),
            Compressibility::Low => Some(0.8),
            Compressibility::Incompressible => Some(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_class_of_its_compressed_size() {
        assert_eq!(Compressibility::of(&[0; 4096]), Compressibility::Zeros);
        assert_eq!(Compressibility::of(&b"abcabcab".repeat(512)), Compressibility::High);
        // A linear congruential generator: LZ4 finds no repeats in its high bytes.
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .take(4096)
        .collect();
        assert_eq!(Compressibility::of(&noise), Compressibility::Incompressible);
        let half = [&noise[..2048], &[0; 2048][..]].concat();
        assert_eq!(Compressibility::of(&half), Compressibility::Medium);
        assert_eq!(Compressibility::of(&[]), Compressibility::Unknown);
    }
}
