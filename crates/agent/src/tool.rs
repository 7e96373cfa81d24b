//! Tools that the agent runs to completion: mkfs, checks, mdadm.

use std::io;
use std::process::{Command, Stdio};

use crate::output;

/// The outcome of a tool.
#[derive(Clone, Debug, Default)]
pub struct ToolResult {
    /// Its exit code; `None` if it was killed.
    pub exit: Option<i32>,
    /// Both its outputs, the last MiB of each.
    pub output: String,
    /// The part of the output that went to standard error.
    pub errors: String,
}

impl ToolResult {
    /// Returns `Ok` if it succeeded.
    ///
    /// # Errors
    /// The command, how it ended, and its last lines.
    pub fn check(&self, argv: &[String]) -> io::Result<()> {
        if self.exit == Some(0) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} failed ({}): {}",
            argv.join(" "),
            self.exit.map_or("killed".to_string(), |code| format!("exit code {code}")),
            self.failure_lines().join(" / ")
        )))
    }

    /// Returns the tool's lines about a failure, from standard error, or from standard output if that is empty: the
    /// last lines before the usage that some tools print after any invalid option.
    fn failure_lines(&self) -> Vec<String> {
        let errors = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        let said: Vec<&str> =
            errors.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let usage = |line: &&str| line.trim_start().to_lowercase().starts_with("usage:");
        let end = said.iter().position(usage).filter(|at| *at > 0).unwrap_or(said.len());
        said[end.saturating_sub(3)..end].iter().map(ToString::to_string).collect()
    }

    /// Returns the last non-blank lines of the output.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let lines: Vec<&str> =
            self.output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|line| line.to_string()).collect()
    }
}

/// Runs a tool to completion, with no standard input.
///
/// # Errors
/// If the tool cannot be started; the message names it.
pub fn run<'a>(
    argv: &[String],
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> io::Result<ToolResult> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty command"));
    };
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{program}: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(named)?;
    let said = output::read_both(&mut child);
    let status = child.wait().map_err(named)?;
    let (mut output, errors) = said.map_err(named)?;
    output.push_str(&errors);
    Ok(ToolResult { exit: status.code(), output, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_is_named() {
        let error = run(&["no-such-tool".to_string()], []).unwrap_err();
        assert!(error.to_string().starts_with("no-such-tool: "), "{error}");
    }

    #[test]
    fn both_outputs_and_the_exit_code_are_kept() {
        let argv = ["sh", "-c", "echo out; echo err >&2; exit 3"].map(String::from);
        let ran = run(&argv, []).unwrap();
        assert_eq!(ran.exit, Some(3));
        assert_eq!(ran.last_lines(9), ["out", "err"]);
        assert_eq!(ran.last_lines(1), ["err"]);
        let error = ran.check(&argv).unwrap_err().to_string();
        assert!(error.ends_with("failed (exit code 3): err"), "{error}");
    }

    #[test]
    fn a_tools_own_message_is_reported_and_not_its_usage() {
        let said = |script: &str| {
            let argv = ["sh", "-c", script].map(String::from);
            run(&argv, []).unwrap().check(&argv).unwrap_err().to_string()
        };
        let usage = "echo 'Log size must be at least 64MB.' >&2; echo 'Usage: mkfs.xfs' >&2; \
                     echo '-a' >&2; echo '-b' >&2; echo '-c' >&2; exit 1";
        assert!(said(usage).ends_with("(exit code 1): Log size must be at least 64MB."));
        assert!(said("echo Usage: me >&2; echo more >&2; exit 1").ends_with("Usage: me / more"));
        assert!(said("echo only out; exit 1").ends_with(": only out"));
    }
}
