//! What the conditions say of the machine that the ops run on, and its sysctls.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use fsdyno_record::trial::Conditions;

/// Sysctls that bear on write-back and caches.
const SYSCTLS: &[&str] = &[
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.min_free_kbytes",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
];

/// How many of so many threads can run at once here.
pub fn at_once(threads: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    threads.clamp(1, processors)
}

fn path_of(sysctl: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(sysctl.replace('.', "/"))
}

/// Sets sysctls.
///
/// # Errors
/// The first that the kernel refuses, by its name and value.
pub fn set_sysctls(wanted: &BTreeMap<String, String>) -> io::Result<()> {
    for (key, value) in wanted {
        fs::write(path_of(key), value).map_err(|error| {
            io::Error::new(error.kind(), format!("set sysctl {key} to {value}: {error}"))
        })?;
    }
    Ok(())
}

/// Fills in kernel, CPU and sysctls in effect (those of the table and those that were `asked`).
pub fn describe(conditions: &mut Conditions, asked: &BTreeMap<String, String>) {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    conditions.kernel = format!("{} {}", text(uname.release()), text(uname.version()));
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    conditions.cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, name)| name.trim().to_string())
        .unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let keys = SYSCTLS.iter().copied().chain(asked.keys().map(String::as_str));
    conditions.sysctls = keys
        .filter_map(|key| {
            let value = fs::read_to_string(path_of(key)).ok()?;
            Some((key.to_string(), value.trim().to_string()))
        })
        .collect();
}
