//! Reads `trials.ndjson`: one trial a line, the last of which a crash may have torn off.
//!
//! Whoever opens a result folder, to show it or to go on in it, reads it here, so both take the
//! same bytes for a trial, for a torn line and for somebody else's file.

use crate::{SCHEMA, Trial};

/// Name of the file of records in a result folder.
pub const FILE: &str = "trials.ndjson";

/// How every line begins, for `schema` is the first field of a trial.
const BEGIN: &[u8] = b"{\"schema\":";

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The trials in the order of the lines.
    pub trials: Vec<Trial>,
    /// How many bytes, from the start, hold them.
    pub good: usize,
    /// Whether the last of them lacks its newline.
    pub unended: bool,
    /// The number of a last line, from one, that was cut off while it was written.
    pub torn: Option<usize>,
}

/// A line that is neither a trial nor the torn beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which, from one.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A newer fsdyno wrote it, with this schema.
    Newer(u64),
    /// It is no trial.
    Broken(String),
}

/// Reads the bytes of a whole file.
///
/// # Errors
/// The first line that is no trial; a torn last one is none.
pub fn read(bytes: &[u8]) -> Result<Lines, BadLine> {
    let mut lines = Lines::default();
    for (index, with_end) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = index + 1;
        let ended = with_end.ends_with(b"\n");
        if !with_end.iter().all(u8::is_ascii_whitespace) {
            match parse(with_end) {
                Ok(trial) => {
                    lines.trials.push(trial);
                    lines.unended = !ended;
                }
                Err(Wrong::Newer(schema)) => {
                    return Err(BadLine { line, fault: Fault::Newer(schema) });
                }
                Err(Wrong::Json(error)) => {
                    if !ended && is_torn(with_end, &error, lines.trials.is_empty()) {
                        lines.torn = Some(line);
                        return Ok(lines);
                    }
                    return Err(BadLine { line, fault: Fault::Broken(error.to_string()) });
                }
            }
        }
        lines.good += with_end.len();
    }
    Ok(lines)
}

/// Whether a line without its newline is the beginning of a trial. A writer ends each line with
/// its newline in one write, so a crash leaves a prefix, perhaps one cut through a letter of
/// several bytes or filled up with zeros. In a file without any trial the prefix has to be long
/// enough to be told from what somebody else wrote.
fn is_torn(text: &[u8], error: &serde_json::Error, first: bool) -> bool {
    let is_text = std::str::from_utf8(text).is_ok() && !text.contains(&0);
    let short = BEGIN.starts_with(text) || text.iter().all(|byte| *byte == 0);
    (text.starts_with(BEGIN) || (short && !first)) && (error.is_eof() || !is_text)
}

enum Wrong {
    Newer(u64),
    Json(serde_json::Error),
}

fn parse(text: &[u8]) -> Result<Trial, Wrong> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u64,
    }
    // The version comes first: a newer record may have any other shape.
    let version: Version = serde_json::from_slice(text).map_err(Wrong::Json)?;
    if version.schema > u64::from(SCHEMA) {
        return Err(Wrong::Newer(version.schema));
    }
    serde_json::from_slice(text).map_err(Wrong::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::plan::{MediumPlan, VerifyMode, WorkloadPlan};
    use crate::trial::Outcome;

    fn line() -> String {
        let trial = Trial {
            schema: SCHEMA,
            trial_id: "t".into(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            version: "0".into(),
            outcome: Outcome::Ok,
            reason: Some("größer".into()),
            plan: Plan {
                label: "x".into(),
                workload: WorkloadPlan {
                    name: "dirops".into(),
                    params: Default::default(),
                    input: None,
                },
                filesystem: None,
                medium: MediumPlan::Directory { path: "/x".into() },
                threads: 1,
                issuer: crate::plan::IssuerPlan::Sync,
                verify: VerifyMode::Full,
                sysctls: Default::default(),
                hash: "h".into(),
            },
            conditions: Default::default(),
            measured: Default::default(),
            host: Default::default(),
        };
        serde_json::to_string(&trial).unwrap()
    }

    #[test]
    fn a_last_line_is_torn_wherever_it_is_cut_and_whole_without_its_newline() {
        let line = line();
        for cut in 1..line.len() {
            let text = [line.as_bytes(), b"\n", &line.as_bytes()[..cut]].concat();
            let lines = read(&text).unwrap();
            assert_eq!((lines.trials.len(), lines.torn), (1, Some(2)), "cut at {cut}");
            assert_eq!(lines.good, line.len() + 1);
        }
        let whole = read(line.as_bytes()).unwrap();
        assert_eq!((whole.trials.len(), whole.torn, whole.unended), (1, None, true));
        assert_eq!(whole.good, line.len());
        let zeros = read(format!("{line}\n\0\0\0").as_bytes()).unwrap();
        assert_eq!((zeros.torn, zeros.good), (Some(2), line.len() + 1));
    }

    #[test]
    fn what_somebody_else_wrote_is_never_a_torn_trial() {
        for foreign in ["{\"mine\": [1,2,3]}", "{\"mine\": [1,2", "{", "\0\0", "[", "mine"] {
            let bad = read(foreign.as_bytes()).unwrap_err();
            assert!(matches!(bad, BadLine { line: 1, fault: Fault::Broken(_) }), "{foreign}");
        }
    }

    #[test]
    fn a_line_inside_or_one_with_its_newline_is_never_torn() {
        let (line, half) = (line(), &line()[..40]);
        assert_eq!(read(format!("{half}\n{line}\n").as_bytes()).unwrap_err().line, 1);
        assert_eq!(read(format!("{line}\n{half}\n").as_bytes()).unwrap_err().line, 2);
    }

    #[test]
    fn a_newer_schema_is_told_even_where_it_is_the_last_line() {
        let bad = read(b"{\"schema\":2,\"shape\":\"unknown\"}").unwrap_err();
        assert_eq!(bad.fault, Fault::Newer(2));
    }
}
