//! A map by small numbers, whose hash takes a few instructions: several are looked up for each recorded call.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers that are not chosen to be alike, such as ids of threads and inode numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Numbers>>;

/// The hash of numbers.
#[derive(Clone, Copy, Default)]
pub struct Numbers(u64);

impl Hasher for Numbers {
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
        // The map takes the upper and the lower bits.
        self.0 ^ self.0 >> 32
    }
}
