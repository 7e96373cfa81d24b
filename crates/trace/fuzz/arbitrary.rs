//! Arbitrary changes of seeds, for tests that do a part of the work of `make fuzz` with any compiler.

/// A generator of arbitrary numbers, the same in each run (xorshift64).
pub struct Arbitrary(pub u64);

impl Arbitrary {
    /// Returns a number from 0 to below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    /// Returns a seed with a few changes: changed bytes and bits, and parts that are removed, repeated, or taken from
    /// another seed.
    pub fn mutated(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut it = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(6) {
            let at = self.below(it.len());
            let end = (at + 1 + self.below(40)).min(it.len());
            match self.below(6) {
                0 => it[at] = self.below(256) as u8,
                1 => it[at] ^= 1 << self.below(8),
                2 => drop(it.drain(at..end)),
                3 => {
                    let part = it[at..end].to_vec();
                    let to = self.below(it.len());
                    it.splice(to..to, part);
                }
                4 => {
                    let from = &seeds[self.below(seeds.len())];
                    let begin = self.below(from.len());
                    let stop = (begin + self.below(200)).min(from.len());
                    it.splice(at..end, from[begin..stop].to_vec());
                }
                _ => it[at] = [0, 0xff, 0x80, b'0', b'9', b'"', b'\\', b'/'][self.below(8)],
            }
            if it.is_empty() {
                return it;
            }
        }
        it
    }
}

/// Returns the number of mutations: that in FSDYNO_MUTATIONS, or else `many` in test-full and `few` otherwise.
pub fn mutations(few: u64, many: u64) -> u64 {
    let requested = std::env::var("FSDYNO_MUTATIONS").ok().and_then(|it| it.parse().ok());
    let full = std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full");
    requested.unwrap_or(if full { many } else { few })
}
