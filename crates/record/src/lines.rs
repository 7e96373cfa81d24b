//! Reads `trials.ndjson` and `series.ndjson`: one record per line; a crash may have torn the last one.
//!
//! Both reporting and resuming read result folders with this module, so they agree on what is a record, a torn line or
//! a foreign file.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use serde::de::DeserializeOwned;

use crate::bounded::{self, Bounded, RECORDS};
use crate::{SCHEMA, Trial};

/// Name of the file of records in a result folder.
pub const FILE: &str = "trials.ndjson";

/// The start of every line, because `schema` is the first field of a record.
const BEGIN: &[u8] = b"{\"schema\":";

/// The contents of `trials.ndjson`.
pub type Lines = LinesOf<Trial>;

/// The contents of a file of records, one per line, each of which begins with its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct LinesOf<T> {
    /// The selected records, in the order of the lines.
    pub records: Vec<T>,
    /// The offset of the end of each record's line, newline included.
    pub ends: Vec<usize>,
    /// The length of the text up to the end of the last valid line.
    pub valid_length: usize,
    /// True if the last record lacks its newline.
    pub is_unterminated: bool,
    /// The line number, from one, of a last line that was cut off while being written.
    pub torn: Option<usize>,
}

impl<T> Default for LinesOf<T> {
    fn default() -> LinesOf<T> {
        LinesOf {
            records: Vec::new(),
            ends: Vec::new(),
            valid_length: 0,
            is_unterminated: false,
            torn: None,
        }
    }
}

/// A line that is neither a record nor the torn beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from one.
    pub line: usize,
    /// The fault.
    pub fault: Fault,
}

/// A fault in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A newer fsdyno wrote it, with this schema.
    Newer(u64),
    /// It is not a record.
    Broken(String),
}

/// An error while reading lines.
#[derive(Debug)]
pub enum ReadError {
    /// The source failed.
    Io(io::Error),
    /// A line is not a record.
    Bad(BadLine),
}

/// Reads the bytes of a whole file of records: trials or a sidecar.
///
/// # Errors
/// The first line that is not a record, unless it is a torn last line.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<LinesOf<T>, BadLine> {
    read_from(bytes, Some).map_err(|error| match error {
        ReadError::Bad(bad) => bad,
        // Reading memory does not fail.
        ReadError::Io(error) => BadLine { line: 0, fault: Fault::Broken(error.to_string()) },
    })
}

/// Reads an open file from its current position, line by line; stores what `select` returns for each record.
///
/// # Errors
/// Those of [`read_from`]; a file beyond the limit for records.
pub fn read_file<T: DeserializeOwned, K>(
    file: impl Read,
    select: impl FnMut(T) -> Option<K>,
) -> Result<LinesOf<K>, ReadError> {
    read_from(BufReader::new(Bounded::new(file, &RECORDS)), select)
}

/// Reads a file line by line, so that memory never holds a large one both as text and as records; stores
/// what `select` returns for each record.
///
/// # Errors
/// Those of [`read`]; an error of the source.
pub fn read_from<T: DeserializeOwned, K>(
    mut source: impl BufRead,
    mut select: impl FnMut(T) -> Option<K>,
) -> Result<LinesOf<K>, ReadError> {
    // True if any record was read, selected or not.
    let mut has_records = false;
    let mut lines = LinesOf::default();
    let mut text = Vec::new();
    for line in 1.. {
        match bounded::read_line(&mut source, &RECORDS, &mut text) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                let fault = Fault::Broken(error.to_string());
                return Err(ReadError::Bad(BadLine { line, fault }));
            }
            Err(error) => return Err(ReadError::Io(error)),
        }
        let line_bytes = text.as_slice();
        let has_newline = line_bytes.ends_with(b"\n");
        let is_blank = line_bytes.iter().all(u8::is_ascii_whitespace);
        let mut selected = None;
        if !is_blank {
            match parse(line_bytes) {
                Ok(record) => {
                    has_records = true;
                    selected = select(record);
                    lines.is_unterminated = !has_newline;
                }
                Err(ParseError::Newer(schema)) => {
                    return Err(ReadError::Bad(BadLine { line, fault: Fault::Newer(schema) }));
                }
                Err(ParseError::Json(error)) => {
                    if !has_newline && is_torn(line_bytes, &error, !has_records) {
                        lines.torn = Some(line);
                        return Ok(lines);
                    }
                    let fault = Fault::Broken(error.to_string());
                    return Err(ReadError::Bad(BadLine { line, fault }));
                }
            }
        }
        lines.valid_length += line_bytes.len();
        if let Some(record) = selected {
            lines.records.push(record);
            lines.ends.push(lines.valid_length);
        }
    }
    Ok(lines)
}

/// Returns true if a line without its newline is the beginning of a record. A writer writes each line together with its
/// newline, so a crash leaves a prefix, which may end within a multi-byte character or be padded with zeros. In a
/// file without any record, the prefix must be long enough to distinguish the file from a foreign one.
fn is_torn(text: &[u8], error: &serde_json::Error, is_first: bool) -> bool {
    let is_text = std::str::from_utf8(text).is_ok() && !text.contains(&0);
    let is_short = BEGIN.starts_with(text) || text.iter().all(|byte| *byte == 0);
    (text.starts_with(BEGIN) || (is_short && !is_first)) && (error.is_eof() || !is_text)
}

enum ParseError {
    Newer(u64),
    Json(serde_json::Error),
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ParseError> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u64,
    }
    // The version is parsed first: a newer record may have any shape.
    let version: Version = serde_json::from_slice(text).map_err(ParseError::Json)?;
    if version.schema > u64::from(SCHEMA) {
        return Err(ParseError::Newer(version.schema));
    }
    serde_json::from_slice(text).map_err(ParseError::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::plan::{MediumPlan, VenuePlan, VerifyMode, WorkloadPlan};
    use crate::trial::Outcome;

    fn read_trials(bytes: &[u8]) -> Result<Lines, BadLine> {
        super::read(bytes)
    }

    fn line() -> String {
        let trial = Trial {
            schema: SCHEMA,
            trial_id: "t".into(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            repeats: None,
            version: "0".into(),
            row: None,
            deadline_ns: None,
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
                venue: VenuePlan::Host,
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
            let lines = read_trials(&text).unwrap();
            assert_eq!((lines.records.len(), lines.torn), (1, Some(2)), "cut at {cut}");
            assert_eq!(lines.valid_length, line.len() + 1);
        }
        let whole = read_trials(line.as_bytes()).unwrap();
        assert_eq!((whole.records.len(), whole.torn, whole.is_unterminated), (1, None, true));
        assert_eq!(whole.valid_length, line.len());
        let zeros = read_trials(format!("{line}\n\0\0\0").as_bytes()).unwrap();
        assert_eq!((zeros.torn, zeros.valid_length), (Some(2), line.len() + 1));
    }

    #[test]
    fn a_foreign_line_is_never_a_torn_trial() {
        for foreign in ["{\"mine\": [1,2,3]}", "{\"mine\": [1,2", "{", "\0\0", "[", "mine"] {
            let bad = read_trials(foreign.as_bytes()).unwrap_err();
            assert!(matches!(bad, BadLine { line: 1, fault: Fault::Broken(_) }), "{foreign}");
        }
    }

    #[test]
    fn a_line_inside_or_one_with_its_newline_is_never_torn() {
        let (line, half) = (line(), &line()[..40]);
        assert_eq!(read_trials(format!("{half}\n{line}\n").as_bytes()).unwrap_err().line, 1);
        assert_eq!(read_trials(format!("{line}\n{half}\n").as_bytes()).unwrap_err().line, 2);
    }

    #[test]
    fn a_newer_schema_is_reported_even_in_the_last_line() {
        let bad = read_trials(b"{\"schema\":3,\"shape\":\"unknown\"}").unwrap_err();
        assert_eq!(bad.fault, Fault::Newer(3));
    }
}
