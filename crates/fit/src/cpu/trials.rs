//! Runs the trials of a fit, each in a child process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, Store};
use fsdyno_child::Process;
use fsdyno_record::Trial;

/// The maximum ratio of the median repetition to the fastest; a larger one indicates the work of another program.
const MAX_NOISE: f64 = 1.3;
const POLL: Duration = Duration::from_millis(50);

/// A runner of trials, with their folder of results and the kernel of the lab.
pub struct Runner<'a> {
    /// A folder for results.
    pub folder: &'a Path,
    /// The kernel of the lab's guests; none for the lab's default.
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

    /// Runs `fsdyno run` with these arguments and returns its trials; none if it was stopped.
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

/// Refuses measurements that other programs disturbed. `times` contains the repetitions of each operation, ascending.
pub fn refuse_noise<'t>(
    times: impl Iterator<Item = &'t Vec<f64>>,
    repeats: u32,
) -> Result<(), Failure> {
    let mut noise: Vec<f64> = times.map(|times| times[times.len() / 2] / times[0]).collect();
    noise.sort_by(f64::total_cmp);
    let median = noise.get(noise.len() / 2).copied().unwrap_or(1.0);
    if median <= MAX_NOISE {
        return Ok(());
    }
    Err(Failure::invalid_use(format!(
        "this machine is too busy for a fit: the median CPU time of {repeats} repetitions is {:.0} % above the \
         least (at most {:.0} %); stop other programs, and virtual machines on the same host, and repeat",
        (median - 1.0) * 100.0,
        (MAX_NOISE - 1.0) * 100.0
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_with_too_much_noise_are_refused_with_the_noise_and_what_to_do() {
        // Ascending times of three operations; the fastest of five counts.
        let quiet = [vec![10.0, 10.1, 10.2, 11.0, 30.0], vec![4.0, 4.0, 5.2, 6.0, 9.0]];
        assert!(refuse_noise(quiet.iter(), 5).is_ok());
        let one_busy = [quiet[0].clone(), quiet[0].clone(), vec![1.0, 2.0, 3.0, 4.0, 5.0]];
        assert!(refuse_noise(one_busy.iter(), 5).is_ok(), "an operation may vary by itself");
        let busy = [quiet[0].clone(), vec![4.0, 5.0, 6.0, 7.0, 8.0], vec![1.0, 1.0, 1.4, 2.0, 2.0]];
        let error = refuse_noise(busy.iter(), 5).unwrap_err().message;
        assert_eq!(
            error,
            "this machine is too busy for a fit: the median CPU time of 5 repetitions is 40 % above the least (at \
             most 30 %); stop other programs, and virtual machines on the same host, and repeat"
        );
        assert!(refuse_noise([].iter(), 5).is_ok(), "nothing was measured");
    }
}
