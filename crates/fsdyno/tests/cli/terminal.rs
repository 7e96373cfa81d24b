//! Output on a terminal: coloured unless NO_COLOR is set, and no row wider than the terminal.
//! `script` (util-linux) is the terminal; where it is missing the tests are skipped with that reason.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{code, crashed, fsdyno, run, stderr, stdout};
use unicode_width::UnicodeWidthStr;

/// Two results of this host, the second with a label in wide letters.
fn make_results(folder: &Path) {
    for out in ["a", "b"] {
        let done = run(folder, &format!("run dirops --on . --set files=200 --out {out}"));
        assert_eq!(code(&done), 0, "{}", stderr(&done));
    }
    let file = folder.join("b/trials.ndjson");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("\"label\":\"").unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    std::fs::write(&file, format!("{before}\"label\":\"比較\"{after}")).unwrap();
}

/// Returns the output of `fsdyno ARGS` on a terminal with this number of columns; `None` without `script`.
fn on_a_terminal(
    folder: &Path,
    args: &str,
    columns: u32,
    no_color: Option<&str>,
) -> Option<String> {
    let mut command = Command::new("script");
    let program = fsdyno(folder).get_program().to_string_lossy().into_owned();
    let line = format!("stty cols {columns}; exec '{program}' {args} 2>/dev/null");
    command.args(["-qec", &line, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    command.env_remove("COLUMNS").env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.envs(no_color.map(|value| ("NO_COLOR", value)));
    let Ok(output) = command.output() else {
        println!("skipped: there is no `script` here (apt-get install bsdutils)");
        return None;
    };
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    Some(stdout(&output))
}

/// Removes colours and the carriage returns at the ends of a terminal's lines.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_string();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    rest.fold(first, |all, part| all + part).replace('\r', "")
}

#[test]
fn colour_is_for_terminals_and_no_color_disables_it() {
    let folder = tempfile::tempdir().unwrap();
    make_results(folder.path());
    let Some(printed) = on_a_terminal(folder.path(), "report a b", 100, None) else { return };
    assert!(printed.contains("\x1b["), "{printed}");
    // No-color.org: when present and not an empty string, whatever its value.
    for (value, coloured) in [("1", false), ("0", false), ("", true)] {
        let printed = on_a_terminal(folder.path(), "report a b", 100, Some(value)).unwrap();
        assert_eq!(printed.contains('\x1b'), coloured, "NO_COLOR={value:?}: {printed}");
    }
    let piped = run(folder.path(), "report a b");
    assert!(!stdout(&piped).contains('\x1b'));
    assert_eq!(without_escapes(&printed), stdout(&piped));
}

#[test]
fn no_line_is_wider_than_the_terminal_and_omitted_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    make_results(folder.path());
    crashed(folder.path(), "a", "比較 with a label that is longer than any line", "crash");
    let shown = [
        "report crash",
        "report a b",
        "show series a",
        "list disks",
        "list workloads",
        "list periods",
    ];
    for args in shown {
        for columns in [40, 60, 80, 120] {
            let Some(printed) = on_a_terminal(folder.path(), args, columns, None) else { return };
            for line in without_escapes(&printed).lines() {
                assert!(line.width() <= columns as usize, "{args} at {columns}: {line:?}");
            }
        }
    }
    let at = |columns| {
        without_escapes(&on_a_terminal(folder.path(), "report a b", columns, None).unwrap())
    };
    assert!(at(40).contains("columns omitted to fit the width: ") && at(40).contains("p99"));
    let wide = at(160);
    assert!(!wide.contains("columns omitted to fit the width"), "{wide}");
    // The cells of a column end at the same position, with wide letters, too.
    let rows: Vec<&str> = wide.lines().filter(|line| line.contains("  1  ")).collect();
    let ends: Vec<usize> =
        rows.iter().map(|row| row[..row.find("  1  ").unwrap()].width()).collect();
    assert!(ends.len() >= 2 && ends.iter().all(|end| *end == ends[0]), "{wide}");
}
