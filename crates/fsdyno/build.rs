//! Stamps the program with the commit of its source (src/version.rs), where git knows it.

use std::path::Path;
use std::process::Command;

/// Everything that the program is built from, relative to the root of the checkout.
const SOURCES: &[&str] =
    &["Cargo.toml", "Cargo.lock", "crates", "catalog", "studies", "docs/kernel.config"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=FSDYNO_BUILD={}", stamp().unwrap_or_default());
}

/// The commit, followed by `+` if the source differs from it; `None` outside a checkout.
fn stamp() -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    // If the source was copied into another repository, that repository tracks none of its files.
    let files = git(&root, &[&["ls-files", "-z", "--"], SOURCES].concat())?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        watch(&root.join(file));
    }
    if files.is_empty() {
        return None;
    }
    // A commit changes the reflog of HEAD, or only HEAD if there is no reflog.
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

/// The output of git; `None` if git fails or is not installed.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output =
        Command::new("git").arg("--no-optional-locks").args(words).current_dir(folder).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
