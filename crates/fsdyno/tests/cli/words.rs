//! The language of source, help texts and documents: the words that docs/glossary.md does not use, and first lines of doc
//! comments that begin with a relative clause.
//!
//! Help texts are searched in docs/cli.md, which tests/cli/docs.rs compares with the program.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::{Path, PathBuf};

/// Maximum fraction of doc comments that begin with a relative clause.
const LIMIT: f64 = 0.01;

/// First words of such clauses.
const CLAUSES: [&str; 10] =
    ["What", "Which", "Whether", "How", "Where", "Who", "Why", "When", "That", "The same,"];

/// Lines with one of these texts are not searched.
const EXEMPT: &[(&str, &str)] = &[
    (".books", "the field of records"),
    ("books:", "the field of records"),
    (",books,", "the column of CSV"),
    ("\"books\"", "the key of records in JSON"),
    ("\"law\"", "the key of disk profiles"),
    ("law =", "the key of disk profiles"),
    ("as then", "the option --as then and its label"),
    ("as today", "the option --as today and its label"),
    ("\"status asked for\"", "an operation count of records"),
    ("\"beside\"", "the phase of records"),
    ("beside: the same", "the phase of that name"),
    ("quiet and beside", "the phase of that name"),
    ("most in beside", "the phase of that name"),
    ("before beside", "the phase of that name"),
    ("user nobody", "the user of that name"),
];

/// The left column of the glossary's table.
fn unused_words(root: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root.join("docs/glossary.md")).unwrap();
    let table = text.split_once("## Words not used").unwrap().1;
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let cells = cells.filter(|cell| *cell != "avoid");
    let phrases: Vec<Vec<String>> = cells
        .flat_map(|cell| cell.split(", "))
        .map(|phrase| phrase.split_whitespace().map(str::to_lowercase).collect())
        .collect();
    assert!(phrases.len() > 20, "{phrases:?}");
    phrases
}

/// A word of a text; an identifier consists of several.
struct Word {
    text: String,
    line: usize,
    /// Separated from the word before by nothing but spaces and signs of comments, strings and identifiers.
    adjoins: bool,
    /// Part of a command-line option.
    option: bool,
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut adjoins, mut before) = (1, false, ' ');
    let mut inside = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric();
        let begins = is_word && (!inside || (c.is_uppercase() && before.is_lowercase()));
        if begins {
            words.push(Word { text: String::new(), line, adjoins, option: before == '-' });
            adjoins = true;
        }
        if is_word {
            words.last_mut().unwrap().text.extend(c.to_lowercase());
        } else {
            adjoins &= c.is_whitespace() || "/!*_\\`\">".contains(c);
            line += usize::from(c == '\n');
        }
        (inside, before) = (is_word, c);
    }
    words
}

/// The lines of a text with one of the phrases.
fn found(text: &str, phrases: &[Vec<String>]) -> Vec<(usize, String)> {
    let words = words(text);
    let lines: Vec<&str> = text.lines().collect();
    let is_exempt = |line: usize| EXEMPT.iter().any(|(part, _)| lines[line - 1].contains(part));
    let is_phrase = |at: usize, phrase: &[String]| {
        let Some(here) = words.get(at..at + phrase.len()) else { return false };
        let same = here.iter().zip(phrase).all(|(word, wanted)| word.text == *wanted);
        same && here[1..].iter().all(|word| word.adjoins) && !here[0].option
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let line = word.line;
        for phrase in phrases.iter().filter(|phrase| is_phrase(at, phrase)) {
            if !is_exempt(line) {
                found.push((line, phrase.join(" ")));
            }
        }
    }
    found
}

/// The first lines of doc comments: all, and those that begin with a relative clause.
fn doc_lines(text: &str) -> (usize, usize) {
    let (mut all, mut clauses, mut inside) = (0, 0, false);
    for line in text.lines().map(str::trim_start) {
        let doc = line.strip_prefix("/// ");
        if let Some(first) = doc.filter(|_| !inside) {
            all += 1;
            let begins = |clause: &str| {
                let rest = first.strip_prefix(clause);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            clauses += usize::from(CLAUSES.iter().any(|clause| begins(clause)));
        }
        inside = line.starts_with("///");
    }
    (all, clauses)
}

fn files(folder: &Path, ending: &str, deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if deep => found.extend(files(&path, ending, deep)),
            false if path.extension().is_some_and(|it| it == ending) => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

#[test]
fn source_help_and_documents_keep_to_the_glossary() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let phrases = unused_words(&root);
    let mut parts: Vec<(String, Vec<PathBuf>)> = Vec::new();
    for entry in root.join("crates").read_dir().unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        parts.push((name, files(&folder.join("src"), "rs", true)));
    }
    let mut docs = files(&root.join("docs"), "md", false);
    docs.push(root.join("README.md"));
    parts.push(("docs".into(), docs));
    parts.sort();
    let mut report = String::new();
    for (name, paths) in &parts {
        let (mut all, mut clauses) = (0, 0);
        for path in paths {
            let text = std::fs::read_to_string(path).unwrap();
            let text = match path.ends_with("glossary.md") {
                true => text.split_once("## Words not used").unwrap().0,
                false => &text,
            };
            let shown = path.strip_prefix(&root).unwrap().display().to_string();
            for (line, phrase) in found(text, &phrases) {
                report.push_str(&format!("{shown}:{line}: {phrase}\n"));
            }
            let (of_all, of_clauses) = doc_lines(text);
            (all, clauses) = (all + of_all, clauses + of_clauses);
        }
        if clauses as f64 > LIMIT * all as f64 {
            report.push_str(&format!(
                "{name}: {clauses} of {all} doc comments begin with a relative clause\n"
            ));
        }
    }
    assert!(report.is_empty(), "{report}use the words of docs/glossary.md");
}

#[test]
fn words_are_found_in_comments_strings_and_identifiers_and_across_lines() {
    let phrases = ["told", "so many"].map(|it| it.split(' ').map(String::from).collect());
    let lines = |text: &str| -> Vec<usize> {
        found(text, &phrases).into_iter().map(|(line, _)| line).collect()
    };
    assert_eq!(lines("fn is_told() {}\nstruct ToldBy;\n// TOLD\n\"untold\" atoll"), [1, 2, 3]);
    assert_eq!(lines("/// as so\n    /// many\nso. Many\n--told"), [1]);
    assert_eq!(doc_lines("/// What is\n/// which\nfn f();\n/// Whatever\n/// The\n"), (2, 1));
}
