//! `fsdyno show machine`: describes a machine: its values with their sources, and its file.

use fsdyno_campaign::Failure;
use fsdyno_machine::Machine;
use fsdyno_report::table::Prose;
use serde_json::json;

use super::{Shown, origin};

/// Describes the machine with this name or in this file, as text and as JSON.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn machine(name: &str, prose: Prose) -> Shown {
    let machine = fsdyno_machine::find(name)?;
    let file = fsdyno_machine::text(name)?;
    let disk = fsdyno_disk::catalog::find(&machine.disk)
        .map_err(|error| Failure::invalid_use(format!("failed to {error}")))?;
    let value = json!({
        "name": machine.name, "about": machine.about, "disk": machine.disk,
        "cpu": machine.cpu.to_string(), "ram": machine.ram, "source": machine.source, "file": file,
    });
    Ok((text(&machine, &disk.1.about, &file, prose), value))
}

fn text(machine: &Machine, disk: &str, file: &str, prose: Prose) -> String {
    let mut text = format!("{}: {}\n\n", machine.name, machine.about);
    text.push_str(&prose.columns(&[
        vec!["disk".into(), format!("{}: {disk}", machine.disk)],
        vec!["cpu".into(), machine.cpu.describe()],
        vec!["ram".into(), machine.ram.to_string()],
        vec!["run".into(), format!("fsdyno run dirops --machine {}", machine.name)],
    ]));
    text.push_str("\nsources ([MEM]: from memory, unconfirmed):\n");
    text + &origin(prose, &machine.source, "--machine", file)
}
