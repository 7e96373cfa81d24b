//! Compiles what runs inside recorded programs (inside/inside.c), which src/shared.rs embeds, and makes constants of
//! Rust of inside/layout.h.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, exit};

/// A flat image at a fixed address, which needs no library and uses no vector registers.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fPIC",
    "-fvisibility=hidden",
    "-mgeneral-regs-only",
    "-mno-red-zone",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-fno-tree-loop-distribute-patterns",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,-T,inside/inside.ld",
    "-Wl,--build-id=none",
    "-Wl,--oformat=binary",
];

fn main() {
    println!("cargo::rerun-if-env-changed=CC");
    for file in ["inside.c", "paths.h", "inside.ld", "layout.h"] {
        println!("cargo::rerun-if-changed=inside/{file}");
    }
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    // Rust links with cc too, so it is there.
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(FLAGS).arg("-o").arg(Path::new(&folder).join("inside.bin"));
    command.arg("inside/inside.c");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}; a C compiler is needed")),
    }
    match layout().map(|text| std::fs::write(Path::new(&folder).join("layout.rs"), text)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) | Err(error) => fail(&format!("inside/layout.h: {error}")),
    }
}

/// `#define NAME VALUE` as `pub const NAME: usize = VALUE;`.
fn layout() -> std::io::Result<String> {
    let header = std::fs::read_to_string("inside/layout.h")?;
    let mut out = String::new();
    for line in header.lines() {
        let mut words = line.split(' ');
        if let (Some("#define"), Some(name), Some(value)) =
            (words.next(), words.next(), words.next())
        {
            let _ = writeln!(out, "pub const {name}: usize = {value};");
        }
    }
    Ok(out)
}

fn fail(why: &str) {
    println!("cargo::error=failed to compile what runs inside recorded programs: {why}");
    exit(1);
}
