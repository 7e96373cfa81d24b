//! Stamps the program with the commit of its source (src/version.rs), where git knows it.

use std::path::Path;
use std::process::Command;

/// All that the program is built from, below the root of the checkout.
const SOURCES: &[&str] =
    &["Cargo.toml", "Cargo.lock", "crates", "catalog", "studies", "docs/kernel.config"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=FSDYNO_BUILD={}", stamp().unwrap_or_default());
}

/// The commit, with a `+` behind it where the source differs from it; none outside of a checkout.
fn stamp() -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    // A copy of the source within another repository is none of its files.
    let files = git(&root, &[&["ls-files", "-z", "--"], SOURCES].concat())?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        watch(&root.join(file));
    }
    if files.is_empty() {
        return None;
    }
    // A commit moves the log of HEAD, or HEAD alone where there is no log.
    for name in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(&root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            watch(&path);
        }
    }
    let commit = git(&root, &["rev-parse", "--verify", "HEAD"])?;
    let changes = [&["status", "--porcelain", "--untracked-files=no", "--"], SOURCES].concat();
    let dirty = !git(&root, &changes)?.is_empty();
    Some(format!("{commit}{}", if dirty { "+" } else { "" }))
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// The output of git; none where it fails or is missing.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output =
        Command::new("git").arg("--no-optional-locks").args(words).current_dir(folder).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
