//! A rank whose command line is refused: the other ranks of its run receive the reason, instead of waiting for it.

use std::ffi::OsString;
use std::path::Path;

use fsdyno_ranks::{Timeouts, launcher, meet, parent};

use super::request::RanksOptions;

/// Reports that the command line of this process cannot be parsed, if a launcher started it as a rank of a run.
pub fn report_refusal(version: &str, error: &str) {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_rank = args.iter().any(|arg| arg == "--ranks" || starts_with(arg, "--ranks="));
    if is_rank && args.first().is_some_and(|command| command == "run") {
        let first = error.lines().next().unwrap_or_default();
        tell(&directories(&args), version, first.trim_start_matches("error: "));
    }
}

/// Reports that the options of this process are refused, if it is to be a rank of a run.
pub(super) fn report(options: &RanksOptions, on: &[String], version: &str, why: &str) {
    if options.ranks.is_some() && options.hosts.is_none() {
        tell(on, version, why);
    }
}

/// Reports to rank 0 that this process cannot be one of its ranks, or, as rank 0, to the ranks that wait for it.
fn tell(on: &[String], version: &str, why: &str) {
    let env = |name: &str| std::env::var(name).ok();
    // A contradiction between the environment and the command line may be the reason.
    let (Ok(Some(position)), [on]) = (launcher::detect(&env, None), on) else { return };
    let Ok(on) = std::path::absolute(Path::new(on)) else { return };
    match position.rank {
        0 => meet::show_refusal(&position, &on),
        _ => {
            let why = format!("its command line is refused: {why}");
            parent::report_refusal(&position, &on, version, Timeouts::default().gather, &why);
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
