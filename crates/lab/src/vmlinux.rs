//! The kernel that QEMU boots, as an open, hashed file: the vmlinux, which is extracted from the kernel's image once
//! and cached.

use std::fs::File;
use std::io::{self, Write};

use fsdyno_child::{Mapped, sealed_file};
use fsdyno_record::bounded::{self, PARTS};
use fsdyno_record::canonical::sha256_hex;

use crate::cache::Cache;
use crate::error::{LabError, RunError};
use crate::file_cache::FileCache;
use crate::kernel_root::Kernel;
use crate::payload;

/// The limit on the total size of cached kernels on the host, in bytes; a kernel takes about 60 MB.
const LIMIT: u64 = 1 << 30;

/// A kernel that QEMU boots.
#[derive(Debug)]
pub struct Bootable {
    /// The contents, which do not change while the file is open.
    pub file: File,
    /// The SHA-256 of the contents, in hex.
    pub sha256: String,
}

/// Returns the cache of kernels.
pub fn file_cache(cache: &Cache) -> FileCache {
    FileCache::new(cache, "vmlinux", LIMIT, hash)
}

fn hash(file: &File) -> io::Result<String> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    Ok(sha256_hex(Mapped::new(file, length)?.as_ref()))
}

/// Returns a kernel's vmlinux, or its bzImage if the vmlinux cannot be entered directly.
///
/// # Errors
/// [`LabError::WrongKernel`], and errors of the host.
pub fn of(kernel: &Kernel, cache: &Cache) -> Result<Bootable, LabError> {
    let image =
        bounded::read(&kernel.image, &PARTS).map_err(LabError::io("read", &kernel.image))?;
    let invalid =
        |reason: String| LabError::WrongKernel { what: kernel.image.display().to_string(), reason };
    if image.starts_with(b"\x7fELF") {
        return match payload::has_pvh_entry(&image) {
            true => in_memory(&image),
            false => {
                Err(invalid("it was built without CONFIG_PVH; give its bzImage instead".into()))
            }
        };
    }
    let mut keep_waiting = || true;
    let cached = file_cache(cache).get(&sha256_hex(&image), &mut keep_waiting, &mut |file| {
        let vmlinux =
            payload::vmlinux(&image).map_err(|e| NotCached::Lab(invalid(e.to_string())))?;
        if !payload::has_pvh_entry(&vmlinux) {
            return Err(NotCached::Indirect);
        }
        let write = |mut file: &File| file.write_all(&vmlinux);
        Ok(write(file).map_err(|error| RunError::Host { action: "write a vmlinux", error })?)
    });
    match cached {
        Ok((file, sha256)) => Ok(Bootable { file, sha256 }),
        // This is slower, because the guest decompresses the kernel, but just as exact.
        Err(NotCached::Indirect) => in_memory(&image),
        Err(NotCached::Lab(error)) => Err(error),
    }
}

/// Copies an image into memory, because a kernel build may overwrite it.
fn in_memory(image: &[u8]) -> Result<Bootable, LabError> {
    let file = sealed_file(c"fsdyno-kernel", image)
        .map_err(LabError::io("create", "memory for the kernel".as_ref()))?;
    Ok(Bootable { file, sha256: sha256_hex(image) })
}

/// The reason why no vmlinux is cached.
#[derive(Debug)]
enum NotCached {
    /// The vmlinux has no entry point for QEMU.
    Indirect,
    /// Any other error.
    Lab(LabError),
}

impl From<RunError> for NotCached {
    fn from(error: RunError) -> NotCached {
        NotCached::Lab(match error {
            RunError::Cache(error) => error,
            RunError::Host { action, error } => {
                LabError::Io { action, path: "in the cache".into(), error }
            }
            other => LabError::NoKernel(other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Seek};

    use super::*;
    use crate::payload::tests::{bz_image, pvh_kernel};

    fn bytes(mut file: &File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_booted_file_is_the_hashed_one_even_if_the_cache_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let image = folder.path().join("vmlinuz");
        let vmlinux = pvh_kernel();
        fs::write(&image, bz_image(&zstd::encode_all(&*vmlinux, 1).unwrap())).unwrap();
        let kernel =
            Kernel { release: "6.1".into(), image, modules: "/none".into(), built_modules: None };
        let first = of(&kernel, &cache).unwrap();
        assert_eq!((bytes(&first.file), first.sha256), (vmlinux.clone(), sha256_hex(&vmlinux)));
        let name = format!(
            "vmlinux/{}.{}",
            sha256_hex(&fs::read(&kernel.image).unwrap()),
            sha256_hex(&vmlinux)
        );
        let mut other = vmlinux.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(cache.path().join(name), &other).unwrap();
        let again = of(&kernel, &cache).unwrap();
        assert_eq!((bytes(&again.file), again.sha256), (vmlinux.clone(), sha256_hex(&vmlinux)));
    }

    #[test]
    fn an_image_that_is_rebuilt_meanwhile_is_booted_as_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinux");
        let vmlinux = pvh_kernel();
        fs::write(&image, &vmlinux).unwrap();
        let kernel = Kernel {
            release: "6.1".into(),
            image: image.clone(),
            modules: "/none".into(),
            built_modules: None,
        };
        let read = of(&kernel, &Cache::at(folder.path()).unwrap()).unwrap();
        fs::write(&image, b"\x7fELF, half written").unwrap();
        assert_eq!((bytes(&read.file), read.sha256), (vmlinux.clone(), sha256_hex(&vmlinux)));
    }
}
