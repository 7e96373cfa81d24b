//! Extracts the ELF vmlinux from a bzImage, so that the guest need not decompress it.
//!
//! The layout is that of Documentation/arch/x86/boot.rst: the setup header at 0x1f1 contains the number of
//! sectors of real-mode code, and the position of the payload in the protected-mode part.

use std::borrow::Cow;
use std::io::Read;

use fsdyno_record::bounded::{Bounded, PARTS};

use crate::elf::Elf;

/// The reason why no kernel could be extracted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PayloadError {
    /// Neither ELF nor bzImage.
    #[error("it is neither a bzImage nor an ELF vmlinux")]
    NotAKernel,
    /// The setup header points outside the file.
    #[error("its setup header points outside the file")]
    Truncated,
    /// The compression is not supported.
    #[error("its payload begins with {0}, which is none of xz, gzip, zstd, lz4")]
    UnknownCompression(String),
    /// The decompressor failed.
    #[error("its {format} payload cannot be decompressed: {reason}")]
    Corrupt {
        /// `xz`, `gzip`, `zstd` or `lz4`.
        format: &'static str,
        /// The error of the decompressor.
        reason: String,
    },
}

const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const VERSION_POINTER: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

type Unpack = fn(&[u8]) -> Result<Vec<u8>, String>;

/// The compressions of a bzImage: name, first bytes, decompressor.
const FORMATS: &[(&str, &[u8], Unpack)] = &[
    ("xz", b"\xfd7zXZ\0", unpack_xz),
    ("gzip", b"\x1f\x8b", unpack_gzip),
    ("zstd", b"\x28\xb5\x2f\xfd", unpack_zstd),
    ("lz4", b"\x02\x21\x4c\x18", unpack_lz4),
];

/// Returns the ELF kernel in `image`, which is a bzImage or already an ELF kernel.
///
/// # Errors
/// [`PayloadError`] if the image is neither of these, is truncated, or has an unknown compression.
pub fn vmlinux(image: &[u8]) -> Result<Cow<'_, [u8]>, PayloadError> {
    if image.starts_with(b"\x7fELF") {
        return Ok(Cow::Borrowed(image));
    }
    let payload = payload(image)?;
    let (format, _, unpack) =
        FORMATS.iter().find(|(_, magic, _)| payload.starts_with(magic)).ok_or_else(|| {
            let first = &payload[..payload.len().min(4)];
            PayloadError::UnknownCompression(first.iter().map(|b| format!("{b:02x}")).collect())
        })?;
    let kernel = unpack(payload).map_err(|reason| PayloadError::Corrupt { format, reason })?;
    if !kernel.starts_with(b"\x7fELF") {
        return Err(PayloadError::Corrupt { format, reason: "it contains no ELF file".into() });
    }
    Ok(Cow::Owned(kernel))
}

/// Returns the release of a kernel, as in `uname -r`: from the setup header of a bzImage, or from the
/// banner in a vmlinux.
pub fn release(image: &[u8]) -> Option<String> {
    let start = if image.starts_with(b"\x7fELF") {
        const BANNER: &[u8] = b"Linux version ";
        // The first match may be the format string "Linux version %s"; a release has a digit.
        (0..image.len().saturating_sub(BANNER.len())).find(|&at| {
            image[at] == b'L'
                && image[at..].starts_with(BANNER)
                && image.get(at + BANNER.len()).is_some_and(u8::is_ascii_digit)
        })? + BANNER.len()
    } else {
        header_magic(image).ok()?;
        let pointer = image.get(VERSION_POINTER..VERSION_POINTER + 2)?;
        usize::from(u16::from_le_bytes([pointer[0], pointer[1]])) + 0x200
    };
    let text = image.get(start..(start + 256).min(image.len()))?;
    let end = text.iter().position(|byte| !byte.is_ascii_graphic())?;
    let text = String::from_utf8_lossy(&text[..end]).into_owned();
    text.starts_with(|c: char| c.is_ascii_digit()).then_some(text)
}

/// Returns true if QEMU can enter this ELF kernel directly: it needs the Xen note with the entry of a PVH
/// guest (CONFIG_PVH).
pub fn has_pvh_entry(vmlinux: &[u8]) -> bool {
    // XEN_ELFNOTE_PHYS32_ENTRY, xen/interface/elfnote.h.
    const PHYS32_ENTRY: u32 = 18;
    Elf::parse(vmlinux).is_ok_and(|elf| elf.has_note(b"Xen\0", PHYS32_ENTRY))
}

/// Decompresses a file according to its first bytes; returns an uncompressed file unchanged.
pub(crate) fn unpack_by_magic(bytes: Vec<u8>) -> Result<Vec<u8>, PayloadError> {
    match FORMATS.iter().find(|(_, magic, _)| bytes.starts_with(magic)) {
        Some((format, _, unpack)) => {
            unpack(&bytes).map_err(|reason| PayloadError::Corrupt { format, reason })
        }
        None => Ok(bytes),
    }
}

fn header_magic(image: &[u8]) -> Result<(), PayloadError> {
    match image.get(MAGIC..MAGIC + 4) {
        Some(b"HdrS") => Ok(()),
        _ => Err(PayloadError::NotAKernel),
    }
}

fn payload(image: &[u8]) -> Result<&[u8], PayloadError> {
    header_magic(image)?;
    let word = |at: usize| -> Result<usize, PayloadError> {
        let bytes = image.get(at..at + 4).ok_or(PayloadError::Truncated)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    // A count of zero means four, for compatibility with very old boot loaders.
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        n => usize::from(n),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET)?;
    image.get(start..start + word(PAYLOAD_LENGTH)?).ok_or(PayloadError::Truncated)
}

fn read_all(reader: impl Read) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    Bounded::new(reader, &PARTS).read_to_end(&mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn unpack_xz(bytes: &[u8]) -> Result<Vec<u8>, String> {
    read_all(liblzma::bufread::XzDecoder::new(bytes))
}

fn unpack_gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    read_all(flate2::bufread::GzDecoder::new(bytes))
}

fn unpack_zstd(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // One frame only: the kernel's build appends four bytes with the decompressed size.
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|e| e.to_string())?;
    read_all(decoder.single_frame())
}

/// Decompresses a legacy LZ4 frame: after the magic, blocks of at most 8 MiB when decompressed, each preceded by its
/// compressed size. The frame has no end mark; the kernel's build appends the decompressed size.
fn unpack_lz4(bytes: &[u8]) -> Result<Vec<u8>, String> {
    const BLOCK: usize = 8 << 20;
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let (blocks, size) = match bytes.len() {
        0..8 => return Err("cut short".into()),
        n => (&bytes[4..n - 4], word(&bytes[n - 4..])),
    };
    if size as u64 > PARTS.max_size.0 {
        return Err(format!("it is larger than {}", PARTS.max_size));
    }
    let mut out = Vec::new();
    let mut rest = blocks;
    while out.len() < size {
        let (head, after) = rest.split_at_checked(4).ok_or("cut short")?;
        let (block, after) = after.split_at_checked(word(head)).ok_or("cut short")?;
        out.extend(lz4_flex::block::decompress(block, BLOCK).map_err(|e| e.to_string())?);
        rest = after;
    }
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    const KERNEL: &[u8] = b"\x7fELF a kernel, a kernel, a kernel, a kernel, a kernel";

    /// Returns a bzImage with one sector of setup code, `payload` at offset 64, and a version.
    pub(crate) fn bz_image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 64];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[VERSION_POINTER..VERSION_POINTER + 2].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x312].copy_from_slice(b"6.1.0-test (me) #1");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&64u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"whatever follows the payload");
        image
    }

    /// Returns an ELF file with only the note that QEMU searches for.
    pub(crate) fn pvh_kernel() -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[32] = 64; // e_phoff
        elf[54] = 56; // e_phentsize
        elf[56] = 1; // e_phnum
        for word in [4u64, 120, 0, 0, 20, 20, 4] {
            elf.extend(word.to_le_bytes());
        }
        for word in [4u32, 4, 18] {
            elf.extend(word.to_le_bytes());
        }
        elf.extend(b"Xen\0entr");
        elf
    }

    #[test]
    fn the_note_with_the_entry_point_is_found() {
        assert!(has_pvh_entry(&pvh_kernel()));
        assert!(!has_pvh_entry(KERNEL) && !has_pvh_entry(&pvh_kernel()[..130]));
    }

    fn with_size(mut packed: Vec<u8>) -> Vec<u8> {
        packed.extend_from_slice(&(KERNEL.len() as u32).to_le_bytes());
        packed
    }

    /// Compresses as the kernel's build does, with the x86 filter.
    fn xz() -> Vec<u8> {
        use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
        let mut filters = Filters::new();
        filters.x86().lzma2(&LzmaOptions::new_preset(6).unwrap());
        let stream = Stream::new_stream_encoder(&filters, Check::Crc32).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(KERNEL).unwrap();
        with_size(encoder.finish().unwrap())
    }

    fn gzip() -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(KERNEL).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4() -> Vec<u8> {
        let mut packed = b"\x02\x21\x4c\x18".to_vec();
        for half in KERNEL.chunks(KERNEL.len().div_ceil(2)) {
            let block = lz4_flex::block::compress(half);
            packed.extend_from_slice(&(block.len() as u32).to_le_bytes());
            packed.extend_from_slice(&block);
        }
        with_size(packed)
    }

    #[test]
    fn a_kernel_is_extracted_from_each_of_the_four_compressions() {
        let zstd = with_size(zstd::encode_all(KERNEL, 3).unwrap());
        for (name, packed) in [("xz", xz()), ("gzip", gzip()), ("zstd", zstd), ("lz4", lz4())] {
            let image = bz_image(&packed);
            assert_eq!(vmlinux(&image).as_deref(), Ok(KERNEL), "{name}");
        }
    }

    #[test]
    fn a_vmlinux_is_returned_unchanged() {
        assert!(matches!(vmlinux(KERNEL), Ok(Cow::Borrowed(KERNEL))));
    }

    #[test]
    fn the_release_is_read_from_either_form() {
        assert_eq!(release(&bz_image(b"")).as_deref(), Some("6.1.0-test"));
        let elf = b"\x7fELF..Linux version %s..Linux version 6.12.9 (me@here)";
        assert_eq!(release(elf).as_deref(), Some("6.12.9"));
        assert_eq!(release(b"#!/bin/sh"), None);
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        assert_eq!(vmlinux(b"#!/bin/sh\n"), Err(PayloadError::NotAKernel));
        let unknown = bz_image(b"BZh91AY");
        assert_eq!(vmlinux(&unknown), Err(PayloadError::UnknownCompression("425a6839".into())));
        let mut short = bz_image(&gzip());
        short.truncate(1100);
        assert_eq!(vmlinux(&short), Err(PayloadError::Truncated));
        let mut broken = lz4();
        broken.truncate(20);
        assert!(matches!(
            vmlinux(&bz_image(&broken)),
            Err(PayloadError::Corrupt { format: "lz4", .. })
        ));
    }
}
