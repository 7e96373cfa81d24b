//! Draws charts as PNG, with rsvg-convert of librsvg.
//!
//! A renderer linked into this program would add CPU time to its build (resvg: 54 s), and would need the host's fonts
//! as well.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::{Exit, Failure};

const PROGRAM: &str = "rsvg-convert";

/// Pixels of the PNG per pixel of the chart, so that text is sharp on paper and on high-resolution screens.
const ZOOM: &str = "2";

/// Length in bytes of a PNG's signature and header chunk, which come first (PNG specification, 5.2 and 5.6).
const HEADER: usize = 8 + 25;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Type and data of the chunk that marks a PNG as one that fsdyno may overwrite.
const MARK: &[u8] = b"tEXtSoftware\0a chart of fsdyno";

/// The program that draws PNGs.
pub struct Converter(PathBuf);

impl Converter {
    /// Finds the program.
    ///
    /// # Errors
    /// The program is missing.
    pub fn find() -> Result<Converter, Failure> {
        fsdyno_lab::find_program(PROGRAM).map(Converter).map_err(|_| Failure {
            exit: Exit::Missing,
            message: format!(
                "--png needs {PROGRAM}, which is missing; install it with: apt-get install librsvg2-bin"
            ),
        })
    }

    /// Draws a chart.
    ///
    /// # Errors
    /// The program's message.
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, Failure> {
        let failed = |why: String| {
            Failure::invalid_use(format!("failed to draw a chart with {}: {why}", self.0.display()))
        };
        let mut command = Command::new(&self.0);
        command.args(["--format", "png", "--zoom", ZOOM]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        // The program reads the whole document before it writes. If it exits early, its message gives the reason.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(svg.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() || !output.stdout.starts_with(SIGNATURE) {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()));
        }
        Ok(with_mark(&output.stdout))
    }
}

/// Inserts the mark after the header of a PNG.
fn with_mark(png: &[u8]) -> Vec<u8> {
    let (header, rest) = png.split_at(HEADER.min(png.len()));
    let length = (MARK.len() - 4) as u32;
    let checksum = crc32fast::hash(MARK);
    [header, &length.to_be_bytes(), MARK, &checksum.to_be_bytes(), rest].concat()
}

/// Tests whether bytes are the beginning of a PNG with the mark.
pub fn is_ours(bytes: &[u8]) -> bool {
    let mark = bytes.get(HEADER + 4..HEADER + 4 + MARK.len());
    bytes.starts_with(SIGNATURE) && mark == Some(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_drawn_at_twice_its_size_and_recognized() {
        let Ok(converter) = Converter::find() else {
            return println!("skipped: no {PROGRAM} here (apt-get install librsvg2-bin)");
        };
        let svg = r#"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><rect width="9" height="9"/></svg>"#;
        let png = converter.png(svg).unwrap();
        assert_eq!(
            (&png[16..20], &png[20..24]),
            (&60u32.to_be_bytes()[..], &40u32.to_be_bytes()[..])
        );
        assert!(is_ours(&png) && !is_ours(&png[..40]));
        let unmarked = [&png[..HEADER], &png[HEADER + 12 + MARK.len() - 4..]].concat();
        assert!(!is_ours(&unmarked) && with_mark(&unmarked) == png);
        let message = converter.png("no document").err().unwrap().message;
        assert!(message.starts_with("failed to draw a chart with /"), "{message}");
    }
}
