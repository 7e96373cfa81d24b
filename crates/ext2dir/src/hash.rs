//! Half-MD4, the hash that orders an indexed directory: MD4 (RFC 1320) reduced to three rounds of eight steps
//! over 32 bytes at a time, as in ext3 and ext4 (fs/ext3/hash.c). Tested against `debugfs -R dx_hash`
//! (tests/oracle.rs).

/// Additive constant of each round; of the second and the third: the square roots of 2 and 3 (RFC 1320).
const ROUNDS: [u32; 3] = [0, 0x5a82_7999, 0x6ed9_eba1];

/// Word order of each round.
const WORDS: [[usize; 8]; 3] =
    [[0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7, 0, 2, 4, 6], [3, 7, 2, 6, 1, 5, 0, 4]];
/// Rotations of the four steps that repeat within each round.
const ROTATIONS: [[u32; 4]; 3] = [[3, 7, 11, 19], [3, 5, 9, 13], [3, 9, 11, 15]];

/// The initial state if there is no seed (RFC 1320).
const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The largest hash value, which no name may have (EXT3_HTREE_EOF).
const END: u32 = 0x7fff_ffff;

/// Computes the hash of a name under a directory's seed (all zeros: no seed). Its lowest bit is 0: in an index, that
/// bit marks a hash whose entries continue in another block.
pub fn half_md4(name: &[u8], seed: [u32; 4]) -> u32 {
    let mut state = if seed == [0; 4] { INITIAL } else { seed };
    let mut remaining = name;
    while !remaining.is_empty() {
        transform(&mut state, next_words(remaining));
        remaining = &remaining[remaining.len().min(32)..];
    }
    let hash = state[1] & !1;
    if hash == END << 1 { (END - 1) << 1 } else { hash }
}

/// Returns the next 32 bytes as eight words, padded with the number of remaining bytes. Bytes are signed,
/// as on the machines of 2001.
fn next_words(remaining: &[u8]) -> [u32; 8] {
    let length = remaining.len() as u32;
    let pad = length | length << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; 8];
    for (i, byte) in remaining.iter().take(32).enumerate() {
        let word = &mut words[i / 4];
        *word = (*byte as i8 as i32 as u32).wrapping_add(*word << 8);
    }
    words
}

fn transform(state: &mut [u32; 4], words: [u32; 8]) {
    let mix = |round: usize, x: u32, y: u32, z: u32| match round {
        0 => z ^ (x & (y ^ z)),
        1 => (x & y).wrapping_add((x ^ y) & z),
        _ => x ^ y ^ z,
    };
    let mut registers = *state;
    for round in 0..3 {
        for step in 0..8 {
            // The register that changes rotates backwards: a, d, c, b.
            let register = (4 - step % 4) % 4;
            let [x, y, z] = [1, 2, 3].map(|next| registers[(register + next) % 4]);
            let sum = registers[register]
                .wrapping_add(mix(round, x, y, z))
                .wrapping_add(words[WORDS[round][step]])
                .wrapping_add(ROUNDS[round]);
            registers[register] = sum.rotate_left(ROTATIONS[round][step % 4]);
        }
    }
    for (old, new) in state.iter_mut().zip(registers) {
        *old = old.wrapping_add(new);
    }
}
