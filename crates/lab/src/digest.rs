//! Hashes of large data, computed in pieces on all processors.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use fsdyno_child::Mapped;
use fsdyno_record::canonical::{sha256, sha256_hex};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// The size of a piece, in bytes.
const PIECE: u64 = 1 << 20;

/// Returns a hash, in hex, of a file's length, and of the offset and contents of each piece that is not all zeros.
/// A copy with different holes has the same hash.
///
/// # Errors
/// An error of the host.
pub fn of_file(file: &File) -> io::Result<String> {
    let length = file.metadata()?.len();
    let bytes = Mapped::new(file, usize::try_from(length).map_err(io::Error::other)?)?;
    let piece_at = |at: u64| &bytes.as_ref()[at as usize..(at + PIECE).min(length) as usize];
    let pieces: Vec<(u64, &[u8])> = starts(file, length)?
        .into_iter()
        .map(|at| (at, piece_at(at)))
        .filter(|(_, piece)| piece.iter().any(|byte| *byte != 0))
        .collect();
    let contents: Vec<&[u8]> = pieces.iter().map(|(_, piece)| *piece).collect();
    let mut text = length.to_be_bytes().to_vec();
    for ((at, _), hash) in pieces.iter().zip(of_each(&contents)) {
        text.extend(at.to_be_bytes());
        text.extend(hash);
    }
    Ok(sha256_hex(&text))
}

/// Returns the start offsets of the pieces that are not holes.
fn starts(file: &File, length: u64) -> io::Result<Vec<u64>> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        at = data / PIECE * PIECE;
        while at < hole {
            starts.push(at);
            at += PIECE;
        }
    }
    Ok(starts)
}

/// Returns the SHA-256 of each piece, in order.
pub fn of_each(pieces: &[&[u8]]) -> Vec<[u8; 32]> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = pieces.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let hash = |share: &[&[u8]]| share.iter().map(|piece| sha256(piece)).collect::<Vec<_>>();
        let shares: Vec<_> =
            pieces.chunks(share).map(|share| scope.spawn(move || hash(share))).collect();
        let join = |share: thread::ScopedJoinHandle<'_, _>| {
            share.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        shares.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_hashes_are_in_the_order_of_the_pieces() {
        let numbers: Vec<[u8; 1]> = (0..37).map(|n| [n]).collect();
        let pieces: Vec<&[u8]> = numbers.iter().map(|number| &number[..]).collect();
        let expected: Vec<[u8; 32]> = pieces.iter().map(|piece| sha256(piece)).collect();
        assert_eq!(of_each(&pieces), expected);
        assert!(of_each(&[]).is_empty());
    }

    #[test]
    fn a_file_with_different_holes_has_the_same_hash_and_one_with_a_different_byte_does_not() {
        let file = |write: &dyn Fn(&File)| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(5 * PIECE + 7).unwrap();
            write(&file);
            of_file(&file).unwrap()
        };
        let put = |file: &File, byte: u8, at: u64| file.write_all_at(&[byte], at).unwrap();
        let two = |file: &File| {
            put(file, 1, 3 * PIECE - 1);
            put(file, 2, 5 * PIECE + 6);
        };
        let expected = file(&two);
        let with = |more: &dyn Fn(&File)| {
            file(&|file| {
                two(file);
                more(file);
            })
        };
        assert_eq!(with(&|file| put(file, 0, 7)), expected);
        assert_eq!(with(&|file| put(file, 0, 2 * PIECE)), expected);
        assert_ne!(with(&|file| put(file, 3, 0)), expected);
        assert_ne!(with(&|file| file.set_len(5 * PIECE + 8).unwrap()), expected);
        assert_ne!(file(&|_| ()), expected);
    }
}
