//! A buffer whose memory O_DIRECT accepts.

/// The alignment and granularity in bytes: the largest logical block of a device that Linux file systems support.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page(#[allow(dead_code, reason = "the bytes are read through a pointer")] [u8; 4096]);

/// A buffer that begins at a page boundary and grows as needed.
#[derive(Default)]
pub(super) struct AlignedBuffer(Vec<Page>);

impl AlignedBuffer {
    /// Returns the first `length` bytes.
    pub(super) fn prefix(&mut self, length: usize) -> &mut [u8] {
        let pages = length.div_ceil(size_of::<Page>());
        if self.0.len() < pages {
            self.0.resize(pages, Page([0; 4096]));
        }
        // SAFETY: the pages are plain bytes without padding, consecutive, and `length` lies within them.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_any_length_begins_at_a_page() {
        let mut buffer = AlignedBuffer::default();
        for length in [0, 1, 4096, 4097, 1 << 20] {
            let bytes = buffer.prefix(length);
            assert_eq!((bytes.len(), bytes.as_ptr() as usize % 4096), (length, 0));
        }
    }
}
