//! `fsdyno show machine`: what a machine stands for, its values with their sources, and its file.

use fsdyno_machine::Machine;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;

/// The machine of this name or file, as text and as JSON.
pub fn machine(name: &str) -> Result<(String, Value), Failure> {
    let wrong = |error: fsdyno_machine::MachineError| Failure::wrong(error.to_string());
    let machine = fsdyno_machine::find(name).map_err(wrong)?;
    let file = fsdyno_machine::text(name).map_err(wrong)?;
    let disk = fsdyno_disk::catalog::find(&machine.disk)
        .map_err(|error| Failure::wrong(format!("failed to {error}")))?;
    let value = json!({
        "name": machine.name, "about": machine.about, "disk": machine.disk,
        "cpu": machine.cpu.to_string(), "ram": machine.ram, "source": machine.source, "file": file,
    });
    Ok((text(&machine, &disk.1.about, &file), value))
}

fn text(machine: &Machine, disk: &str, file: &str) -> String {
    let mut text = format!("{}: {}\n\n", machine.name, machine.about);
    text.push_str(&output::columns(&[
        vec!["disk".into(), format!("{}: {disk}", machine.disk)],
        vec!["cpu".into(), machine.cpu.described()],
        vec!["ram".into(), machine.ram.to_string()],
        vec!["run".into(), format!("fsdyno run dirops --machine {}", machine.name)],
    ]));
    text.push_str("\nsources ([MEM]: from memory, unconfirmed):\n");
    for source in &machine.source {
        text.push_str(&output::indented(&format!("{}: {}", source.what, source.from), 2));
    }
    text.push_str("\nits file (copy it, change it, and give its path to --machine):\n\n");
    text.push_str(file);
    text
}
