//! Runs the trials of a fit, each in a child process.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, Store};
use fsdyno_child::Process;
use fsdyno_record::Trial;

/// The maximum difference, for the median operation, between the least times of the two halves of the repetitions.
const MAX_DIFFERENCE: f64 = 0.08;
/// The maximum number of times that the repetitions are doubled on a busy machine.
const DOUBLINGS: u32 = 3;
const POLL: Duration = Duration::from_millis(50);

/// A runner of trials, with their folder of results and the kernel of the lab.
pub struct Runner<'a> {
    /// A folder for results.
    pub folder: &'a Path,
    /// The kernel of the lab's guests, or `None` for the lab's default.
    pub kernel: Option<String>,
    /// True once the user has stopped the command.
    pub stop: &'a AtomicBool,
}

impl Runner<'_> {
    /// Returns the options that choose the lab's kernel.
    pub fn kernel_words(&self) -> Vec<String> {
        let kernel = self.kernel.iter().cloned();
        kernel.flat_map(|kernel| ["--kernel".to_string(), kernel]).collect()
    }

    /// Runs `fsdyno run` with these arguments and returns its trials, or `None` if it was stopped.
    pub fn trials(
        &self,
        words: &[&str],
        repeat: u32,
        out: &str,
    ) -> Result<Option<Vec<Trial>>, Failure> {
        let out = self.folder.join(out);
        let program = std::env::current_exe().map_err(|error| {
            Failure::invalid_use(format!("failed to find this program: {error}"))
        })?;
        let mut command = Command::new(program);
        command.arg("run").args(words).args(["--repeat", &repeat.to_string(), "--out"]);
        command.arg(&out).stdin(Stdio::null()).stdout(Stdio::null());
        let failed =
            |error: std::io::Error| Failure::invalid_use(format!("failed to run trials: {error}"));
        let mut process = Process::start(command, &[]).map_err(failed)?;
        let ended = loop {
            if let Some(ended) = process.poll().map_err(failed)? {
                break ended;
            }
            if self.stop.load(Ordering::Relaxed) {
                process.kill().map_err(failed)?;
                return Ok(None);
            }
            std::thread::sleep(POLL);
        };
        if !ended.status.success() {
            let lines = process.last_lines(3).join("\n");
            return Err(Failure::invalid_use(format!(
                "'fsdyno run {}' failed: {lines}",
                words.join(" ")
            )));
        }
        Ok(Some(Store::read_trials(&out)?))
    }
}

/// Returns the version of this machine's kernel, such as `6.18`, if the lab has that version; if not, prints a note.
pub fn kernel_of_this_machine() -> Option<String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version = release.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut run = Command::new(std::env::current_exe().ok()?);
    run.args(["run", "calls", "--on", "lab", "--fs", "ext4", "--dry-run", "--kernel", &version]);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if run.status().is_ok_and(|status| status.success()) {
        return Some(version);
    }
    say(&format!(
        "fsdyno: the lab has no kernel {version}, which this machine runs; differences between its kernel and the \
         lab's count as errors of the profile"
    ));
    None
}

/// The times of each operation in nanoseconds, ascending, by file system (or label) and phase.
pub type Times = BTreeMap<(String, String), Vec<f64>>;

impl Runner<'_> {
    /// Runs `fsdyno run` with these arguments on this machine, and returns the times of each operation by `times`,
    /// ascending, or `None` if it was stopped. Other programs, and virtual machines on the same host, only lengthen
    /// CPU times, so the least of many repetitions counts. It is accepted if the odd and the even repetitions agree on
    /// it; if not, the number of repetitions is doubled, a few times.
    ///
    /// # Errors
    /// Failed trials, and least times that never agreed.
    pub fn measure(
        &self,
        words: &[&str],
        repeats: u32,
        out: &str,
        times: impl Fn(&[Trial]) -> Times,
    ) -> Result<Option<Times>, Failure> {
        let (mut repeats, mut doublings) = (repeats, DOUBLINGS);
        loop {
            let Some(trials) = self.trials(words, repeats, out)? else { return Ok(None) };
            let (odd, even): (Vec<Trial>, Vec<Trial>) =
                trials.iter().cloned().partition(|trial| trial.seed % 2 == 1);
            let difference = difference(&times(&odd), &times(&even));
            if difference <= MAX_DIFFERENCE {
                return Ok(Some(times(&trials)));
            }
            if doublings == 0 {
                return Err(too_busy(repeats, difference));
            }
            (repeats, doublings) = (repeats * 2, doublings - 1);
            say(&format!(
                "fsdyno: the least CPU times of two halves of the repetitions differ by {:.0} %; up to {repeats} \
                 repetitions",
                difference * 100.0
            ));
        }
    }
}

/// Returns the difference of the least times in two groups of repetitions, for the median operation.
fn difference(one: &Times, other: &Times) -> f64 {
    let mut differences: Vec<f64> = one
        .iter()
        .filter_map(|(key, times)| {
            let (one, other) = (times.first()?, other.get(key)?.first()?);
            Some(one.max(*other) / one.min(*other) - 1.0)
        })
        .collect();
    differences.sort_by(f64::total_cmp);
    differences.get(differences.len() / 2).copied().unwrap_or_default()
}

fn too_busy(repeats: u32, difference: f64) -> Failure {
    Failure::invalid_use(format!(
        "this machine is too busy for a fit: the least CPU times of two halves of {repeats} repetitions differ by \
         {:.0} % (at most {:.0} %); stop other programs, and virtual machines on the same host, and repeat",
        difference * 100.0,
        MAX_DIFFERENCE * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[&[f64]]) -> Times {
        let named = all
            .iter()
            .enumerate()
            .map(|(at, times)| (("ext4".to_string(), at.to_string()), times.to_vec()));
        named.collect()
    }

    #[test]
    fn the_least_times_of_two_halves_are_compared_for_the_median_operation() {
        // Ascending times of three operations.
        let odd = times(&[&[10.0, 10.1, 30.0], &[4.0, 9.0], &[1.0, 2.0]]);
        let even = times(&[&[10.2, 20.0], &[4.0, 4.0], &[2.0, 2.0]]);
        assert!((difference(&odd, &even) - 0.02).abs() < 1e-9, "one operation may vary by itself");
        let busy = times(&[&[11.0, 11.0], &[4.4, 5.0], &[1.1]]);
        assert!((difference(&odd, &busy) - 0.1).abs() < 1e-9);
        assert!(difference(&Times::new(), &Times::new()).abs() < 1e-9, "nothing was measured");
    }

    #[test]
    fn a_refusal_states_the_noise_and_what_to_do() {
        assert_eq!(
            too_busy(64, 0.102).message,
            "this machine is too busy for a fit: the least CPU times of two halves of 64 repetitions differ by 10 % \
             (at most 8 %); stop other programs, and virtual machines on the same host, and repeat"
        );
    }
}
