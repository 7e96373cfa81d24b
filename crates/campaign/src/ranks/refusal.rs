//! A rank whose command line is refused: the other ranks of its run receive the reason, instead of waiting for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fsdyno_ranks::{Position, Timeouts, launcher, meet, parent};

/// Reports that the command line of this process cannot be parsed, if a launcher started it as a rank of a run.
pub fn report_command_line(version: &str, error: &str) {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_rank = args.iter().any(|arg| arg == "--ranks" || starts_with(arg, "--ranks="));
    if !is_rank || args.first().is_none_or(|command| command != "run") {
        return;
    }
    let first = error.lines().next().unwrap_or_default();
    let why = first.trim_start_matches("error: ");
    report(&directories(&args), version, why);
}

/// Reports to rank 0 that this process cannot be one of its ranks, or, as rank 0, to the ranks that wait for it.
pub(super) fn report(on: &[String], version: &str, why: &str) {
    let env = |name: &str| std::env::var(name).ok();
    // A contradiction between the environment and the command line may be the reason.
    let (Ok(Some(position)), [on]) = (launcher::detect(&env, None), on) else { return };
    let Ok(on) = std::path::absolute(Path::new(on)) else { return };
    tell(&position, on, version, why);
}

fn tell(position: &Position, on: PathBuf, version: &str, why: &str) {
    match position.rank {
        0 => meet::show_refusal(position, &on),
        _ => {
            let why = format!("its command line is refused: {why}");
            parent::report_refusal(position, &on, version, Timeouts::default().gather, &why);
        }
    }
}

/// Returns the values of `--on`.
fn directories(args: &[OsString]) -> Vec<String> {
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--on" {
            found.extend(args.next().and_then(|value| value.to_str()).map(String::from));
        } else if let Some(value) = arg.to_str().and_then(|arg| arg.strip_prefix("--on=")) {
            found.push(value.to_string());
        }
    }
    found
}

fn starts_with(arg: &OsString, prefix: &str) -> bool {
    arg.to_str().is_some_and(|arg| arg.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_in_a_command_line_that_cannot_be_parsed() {
        let found = |text: &str| {
            directories(&text.split(' ').map(OsString::from).collect::<Vec<OsString>>())
        };
        assert_eq!(found("run dirops --nonsense --on /a --ranks"), ["/a"]);
        assert_eq!(found("run dirops --on=/a/b --ranks=3 --on"), ["/a/b"]);
        assert!(found("run dirops --one /a").is_empty());
    }
}
