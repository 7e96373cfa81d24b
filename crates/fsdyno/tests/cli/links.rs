//! The documents: each link leads somewhere, and each document is in the list of documents.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Markdown files in a folder and its subfolders.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(documents(&path)),
            false if path.extension().is_some_and(|it| it == "md") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// Returns the text without code blocks and inline code.
fn prose(text: &str) -> String {
    let mut code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code && !line.starts_with("    ") {
            let parts = line.split('`').enumerate();
            lines.push(parts.filter(|(at, _)| at % 2 == 0).map(|it| it.1).collect::<String>());
        }
    }
    lines.join("\n")
}

/// Returns the targets of links and images, and the values of `src` and `srcset`.
fn targets(text: &str) -> Vec<String> {
    let between = |start: &str, end: char| -> Vec<String> {
        let parts = text.split(start).skip(1);
        parts.filter_map(|part| Some(part.split_once(end)?.0.to_string())).collect()
    };
    [between("](", ')'), between("src=\"", '"'), between("srcset=\"", '"')].concat()
}

/// Returns the anchors of a document's headings, as GitHub and mdBook generate them.
fn anchors(text: &str) -> Vec<String> {
    let mut code = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        code ^= line.starts_with("```");
        let heading = line.strip_prefix('#').filter(|_| !code);
        let Some(heading) = heading.map(|it| it.trim_start_matches('#').trim()) else { continue };
        let letters = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        anchors.push(letters.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    anchors
}

#[test]
fn each_link_of_a_document_leads_to_a_file_and_a_heading() {
    let root = root();
    let mut files = documents(&root.join("docs"));
    files.extend(documents(&root.join("examples")));
    files.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)));
    let (mut count, mut broken) = (0, String::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for target in targets(&prose(&text)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let resolves = match anchor {
                "" => path.exists(),
                anchor => std::fs::read_to_string(&path)
                    .is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor)),
            };
            if !resolves {
                let file = file.strip_prefix(&root).unwrap().display();
                broken.push_str(&format!("{file}: {target}\n"));
            }
        }
    }
    assert!(count > 50, "only {count} links found");
    assert!(broken.is_empty(), "links that lead nowhere:\n{broken}");
}

#[test]
fn each_document_is_in_the_list_of_documents() {
    let docs = root().join("docs");
    let list = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = targets(&list).iter().map(|path| docs.join(path)).collect();
    // The list itself, and the output of the demo, which is part of no chapter.
    let exempt = ["SUMMARY.md", "demo.md"].map(|name| docs.join(name));
    let all = documents(&docs);
    let missing: Vec<_> =
        all.iter().filter(|file| !listed.contains(file) && !exempt.contains(file)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn links_in_code_are_ignored_and_headings_have_anchors() {
    let text = "see [a](b.md#c) and `[x](y)`\n```\n[z](z)\n```\n    [w](w)\n<img src=\"p.svg\">";
    assert_eq!(targets(&prose(text)), ["b.md#c", "p.svg"]);
    assert_eq!(anchors("# A b, `c`-d\n```\n# no\n```\n## E"), ["a-b-c-d", "e"]);
}
