//! The cost of a phase: CPU time of the workload and of kernel threads, dirty memory, device requests.

use std::collections::BTreeMap;
use std::fs;

use fsdyno_record::trial::{Device, Instrument};
use fsdyno_record::{Bytes, Nanos};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// The processes that belong to the instrument.
#[derive(Clone, Debug, Default)]
pub struct Instruments {
    /// The servers of the modelled disks.
    pub servers: Vec<Pid>,
    /// The processes inside NBD_DO_IT, one per disk.
    pub drivers: Vec<Pid>,
    /// The processes that do the work of a FUSE file system: not part of the instrument, and listed together with the
    /// kernel's threads.
    pub workers: Vec<Pid>,
    /// The process that samples the dirty memory.
    pub sampler: Option<Pid>,
}

/// Counters at one point in time; a phase is the difference of two.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// CPU time of this process, exact.
    pub cpu: Nanos,
    /// The part of `cpu` spent in user mode, measured in ticks.
    pub user: Nanos,
    /// The part of `cpu` spent in the kernel, measured in ticks.
    pub system: Nanos,
    /// CPU time of kernel threads, by type of work. Pooled workers count as one type: `kworker`.
    pub kernel: BTreeMap<String, Nanos>,
    /// CPU time of each kernel thread. A later reading does not include the time of a thread that has ended.
    threads: BTreeMap<String, (Work, Nanos)>,
    /// CPU time of the processes that do the work of a FUSE file system, exact.
    workers: Nanos,
    /// CPU time of the servers of the disks.
    pub server: Nanos,
    /// CPU time of the block driver's own threads.
    pub driver: Nanos,
    /// CPU time of the sampler.
    pub sampler: Nanos,
}

/// Returns the CPU time of this process, exact.
pub fn own_cpu() -> Nanos {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64)
}

impl Account {
    /// Reads the counters at the start of a phase. This process's own clocks are read last, so that the cost of reading
    /// the rest is not counted.
    pub fn open(instruments: &Instruments) -> Account {
        let mut account = Account::of_others(instruments);
        account.read_own();
        account
    }

    /// Returns the resources used since the start of a phase. Reads this process's own clocks first.
    pub fn close(instruments: &Instruments, opened: &Account) -> Account {
        let mut own = Account::default();
        own.read_own();
        let others = Account::of_others(instruments);
        Account { cpu: own.cpu, user: own.user, system: own.system, ..others }.since(opened)
    }

    /// Adds the time of a command and its children.
    pub fn with_command_time(mut self, user: Nanos, system: Nanos) -> Account {
        self.cpu += user + system;
        self.user += user;
        self.system += system;
        self
    }

    /// Returns the cost of the measurement itself, from the lateness of answers and the time of the engine.
    pub fn instrument(&self, late_ns: Nanos, engine_ns: Nanos) -> Instrument {
        Instrument {
            server_cpu_ns: self.server,
            driver_cpu_ns: self.driver,
            late_ns,
            engine_ns,
            sampler_cpu_ns: self.sampler,
        }
    }

    fn read_own(&mut self) {
        self.cpu = own_cpu();
        (self.user, self.system) = usage();
    }

    fn of_others(instruments: &Instruments) -> Account {
        Account {
            server: run_times(&instruments.servers),
            driver: run_times(&instruments.drivers),
            sampler: instruments.sampler.map_or(Nanos(0), process_time),
            workers: instruments
                .workers
                .iter()
                .map(|pid| process_time(*pid))
                .fold(Nanos(0), |a, b| a + b),
            threads: kernel_threads(),
            ..Account::default()
        }
    }

    /// Returns the difference from earlier counters, without the kernel threads that did nothing.
    fn since(&self, earlier: &Account) -> Account {
        let mut spent = Account {
            cpu: self.cpu - earlier.cpu,
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            server: self.server - earlier.server,
            driver: self.driver - earlier.driver,
            sampler: self.sampler - earlier.sampler,
            ..Account::default()
        };
        if self.workers > earlier.workers {
            spent.kernel.insert("fuse".into(), self.workers - earlier.workers);
        }
        for (pid, (work, time)) in &self.threads {
            let earlier_time = earlier.threads.get(pid).map_or(Nanos(0), |(_, time)| *time);
            // A pid that was meanwhile reused for a different thread shows less time than before.
            let time = if *time < earlier_time { *time } else { *time - earlier_time };
            match work {
                Work::BlockDriver => spent.driver += time,
                Work::Named(name) if time > Nanos(0) => {
                    *spent.kernel.entry(name.clone()).or_default() += time;
                }
                Work::Named(_) => {}
            }
        }
        spent
    }
}

fn usage() -> (Nanos, Nanos) {
    // SAFETY: rusage is plain numbers, for which all zeroes are valid; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let nanos = |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
    (nanos(usage.ru_utime), nanos(usage.ru_stime))
}

fn run_times(processes: &[Pid]) -> Nanos {
    processes.iter().map(|pid| run_time(*pid)).fold(Nanos(0), |sum, time| sum + time)
}

/// Returns the CPU time of all threads of a process, including those that have ended.
pub fn process_time(pid: Pid) -> Nanos {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls only write to the pointers passed to them, which point to locals.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    if is_read { Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64) } else { Nanos(0) }
}

/// Returns the CPU time according to /proc/PID/schedstat, exact to the nanosecond.
fn run_time(pid: Pid) -> Nanos {
    run_time_of(&pid.as_raw_nonzero().to_string())
}

fn run_time_of(pid: &str) -> Nanos {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    Nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    BlockDriver,
    Named(String),
}

fn kernel_threads() -> BTreeMap<String, (Work, Nanos)> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    folder
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let pid = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // "pid (comm) state ppid ...": kernel threads are the children of kthreadd, pid 2.
            let fields = stat.rsplit(") ").next()?;
            (fields.split(' ').nth(1)? == "2").then_some(())?;
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some((pid.to_string(), (work_of(comm.trim_end()), run_time_of(pid))))
        })
        .collect()
}

/// Returns the work that the name of a kernel thread indicates: `jbd2/nbd0-8` is jbd2; `kworker/u2:1-flush` is a
/// pooled worker, whose name shows only its most recent work, so all of them count as one.
fn work_of(comm: &str) -> Work {
    if comm.contains("nbd") && comm.ends_with("-recv") {
        return Work::BlockDriver;
    }
    if comm.starts_with("kworker/") {
        return Work::Named("kworker".into());
    }
    // The thread of an md array: md0_raid5.
    if comm.strip_prefix("md").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Work::Named("md".into());
    }
    let name = match comm.split_once(['/', ':']) {
        Some((name, _instance)) => name,
        None => comm.trim_end_matches(|c: char| c.is_ascii_digit()),
    };
    Work::Named(name.to_string())
}

/// Returns the dirty and write-back memory of the whole system.
pub fn dirty_bytes() -> Option<Bytes> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    Some(Bytes(meminfo_kb(&meminfo, "Dirty")? * 1024 + meminfo_kb(&meminfo, "Writeback")? * 1024))
}

/// Returns the memory that can cache files: free memory, and the droppable memory of files and of the kernel's own
/// objects. The counters used here exclude the parts of the page cache that cannot be dropped: an initramfs, shared
/// memory, locked memory.
pub fn cacheable_memory() -> Bytes {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let keys = ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"];
    Bytes(keys.iter().filter_map(|key| meminfo_kb(&meminfo, key)).sum::<u64>() * 1024)
}

fn meminfo_kb(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.split(':').next() == Some(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the activity of a device between two readings. The peak is that of the later reading, whose source counts it
/// from the start of the phase.
pub fn device_since(now: &Device, earlier: &Device) -> Device {
    let difference = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_sub(b));
    Device {
        reads: now.reads.saturating_sub(earlier.reads),
        writes: now.writes.saturating_sub(earlier.writes),
        flushes: now.flushes.saturating_sub(earlier.flushes),
        discards: now.discards.saturating_sub(earlier.discards),
        bytes_read: Bytes(now.bytes_read.0.saturating_sub(earlier.bytes_read.0)),
        bytes_written: Bytes(now.bytes_written.0.saturating_sub(earlier.bytes_written.0)),
        seeks: difference(now.seeks, earlier.seeks),
        busy_ns: now.busy_ns.zip(earlier.busy_ns).map(|(a, b)| a - b),
        peak_in_flight: now.peak_in_flight,
    }
}

/// Returns the sum over several devices; the peak is the highest of any one device.
pub fn sum(devices: impl IntoIterator<Item = Device>) -> Option<Device> {
    let combine = |a: Option<u64>, b: Option<u64>, with: fn(u64, u64) -> u64| match (a, b) {
        (Some(a), Some(b)) => Some(with(a, b)),
        (a, b) => a.or(b),
    };
    devices.into_iter().reduce(|a, b| Device {
        reads: a.reads + b.reads,
        writes: a.writes + b.writes,
        flushes: a.flushes + b.flushes,
        discards: a.discards + b.discards,
        bytes_read: a.bytes_read + b.bytes_read,
        bytes_written: a.bytes_written + b.bytes_written,
        seeks: combine(a.seeks, b.seeks, |a, b| a + b),
        busy_ns: combine(a.busy_ns.map(|t| t.0), b.busy_ns.map(|t| t.0), |a, b| a + b).map(Nanos),
        peak_in_flight: combine(a.peak_in_flight, b.peak_in_flight, u64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_named_by_their_work() {
        let named = |name: &str| Work::Named(name.to_string());
        assert_eq!(work_of("jbd2/nbd0-8"), named("jbd2"));
        assert_eq!(work_of("kswapd0"), named("kswapd"));
        assert_eq!(work_of("xfsaild/nbd0"), named("xfsaild"));
        assert_eq!(work_of("btrfs-transaction"), named("btrfs-transaction"));
        assert_eq!(work_of("kworker/u2:0-flush-43:0"), named("kworker"));
        assert_eq!(work_of("kworker/u3:0+nbd0-recv"), Work::BlockDriver);
        assert_eq!(work_of("nbd0-recv"), Work::BlockDriver);
        assert_eq!(work_of("md0_raid5"), named("md"));
    }

    #[test]
    fn several_devices_are_summed_and_the_peak_is_that_of_one() {
        let device = |reads, peak| Device {
            reads,
            busy_ns: Some(Nanos(reads)),
            peak_in_flight: peak,
            ..Device::default()
        };
        let all = sum([device(1, Some(9)), device(2, None), device(4, Some(3))]).unwrap();
        assert_eq!((all.reads, all.busy_ns, all.peak_in_flight), (7, Some(Nanos(7)), Some(9)));
        assert_eq!(sum([]), None);
    }

    #[test]
    fn an_account_counts_the_cpu_that_was_used() {
        let before = Account::open(&Instruments::default());
        let mut sum = 0u64;
        for i in 0..5_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i));
        }
        let spent = Account::close(&Instruments::default(), &before);
        assert!(spent.cpu.0 > 0, "{sum}");
    }

    #[test]
    fn an_account_excludes_the_cost_of_reading_it() {
        // Reading /proc takes milliseconds, but the two readings of the clock are only microseconds apart. Other tests
        // are threads of this process, whose time may be counted too, but not in every attempt.
        let measure_empty_phase = || {
            let scan = clock_gettime(ClockId::ProcessCPUTime);
            let opened = Account::open(&Instruments::default());
            let cost = clock_gettime(ClockId::ProcessCPUTime) - scan;
            let spent = Account::close(&Instruments::default(), &opened);
            (spent.cpu.0, cost.tv_sec as u64 * 1_000_000_000 + cost.tv_nsec as u64)
        };
        let tries: Vec<(u64, u64)> = (0..20).map(|_| measure_empty_phase()).collect();
        assert!(tries.iter().any(|(spent, cost)| spent * 2 < *cost), "{tries:?}");
    }

    #[test]
    fn meminfo_keys_are_matched_whole() {
        let meminfo = "MemFree: 5 kB\nCached: 7 kB\nSwapCached: 9 kB\n";
        assert_eq!(meminfo_kb(meminfo, "Cached"), Some(7));
        assert_eq!(meminfo_kb(meminfo, "Dirty"), None);
    }
}
