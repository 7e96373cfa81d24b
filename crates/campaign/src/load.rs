//! The load of this host: the processes that compete with trials for its processors.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// Number of samples of the processes that can run, and the time between two of them.
const SAMPLES: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(5);

/// The processors of this host, and the other processes that use them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Mean number of other processes that run or wait for a processor.
    pub others: f64,
    /// Number of processors that fsdyno may use.
    pub processors: f64,
}

impl Load {
    /// Returns the load of this host before its first trial, which each process measures once.
    pub fn now() -> Load {
        static NOW: OnceLock<Load> = OnceLock::new();
        *NOW.get_or_init(Load::measured)
    }

    /// Measures the load of this host, in 50 ms. After trials, it is only that of other processes.
    pub fn measured() -> Load {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let samples = (0..SAMPLES).filter_map(|_| {
            std::thread::sleep(INTERVAL);
            runnable_count(&fs::read_to_string("/proc/stat").ok()?)
        });
        let samples: Vec<f64> = samples.collect();
        let minute = fs::read_to_string("/proc/loadavg").ok().and_then(|it| minute_mean(&it));
        Load { others: others(&samples, minute.unwrap_or(0.0)), processors }
    }

    /// Returns the factor by which a computation takes longer than on an idle host, if `jobs` run at the same time.
    pub fn stretch(&self, jobs: usize) -> f64 {
        ((self.others + jobs.max(1) as f64) / self.processors).max(1.0)
    }
}

/// Returns the mean number of other processes. Only load that is present both now and in the mean of the last minute
/// counts: that mean alone would include work that has ended, such as trials, and processes that wait for a disk, and
/// samples alone could include a short burst.
fn others(samples: &[f64], minute: f64) -> f64 {
    // One of the processes is this one.
    let now = samples.iter().map(|it| (it - 1.0).max(0.0)).sum::<f64>();
    minute.min(now / samples.len().max(1) as f64)
}

/// Returns the number of processes that run or wait for a processor, from `/proc/stat`.
fn runnable_count(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

/// Returns the mean load of the last minute, from `/proc/loadavg`.
fn minute_mean(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_shared_equally() {
        let stretch = |others, jobs| Load { others, processors: 2.0 }.stretch(jobs);
        assert_eq!([stretch(0.0, 1), stretch(1.0, 1), stretch(0.0, 2)], [1.0; 3]);
        assert_eq!([stretch(0.0, 4), stretch(5.0, 1), stretch(2.0, 2)], [2.0, 3.0, 2.0]);
    }

    #[test]
    fn ended_work_and_waits_for_a_disk_do_not_count_as_load() {
        assert_eq!(others(&[1.0, 1.0], 8.0), 0.0);
        assert_eq!([others(&[3.0, 4.0], 8.0), others(&[3.0, 4.0], 1.0)], [2.5, 1.0]);
        assert_eq!(others(&[], 8.0), 0.0);
    }

    #[test]
    fn the_load_is_read_from_proc() {
        assert_eq!(runnable_count("cpu  1 2\nprocs_running 9\nprocs_blocked 0\n"), Some(9.0));
        assert_eq!(runnable_count("cpu 1\n"), None);
        assert_eq!(minute_mean("6.66 6.64 6.56 8/198 20781\n"), Some(6.66));
        let now = Load::now();
        assert!(now.processors >= 1.0 && now.others >= 0.0, "{now:?}");
    }
}
