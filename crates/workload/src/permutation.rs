//! Orders of `0..n` computed index by index, so that shuffling a million files needs no array.

use fsdyno_record::seed;

/// Rounds of the bijection; see [`Permutation`].
const ROUNDS: usize = 3;

/// A pseudo-random bijection of `0..n`.
///
/// The numbers of `b` bits, where `2^b` is the first power of two not below `n`, are permuted by rounds of "add,
/// multiply by an odd number, xor with the upper half", all modulo `2^b`, with all constants drawn from the seed. Each
/// step has an inverse, so each round is a bijection; the multiplication carries low bits up and the xor carries high
/// bits down, as in the finalisers of MurmurHash3 and SplitMix64. An element outside `0..n` is permuted again until it
/// falls inside (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), in fewer than
/// two passes on average. The order is irregular, not cryptographic, and for a handful of elements only some of the
/// possible orders occur.
#[derive(Clone, Debug)]
pub struct Permutation {
    length: u64,
    mask: u64,
    shift: u32,
    rounds: [Round; ROUNDS],
}

#[derive(Clone, Copy, Debug)]
struct Round {
    add: u64,
    multiply: u64,
    /// Inverse of `multiply` modulo 2^64, hence modulo every smaller power of two.
    divide: u64,
}

impl Permutation {
    /// Creates the bijection of `0..length` that is drawn from `seed` under `name`.
    pub fn new(length: u64, seed: u64, name: &str) -> Permutation {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let mut draws = seed::stream(seed, name);
        let rounds = std::array::from_fn(|_| {
            let multiply = draws.draw() | 1;
            Round { add: draws.draw(), multiply, divide: inverse(multiply) }
        });
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        // Half the bits, rounded up, so that the xor is its own inverse.
        Permutation { length, mask, shift: bits.div_ceil(2).max(1), rounds }
    }

    /// Returns the number of elements.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the element at `index`; `index` must be below the length.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            for round in &self.rounds {
                x = x.wrapping_add(round.add).wrapping_mul(round.multiply) & self.mask;
                x ^= x >> self.shift;
            }
            // An empty permutation has no elements, and the search must not loop forever.
            if x < self.length || self.length == 0 {
                return x;
            }
        }
    }

    /// Returns the index of `element`: `index_of(at(i)) == i`.
    #[inline]
    pub fn index_of(&self, element: u64) -> u64 {
        let mut x = element;
        loop {
            for round in self.rounds.iter().rev() {
                x ^= x >> self.shift;
                x = (x & self.mask).wrapping_mul(round.divide).wrapping_sub(round.add) & self.mask;
            }
            if x < self.length || self.length == 0 {
                return x;
            }
        }
    }
}

/// Computes the inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the number of correct
/// bits, and an odd number is its own inverse modulo 8 (Warren, Hacker's Delight, 10-16).
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// The order in which the elements `0..n` are taken.
#[derive(Clone, Debug)]
pub enum Order {
    /// 0, 1, 2 ...
    Forward,
    /// ... 2, 1, 0; the value is `n`.
    Reverse(u64),
    /// The order of the permutation.
    Random(Permutation),
    /// The order of the permutation, from its end to its beginning.
    RandomReverse(Permutation),
}

impl Order {
    /// Returns the order of `0..length` called `forward`, `reverse` or `random`; a random one is drawn
    /// from `seed` under `name`.
    pub fn named(order: &str, length: u64, seed: u64, name: &str) -> Order {
        match order {
            "reverse" => Order::Reverse(length),
            "random" => Order::Random(Permutation::new(length, seed, name)),
            _ => Order::Forward,
        }
    }

    /// Returns the order of `0..length` of the same kind; a random one is drawn from `seed` under `name`.
    pub fn of_length(&self, length: u64, seed: u64, name: &str) -> Order {
        let new_permutation = || Permutation::new(length, seed, name);
        match self {
            Order::Forward => Order::Forward,
            Order::Reverse(_) => Order::Reverse(length),
            Order::Random(_) => Order::Random(new_permutation()),
            Order::RandomReverse(_) => Order::RandomReverse(new_permutation()),
        }
    }

    /// Returns the element at `index`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        match self {
            Order::Forward => index,
            Order::Reverse(length) => length - 1 - index,
            Order::Random(permutation) => element_at(permutation, index),
            Order::RandomReverse(permutation) => {
                element_at(permutation, permutation.length - 1 - index)
            }
        }
    }
}

/// Returns the element at `index`. It is not inlined, so that the plain orders save no registers for it.
#[inline(never)]
fn element_at(permutation: &Permutation, index: u64) -> u64 {
    permutation.at(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_occurs_once_and_its_index_is_found(n in 1u64..5000, seed: u64) {
            let order = Permutation::new(n, seed, "order");
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let element = order.at(index);
                prop_assert!(!std::mem::replace(&mut seen[element as usize], true));
                prop_assert_eq!(order.index_of(element), index);
            }
        }

        #[test]
        fn large_lengths_have_an_inverse_too(n in 1u64.., seed: u64, index: u64) {
            let order = Permutation::new(n, seed, "order");
            prop_assert_eq!(order.index_of(order.at(index % n)), index % n);
        }
    }

    #[test]
    fn an_order_has_no_runs_no_drift_and_no_preferred_distance() {
        for (n, seed) in [(10_000u64, 1u64), (65_536, 2), (65_537, 3), (725_000, 4)] {
            let order = Permutation::new(n, seed, "order");
            let elements: Vec<u64> = (0..n).map(|index| order.at(index)).collect();
            // In a random order a pair of neighbours ascends with probability 1/2 and the pairs'
            // variance is (n + 1) / 12 (Knuth 2, 3.3.2 G); ten standard deviations allow for the
            // limited randomness of these bijections.
            let ascents = elements.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64;
            let deviation = ((n + 1) as f64 / 12.0).sqrt();
            assert!((ascents - n as f64 / 2.0).abs() < 10.0 * deviation, "{n}: {ascents} ascents");
            // The distance between neighbours takes many values, unlike a mere stride.
            let mut distances: Vec<u64> =
                elements.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
            distances.sort_unstable();
            distances.dedup();
            assert!(distances.len() as u64 > n / 3, "{n}: {} distances", distances.len());
            // Fixed points are Poisson with mean 1.
            let fixed = elements.iter().zip(0..).filter(|(element, index)| **element == *index);
            assert!(fixed.count() < 12);
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let (a, b) = (Permutation::new(1000, 1, "x"), Permutation::new(1000, 2, "x"));
        assert!((0..1000).filter(|index| a.at(*index) == b.at(*index)).count() < 20);
    }

    #[test]
    fn a_reversed_order_is_the_order_from_its_end() {
        let order = Permutation::new(100, 7, "x");
        let (forward, backward) = (Order::Random(order.clone()), Order::RandomReverse(order));
        assert!((0..100).all(|index| forward.at(index) == backward.at(99 - index)));
        assert_eq!(Order::named("reverse", 10, 0, "x").at(0), 9);
        assert_eq!(Order::named("forward", 10, 0, "x").at(3), 3);
    }

    #[test]
    fn empty_and_single_element_permutations_have_one_order() {
        assert_eq!(Permutation::new(1, 5, "x").at(0), 0);
        assert_eq!(Permutation::new(0, 5, "x").at(0), 0);
    }
}
