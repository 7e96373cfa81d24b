//! Compiles what QEMU is started with: the clock guard (guard/guard.c), which src/guard.rs embeds, the
//! profile (profile/profile.c) of src/profile.rs and the processor model (processor/processor.c) of src/processor.rs.

use std::path::Path;
use std::process::{Command, exit};

/// Nothing that tells where or when it was compiled: guard and processor model are part of a lab's identity.
const FLAGS: &[&str] =
    &["-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"];

fn main() {
    println!("cargo::rerun-if-env-changed=CC");
    compile("guard", &[]);
    // QEMU has the functions that a plugin calls, and looks for two of its own.
    compile("profile", &["-fvisibility=hidden"]);
    compile("processor", &["-fvisibility=hidden"]);
}

/// Compiles NAME/NAME.c to NAME.so.
fn compile(name: &str, more: &[&str]) {
    let source = format!("{name}/{name}.c");
    println!("cargo::rerun-if-changed={source}");
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    // Rust links with cc too, so it is there.
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(FLAGS).args(more).arg("-o").arg(Path::new(&folder).join(format!("{name}.so")));
    command.arg(source);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}; it is a C compiler that is wanted")),
    }
}

fn fail(why: &str) {
    println!("cargo::error=failed to compile what QEMU is started with: {why}");
    exit(1);
}
