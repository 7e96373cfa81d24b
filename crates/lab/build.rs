//! Compiles the clock guard (guard/guard.c), which src/guard.rs embeds.

use std::path::Path;
use std::process::{Command, exit};

/// Nothing that tells where or when it was compiled: the guard is part of a lab's identity.
const FLAGS: &[&str] =
    &["-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"];

fn main() {
    println!("cargo::rerun-if-changed=guard/guard.c");
    println!("cargo::rerun-if-env-changed=CC");
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    // Rust links with cc too, so it is there.
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(FLAGS).arg("-o").arg(Path::new(&folder).join("guard.so")).arg("guard/guard.c");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}; it is a C compiler that is wanted")),
    }
}

fn fail(why: &str) {
    println!("cargo::error=failed to compile the clock guard: {why}");
    exit(1);
}
