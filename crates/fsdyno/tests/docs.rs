//! docs/cli.md is the program's own help, so it cannot drift: `make docs` writes it anew.

mod common;

use std::path::PathBuf;

use common::{code, run, stdout};

const COMMANDS: &[&str] = &[
    "", "run", "merge", "report", "compare", "crash", "study", "why", "list", "show", "fit",
    "doctor",
];

#[test]
fn the_reference_is_the_programs_own_help() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "# The command line\n\nThis is what `--help` prints; `make docs` writes it anew, and a test \
         compares the two.\n",
    );
    for command in COMMANDS {
        let output = run(folder.path(), &format!("{command} --help"));
        assert_eq!(code(&output), 0);
        let help = stdout(&output);
        assert!(command.is_empty() || help.contains("Examples:"), "{command} has no example");
        let title = format!("fsdyno {command}");
        text.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", title.trim(), help.trim_end()));
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "docs/cli.md is not what --help prints; run: make docs");
}
