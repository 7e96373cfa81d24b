//! The Mersenne Twister MT19937 with PostMark's seeding, so that its runs can be reproduced.

/// Number of words of the state (Matsumoto and Nishimura, ACM TOMACS 8, 1998, the source of all constants except those
/// of the seeding).
const WORDS: usize = 624;
/// Distance between the words that are mixed.
const SHIFT: usize = 397;

/// The generator. Its seeding is the one that its authors published on 28 October 1999 [SRC], which is older than the
/// `init_genrand` of 2002 in today's libraries: the same seed produces different numbers.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    state: [u32; WORDS],
    next: usize,
}

impl Mt19937 {
    /// Seeds a generator: each word consists of the upper halves of two steps of a linear congruential generator.
    pub fn new(seed: u32) -> Mt19937 {
        let mut x = seed;
        let mut half = || {
            let upper = x & 0xffff_0000;
            x = x.wrapping_mul(69069).wrapping_add(1);
            upper
        };
        let state = std::array::from_fn(|_| half() | half() >> 16);
        Mt19937 { state, next: WORDS }
    }

    /// Draws the next 32-bit number.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.generate();
            self.next = 0;
        }
        let mut x = self.state[self.next];
        self.next += 1;
        x ^= x >> 11;
        x ^= (x << 7) & 0x9d2c_5680;
        x ^= (x << 15) & 0xefc6_0000;
        x ^ (x >> 18)
    }

    /// Draws a number below `bound` as PostMark does, as a remainder. If the bound is zero, nothing is drawn.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    /// Skips `count` numbers.
    pub fn skip(&mut self, mut count: u64) {
        while count > 0 {
            if self.next == WORDS {
                self.generate();
                self.next = 0;
            }
            let step = count.min((WORDS - self.next) as u64);
            self.next += step as usize;
            count -= step;
        }
    }

    /// Regenerates all words, in ranges that need no division: for a file size of 1 GiB, two billion numbers are
    /// skipped while the user waits.
    fn generate(&mut self) {
        const UPPER: usize = WORDS - SHIFT;
        for index in 0..UPPER {
            self.twist(index, index + 1, index + SHIFT);
        }
        for index in UPPER..WORDS - 1 {
            self.twist(index, index + 1, index - UPPER);
        }
        self.twist(WORDS - 1, 0, SHIFT - 1);
    }

    #[inline]
    fn twist(&mut self, index: usize, next: usize, mixed_in: usize) {
        let mixed = (self.state[index] & 0x8000_0000) | (self.state[next] & 0x7fff_ffff);
        let twist = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
        self.state[index] = self.state[mixed_in] ^ (mixed >> 1) ^ twist;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_42_draws_what_postmark_draws() {
        let mut draws = Mt19937::new(42);
        let first: [u32; 5] = std::array::from_fn(|_| draws.draw());
        assert_eq!(first, [4179544424, 615236124, 4165290828, 3119652344, 1623863471]);
    }

    #[test]
    fn seed_42_fills_postmarks_buffer_as_traced_by_strace() {
        let mut draws = Mt19937::new(42);
        let text: String = (0..32).map(|_| char::from(32 + draws.below(95) as u8)).collect();
        assert_eq!(text, "LeZebJ6S5~qPv$C$py}hmKd H58nM4~.");
    }

    #[test]
    fn skipped_numbers_are_those_that_would_have_been_drawn() {
        for count in [0, 1, 623, 624, 625, 5000] {
            let (mut skipped, mut drawn) = (Mt19937::new(7), Mt19937::new(7));
            drawn.draw();
            skipped.draw();
            skipped.skip(count);
            (0..count).for_each(|_| {
                drawn.draw();
            });
            assert_eq!(skipped.draw(), drawn.draw(), "{count}");
        }
    }

    #[test]
    fn a_bound_of_zero_draws_nothing() {
        let mut draws = Mt19937::new(42);
        assert_eq!(draws.below(0), 0);
        assert_eq!(draws.draw(), 4179544424);
    }
}
