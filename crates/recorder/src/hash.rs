//! A hash map for integer keys with a hash of a few instructions: each recorded call needs several look-ups.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with integer keys that no adversary chooses, such as thread IDs and inode numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<IntegerHasher>>;

/// A hasher of integers.
#[derive(Clone, Copy, Default)]
pub struct IntegerHasher(u64);

impl Hasher for IntegerHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // The map uses the upper and the lower bits.
        self.0 ^ self.0 >> 32
    }
}
