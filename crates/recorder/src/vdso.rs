//! Finds clock_gettime in the vDSO, which reads the clock without a system call.

/// Returns the offset of `__vdso_clock_gettime` in the vDSO of 64-bit programs; None if the kernel has no vDSO.
pub fn clock() -> Option<u64> {
    // SAFETY: it reads a number.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    if start == 0 {
        return None;
    }
    // SAFETY: the kernel maps an ELF file of at least a page there, for as long as the process runs.
    let first = unsafe { std::slice::from_raw_parts(start as *const u8, 4096) };
    let image = Image(first);
    let end = image.segments().filter(|it| it.kind == LOAD).map(|it| it.address + it.size).max()?;
    // SAFETY: as above; the loaded segment gives the length.
    let whole = unsafe { std::slice::from_raw_parts(start as *const u8, end as usize) };
    Image(whole).symbol(b"__vdso_clock_gettime")
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;

/// Tags of the dynamic section.
const HASH: u64 = 4;
const STRTAB: u64 = 5;
const SYMTAB: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;

/// The bytes of a loaded 64-bit ELF file, whose addresses are relative to its beginning.
struct Image<'i>(&'i [u8]);

struct Segment {
    kind: u32,
    address: u64,
    size: u64,
}

impl Image<'_> {
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.0.get(at as usize..)?.first_chunk().copied()
    }

    fn short(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn int(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn long(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        let first = self.long(32).unwrap_or(0);
        let (size, count) = (self.short(54).unwrap_or(0), self.short(56).unwrap_or(0));
        (0..u64::from(count)).filter_map(move |at| {
            let at = first + at * u64::from(size);
            let (kind, address, size) = (self.int(at)?, self.long(at + 16)?, self.long(at + 40)?);
            Some(Segment { kind, address, size })
        })
    }

    fn symbol(&self, name: &[u8]) -> Option<u64> {
        let dynamic = self.segments().find(|it| it.kind == DYNAMIC)?;
        let value_of = |tag: u64| {
            let mut all = (0..dynamic.size / 16).map(|at| dynamic.address + at * 16);
            let at = all.find(|at| self.long(*at) == Some(tag))?;
            self.long(at + 8)
        };
        let (names, symbols) = (value_of(STRTAB)?, value_of(SYMTAB)?);
        // The number of symbols: from the hash table, or the number that fits before the names.
        let count = match value_of(HASH) {
            Some(table) => u64::from(self.int(table + 4)?),
            None if value_of(GNU_HASH).is_some() && names > symbols => (names - symbols) / 24,
            None => return None,
        };
        (0..count).map(|at| symbols + at * 24).find_map(|at| {
            let from = (names + u64::from(self.int(at)?)) as usize;
            let found = self.0.get(from..)?.strip_prefix(name)?;
            (found.first() == Some(&0)).then(|| self.long(at + 8))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_this_process_shows_its_time() {
        let Some(offset) = clock() else { return };
        // SAFETY: getauxval reads a number; the function is clock_gettime, which fills `time`.
        let time = unsafe {
            let start = libc::getauxval(libc::AT_SYSINFO_EHDR);
            let function: extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int =
                std::mem::transmute(start + offset);
            let mut time = std::mem::zeroed();
            assert_eq!(function(libc::CLOCK_MONOTONIC, &raw mut time), 0);
            time
        };
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        assert!(now.tv_sec - time.tv_sec <= 1, "{} {}", now.tv_sec, time.tv_sec);
    }
}
