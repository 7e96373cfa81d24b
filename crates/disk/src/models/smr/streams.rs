//! Sequential writes that bypass the media cache.

/// A band, or several consecutive ones, being written from the start on.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The sector at which it continues.
    next: u64,
    last: u64,
}

/// The streams of a drive.
#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    max_streams: usize,
    /// Minimum number of sectors of a write that opens a stream.
    min_sectors: u64,
    /// Sectors of a band.
    band: u64,
    writes: u64,
}

impl Streams {
    /// Creates an empty set of at most `max_streams` streams.
    pub fn new(max_streams: usize, min_sectors: u64, band: u64) -> Streams {
        Streams {
            streams: Vec::with_capacity(max_streams),
            max_streams,
            min_sectors,
            band,
            writes: 0,
        }
    }

    /// Handles the part of a write of `size` sectors that lies from `first` to before `end`. Returns true if it goes
    /// directly to its band; and if that ends another stream in the middle of a band, the number of that band.
    /// No stream is opened in `cleaning_band`, the band that is being cleaned.
    pub fn write(
        &mut self,
        first: u64,
        end: u64,
        size: u64,
        cleaning_band: Option<u64>,
    ) -> (bool, Option<u64>) {
        self.writes += 1;
        let last = self.writes;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.next == first) {
            *stream = Stream { next: end, last };
            return (true, None);
        }
        let opens = first % self.band == 0 && size >= self.min_sectors;
        if !opens || cleaning_band == Some(first / self.band) {
            return (false, None);
        }
        let mut broken = None;
        if self.streams.len() == self.max_streams {
            let oldest = (0..self.max_streams).min_by_key(|at| self.streams[*at].last).unwrap_or(0);
            let next = self.streams.swap_remove(oldest).next;
            broken = (next % self.band != 0).then(|| next / self.band);
        }
        self.streams.push(Stream { next: end, last });
        (true, broken)
    }

    /// Ends the stream in a band.
    pub fn forget(&mut self, band: u64) {
        self.streams.retain(|stream| stream.next / self.band != band);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_written_from_its_start_is_a_stream_until_others_end_it() {
        let mut streams = Streams::new(2, 256, 4096);
        assert_eq!(streams.write(4096, 4352, 256, None), (true, None));
        assert_eq!(streams.write(4352, 4360, 8, None), (true, None), "any size continues it");
        assert_eq!(streams.write(8192, 8200, 8, None), (false, None), "too small to open one");
        assert_eq!(streams.write(5000, 6000, 1000, None), (false, None), "not at the start");
        assert_eq!(
            streams.write(8192, 8448, 256, Some(2)),
            (false, None),
            "the band is being cleaned"
        );
        assert_eq!(streams.write(8192, 8448, 256, None), (true, None));
        assert_eq!(
            streams.write(0, 4096, 4096, None),
            (true, Some(1)),
            "the oldest ended within band 1"
        );
        assert_eq!(streams.write(4360, 4400, 40, None), (false, None));
    }
}
