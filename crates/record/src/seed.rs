//! Draws all random choices of a trial deterministically from its seed.
//!
//! A repeat in the lab varies only what is arbitrary on real hardware: UUID, hash seed, start delay, rotational
//! position, offset of the partition, order of files. Each value is drawn from the seed and its own name, so adding a
//! draw never changes the others.

/// A small generator for draws that need a stream: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014; constants from Vigna's splitmix64.c).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a stream that starts at `state`.
    pub fn new(state: u64) -> SplitMix64 {
        SplitMix64(state)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound` (zero if the bound is zero), by multiplication (Lemire 2019, without the
    /// rejection step: the bias is below bound / 2^64).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.draw() as u128 * bound as u128) >> 64) as u64
    }
}

/// Applies the finaliser of SplitMix64: a bijection of 64-bit words in which every input bit affects every output bit.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the stream of draws named `name` for `seed`.
pub fn stream(seed: u64, name: &str) -> SplitMix64 {
    // FNV-1a over the name (Fowler, Noll, Vo), mixed by the finaliser.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    SplitMix64::new(mix(hash) ^ mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// Returns a version 4 UUID (RFC 9562) for `name` and `seed`.
pub fn uuid(seed: u64, name: &str) -> String {
    let mut draws = stream(seed, name);
    let high = (draws.draw() & !0xf000) | 0x4000;
    let low = (draws.draw() & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_well_formed_and_depends_on_seed_and_name() {
        let id = uuid(7, "uuid");
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
        assert_eq!(id, uuid(7, "uuid"));
        assert_ne!(id, uuid(8, "uuid"));
        assert_ne!(id, uuid(7, "hash_seed"));
    }

    #[test]
    fn splitmix_draws_the_published_first_word_for_seed_zero() {
        assert_eq!(SplitMix64::new(0).draw(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn below_stays_below() {
        let mut draws = stream(1, "x");
        assert!((0..1000).all(|_| draws.below(7) < 7));
        assert_eq!(draws.below(0), 0);
    }
}
