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
    /// If it failed, a message with the command, its exit code and its last lines.
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
        let lines: Vec<&str> =
            errors.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let is_usage = |line: &&str| line.trim_start().to_lowercase().starts_with("usage:");
        let end = lines.iter().position(is_usage).filter(|index| *index > 0).unwrap_or(lines.len());
        lines[end.saturating_sub(3)..end].iter().map(ToString::to_string).collect()
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
    let name_error = |error: io::Error| io::Error::new(error.kind(), format!("{program}: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(name_error)?;
    let outputs = output::read_both(&mut child);
    let status = child.wait().map_err(name_error)?;
    let (mut output, errors) = outputs.map_err(name_error)?;
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
        let result = run(&argv, []).unwrap();
        assert_eq!(result.exit, Some(3));
        assert_eq!(result.last_lines(9), ["out", "err"]);
        assert_eq!(result.last_lines(1), ["err"]);
        let error = result.check(&argv).unwrap_err().to_string();
        assert!(error.ends_with("failed (exit code 3): err"), "{error}");
    }

    #[test]
    fn a_tools_own_message_is_reported_and_not_its_usage() {
        let failure_of = |script: &str| {
            let argv = ["sh", "-c", script].map(String::from);
            run(&argv, []).unwrap().check(&argv).unwrap_err().to_string()
        };
        let usage = "echo 'Log size must be at least 64MB.' >&2; echo 'Usage: mkfs.xfs' >&2; \
                     echo '-a' >&2; echo '-b' >&2; echo '-c' >&2; exit 1";
        assert!(failure_of(usage).ends_with("(exit code 1): Log size must be at least 64MB."));
        assert!(
            failure_of("echo Usage: me >&2; echo more >&2; exit 1").ends_with("Usage: me / more")
        );
        assert!(failure_of("echo only out; exit 1").ends_with(": only out"));
    }
}
