//! Describes, for the conditions, the machine that the ops run on, and sets its sysctls.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use fsdyno_engine::clock;
use fsdyno_record::Nanos;
use fsdyno_record::plan::CpuPlan;
use fsdyno_record::trial::Conditions;

/// Sysctls that affect write-back and caches.
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

/// Describes the timer that does not follow the guest's own, slower clock; `None` unless the CPU is faster than QEMU's
/// clock allows.
pub fn describe_unscaled_timer(cpu: &CpuPlan) -> Option<String> {
    (cpu.processor().is_none() && cpu.instructions_per_us_of_own_clock().is_some()).then(|| {
        format!(
            "--cpu {cpu}: the guest's clock is slowed down, and with it Linux's timers, its CPU times \
             and the modelled disk; the timer chip (hpet) is not slowed down, so it wakes the kernel \
             too early, several times for one timer, at the cost of CPU time"
        )
    })
}

/// Checks that the guest's clock has the speed that its CPU requires, by comparing the time stamp counter, which
/// advances by one per instruction, with the kernel's clock.
///
/// # Errors
/// A kernel that ignores the setting.
pub fn check_clock(cpu: &CpuPlan) -> io::Result<()> {
    let Some(per_us) = cpu.instructions_per_us_of_own_clock() else { return Ok(()) };
    let (before, started) = (ticks(), clock::now());
    clock::sleep_until(started + Nanos(10_000_000));
    let (ticks, elapsed) = (ticks() - before, clock::now().since(started));
    // At both ends the two clocks are read one after the other; the resulting error is well below one percent.
    let expected_ticks = elapsed.0 * per_us / 1000;
    if ticks.abs_diff(expected_ticks) <= expected_ticks / 100 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "--cpu {cpu} is not possible with this kernel: {ticks} ns of QEMU's time passed in {elapsed} of \
         its clock, which does not follow tsc_early_khz (Linux 5.9 and later do); use --cpu 1 or less"
    )))
}

/// Reads the time stamp counter.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the counter, and reading it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Unused: the lab's guests are x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// Returns how many of `threads` threads can run at the same time on this machine.
pub fn concurrent_threads(threads: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    threads.clamp(1, processors)
}

fn path_of(sysctl: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(sysctl.replace('.', "/"))
}

/// Sets sysctls.
///
/// # Errors
/// The first sysctl that the kernel does not have or refuses, with its name and value.
pub fn set_sysctls(wanted: &BTreeMap<String, String>) -> io::Result<()> {
    for (key, value) in wanted {
        fs::write(path_of(key), value).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "this kernel has no such sysctl".to_string(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("set sysctl {key} to {value}: {reason}"))
        })?;
    }
    Ok(())
}

/// Fills in the kernel, the CPU and the sysctls in effect (those in `SYSCTLS` and those in `requested`).
///
/// # Errors
/// The name of a requested sysctl that cannot be read back.
pub fn describe(
    conditions: &mut Conditions,
    requested: &BTreeMap<String, String>,
) -> io::Result<()> {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    conditions.kernel = format!("{} {}", text(uname.release()), text(uname.version()));
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    conditions.cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, name)| name.trim().to_string())
        .unwrap_or_else(|| std::env::consts::ARCH.to_string());
    for key in SYSCTLS {
        if let Ok(value) = sysctl(key) {
            conditions.sysctls.insert(key.to_string(), value);
        }
    }
    for (key, wanted) in requested {
        let value = sysctl(key).map_err(|error| {
            io::Error::new(error.kind(), format!("read sysctl {key} back: {error}"))
        })?;
        // Some sysctls disable each other, such as vm.dirty_bytes and vm.dirty_ratio.
        if !value.split_whitespace().eq(wanted.split_whitespace()) {
            let changed = format!("sysctl {key} was set to {wanted} and is {value}");
            conditions.not_in_effect.push(changed);
        }
        conditions.sysctls.insert(key.clone(), value);
    }
    Ok(())
}

fn sysctl(key: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path_of(key))?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_sysctl(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_string(), value.to_string())].into()
    }

    #[test]
    fn a_sysctl_that_does_not_exist_is_named() {
        let error = set_sysctls(&single_sysctl("vm.no_such_thing", "5")).unwrap_err().to_string();
        assert_eq!(error, "set sysctl vm.no_such_thing to 5: this kernel has no such sysctl");
        let result = describe(&mut Conditions::default(), &single_sysctl("vm.no_such_thing", "5"));
        assert!(result.unwrap_err().to_string().contains("read sysctl vm.no_such_thing back"));
    }

    #[test]
    fn the_settings_in_effect_are_reported_as_they_are() {
        let mut conditions = Conditions::default();
        describe(&mut conditions, &single_sysctl("kernel.ostype", "Plan 9")).unwrap();
        assert_eq!(conditions.sysctls["kernel.ostype"], "Linux");
        assert_eq!(
            conditions.not_in_effect,
            ["sysctl kernel.ostype was set to Plan 9 and is Linux"]
        );
        assert!(conditions.sysctls.contains_key("vm.dirty_ratio"));
    }
}
