//! Reads signatures with the tools of libblkid, which are in util-linux.

use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::layout::Part;
use super::refusal::BlockError;
use super::signature::Signature;

/// Exit code of blkid(8): nothing found.
const NOTHING: i32 = 2;

/// Exit code of blkid(8): contradictory signatures found.
const AMBIVALENT: i32 = 8;

/// Returns all signatures of a whole device, including contradictory ones and a partition table's backup:
/// wipefs(8) continues after the first, unlike `blkid -p`.
///
/// # Errors
/// A tool that is missing or fails.
pub fn whole_device_signatures(device: &Path) -> Result<Vec<Signature>, BlockError> {
    let output = run("wipefs", &["--no-act", "--parsable"], device)?;
    if !output.status.success() {
        return Err(tool_error("wipefs", &output));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse_line).collect())
}

/// Parses `offset,uuid,label,type`; a comma in a field is written as `\x2c`.
fn parse_line(line: &str) -> Option<Signature> {
    let mut fields = line.split(',').skip(1).map(|field| field.trim().to_string());
    let (uuid, label) = (fields.next()?, fields.next()?);
    Some(Signature { kind: fields.next()?, uuid, label })
}

/// Returns the signature of a part of a device, as if the part were a device.
///
/// # Errors
/// A tool that is missing or fails.
pub fn part_signature(device: &Path, part: Part) -> Result<Option<Signature>, BlockError> {
    let (offset, size) = (part.start.0.to_string(), part.size.0.to_string());
    probe(&["--offset", &offset, "--size", &size], device)
}

/// Returns the signature of a device.
///
/// # Errors
/// A tool that is missing or fails.
pub fn device_signature(device: &Path) -> Result<Option<Signature>, BlockError> {
    probe(&[], device)
}

fn probe(extra_args: &[&str], device: &Path) -> Result<Option<Signature>, BlockError> {
    let args = [&["--probe", "--output", "export"], extra_args].concat();
    let output = run("blkid", &args, device)?;
    match output.status.code() {
        Some(0) => Ok(Some(parse_export(&String::from_utf8_lossy(&output.stdout)))),
        Some(NOTHING) => Ok(None),
        Some(AMBIVALENT) => {
            let kind = "several signatures that contradict each other".to_string();
            Ok(Some(Signature { kind, uuid: String::new(), label: String::new() }))
        }
        _ => Err(tool_error("blkid", &output)),
    }
}

/// Parses lines of `KEY=value`.
fn parse_export(text: &str) -> Signature {
    let value = |keys: &[&str]| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let mut found = pairs.filter(|(key, _)| keys.contains(key)).map(|(_, value)| value);
        found.next().unwrap_or_default().to_string()
    };
    let kind = Some(value(&["TYPE", "PTTYPE"])).filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or_else(|| "something".into());
    Signature { kind, uuid: value(&["UUID", "PTUUID"]), label: value(&["LABEL"]) }
}

fn run(tool: &'static str, args: &[&str], device: &Path) -> Result<Output, BlockError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new(tool)
        .args(args)
        .arg(device)
        // Debian's users have no sbin on their PATH.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    ran.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BlockError::NoTool(tool),
        _ => BlockError::io("start", Path::new(tool), error),
    })
}

fn tool_error(tool: &'static str, output: &Output) -> BlockError {
    let text = String::from_utf8_lossy(&output.stderr);
    let output = text.lines().last().unwrap_or("no output").to_string();
    BlockError::Tool { tool, output }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_wipefs_and_blkid_are_read() {
        let line = "0x438,c42baff1-5d8d,my\\x2cdisk,ext4";
        assert_eq!(parse_line(line).unwrap().to_string(), "ext4 c42baff1-5d8d 'my\\x2cdisk'");
        assert_eq!(parse_line("0x1fe,,,dos").unwrap().to_string(), "dos");
        let export = "DEVNAME=/dev/sdb\nUUID=1-2\nTYPE=xfs\nUSAGE=filesystem\n";
        assert_eq!(parse_export(export).to_string(), "xfs 1-2");
        assert_eq!(parse_export("DEVNAME=/dev/sdb\nPTTYPE=gpt\n").to_string(), "gpt");
    }
}
