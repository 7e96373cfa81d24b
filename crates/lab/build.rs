//! Compiles the libraries that QEMU is started with: the clock guard (guard/guard.c), which src/guard.rs embeds, the
//! profile (profile/profile.c) of src/profile.rs and the processor model (processor/processor.c) of src/processor.rs.

use std::path::Path;
use std::process::{Command, exit};

/// Compiler flags. The output must not depend on where or when it was compiled: guard and processor model are part of
/// a lab's identity.
const FLAGS: &[&str] =
    &["-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"];

fn main() {
    println!("cargo::rerun-if-env-changed=CC");
    compile("guard", &[]);
    // QEMU provides the functions that a plugin calls, and looks up two symbols in the plugin.
    compile("profile", &["-fvisibility=hidden"]);
    compile("processor", &["-fvisibility=hidden"]);
}

/// Compiles NAME/NAME.c to NAME.so.
fn compile(name: &str, extra_flags: &[&str]) {
    let source = format!("{name}/{name}.c");
    println!("cargo::rerun-if-changed={source}");
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    // Rust also links with cc, so it is installed.
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command
        .args(FLAGS)
        .args(extra_flags)
        .arg("-o")
        .arg(Path::new(&folder).join(format!("{name}.so")));
    command.arg(source);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}; a C compiler is needed")),
    }
}

fn fail(why: &str) {
    println!("cargo::error=failed to compile the libraries for QEMU: {why}");
    exit(1);
}
