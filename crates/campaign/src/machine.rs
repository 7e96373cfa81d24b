//! Lab machines: defaults for disk, CPU and RAM, which the request's own options override.

use fsdyno_axes::Request;
use fsdyno_filesystem::Author;
use fsdyno_machine::{CLASSIC, DEFAULT, Machine};
use fsdyno_record::Bytes;
use fsdyno_record::plan::{KernelPlan, LabPlan};

use crate::failure::Failure;
use crate::{LabPlace, RunSpec};

/// Returns a place in the lab for each requested machine.
///
/// # Errors
/// A machine that is unknown, has more memory than this host, or is the same as another.
pub fn places(
    run: &RunSpec,
    kernels: &[KernelPlan],
    found: bool,
) -> Result<Vec<LabPlace>, Failure> {
    let axes = &run.axes;
    let machines = match (axes.machines.is_empty(), run.author) {
        (false, _) => {
            axes.machines.iter().map(|name| find_named(name)).collect::<Result<_, _>>()?
        }
        // The results of a study file must not depend on anything outside the file.
        (true, Author::File) => vec![NamedMachine { name: None, machine: find(CLASSIC)? }],
        (true, Author::User) => vec![find_named(&default_machine())?],
    };
    let mut places: Vec<LabPlace> = Vec::new();
    for (index, named) in machines.iter().enumerate() {
        let place = place(axes, named, kernels, found);
        check_ram(axes, named, place.guest.ram)?;
        if let Some(other) = places.iter().position(|other| is_same(other, &place)) {
            return Err(Failure::invalid_use(same_machine_message(
                &machines[other].machine,
                &machines[index].machine,
            )));
        }
        places.push(place);
    }
    Ok(places)
}

/// A machine, and its name in tables; `None` for the default of study files, which earlier results do not name.
struct NamedMachine {
    name: Option<String>,
    machine: Machine,
}

fn find_named(name: &str) -> Result<NamedMachine, Failure> {
    Ok(NamedMachine { name: Some(name.to_string()), machine: find(name)? })
}

fn find(name: &str) -> Result<Machine, Failure> {
    fsdyno_machine::find(name).map_err(|error| Failure::invalid_use(format!("--machine {error}")))
}

/// The environment variable that selects the machine of commands that do not name one.
const VARIABLE: &str = "FSDYNO_MACHINE";

/// Returns the machine of a command that does not name one.
fn default_machine() -> String {
    let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    name.unwrap_or_else(|| DEFAULT.to_string())
}

/// Returns the disks and the guest of a request, with the machine's values as defaults.
fn disks_and_guest(axes: &Request, machine: &Machine) -> (Vec<String>, LabPlan) {
    let mut guest = axes.guest.clone();
    if !axes.explicit.contains(&"ram") {
        guest.ram = machine.ram;
    }
    // With an accelerator that is not exact, the guest has the host's CPU.
    if !axes.explicit.contains(&"cpu") && guest.accel.is_exact() {
        guest.cpu = machine.cpu.clone();
    }
    let disks = match axes.disks.is_empty() {
        true => vec![machine.disk.clone()],
        false => axes.disks.clone(),
    };
    (disks, guest)
}

fn place(axes: &Request, named: &NamedMachine, kernels: &[KernelPlan], found: bool) -> LabPlace {
    let (disks, guest) = disks_and_guest(axes, &named.machine);
    LabPlace {
        disks,
        kernels: kernels.to_vec(),
        found,
        raid: axes.raid,
        journal_disk: axes.journal_disk.clone(),
        journal_size: axes.journal_size,
        clients: axes.clients.clone(),
        networks: axes.networks.clone(),
        guest: LabPlan { machine: named.name.clone(), ..guest },
        size: axes.size,
    }
}

/// Returns true if two machines are the same except for their names.
fn is_same(a: &LabPlace, b: &LabPlace) -> bool {
    let guest = |place: &LabPlace| LabPlan { machine: None, ..place.guest.clone() };
    a.disks == b.disks && guest(a) == guest(b)
}

fn same_machine_message(a: &Machine, b: &Machine) -> String {
    match a.name == b.name {
        true => format!("--machine {} is given twice; give it once", a.name),
        false => format!(
            "--machine {} and --machine {} are the same machine with the given --disk, --cpu and --ram; give one of \
             the two, or leave an option out",
            a.name, b.name
        ),
    }
}

/// Refuses a guest with more memory than this host has: a guest touches all of its memory sooner or later.
fn check_ram(axes: &Request, named: &NamedMachine, ram: Bytes) -> Result<(), Failure> {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    let (memory, swap) = (info.totalram * unit, info.totalswap * unit);
    if ram.0 <= memory.saturating_add(swap) {
        return Ok(());
    }
    let available = format!("{} and {} of swap", Bytes(memory), Bytes(swap));
    Err(Failure::invalid_use(match &named.name {
        Some(name) if !axes.explicit.contains(&"ram") => format!(
            "machine '{name}' has {ram} of RAM, which is more than this host has: {available}; give less with --ram"
        ),
        _ => format!("--ram {ram} is more than this host has: {available}"),
    }))
}

#[cfg(test)]
mod tests {
    use fsdyno_axes::Axis;

    use super::*;

    /// Returns the places of a request with these options.
    fn places_of(options: &str) -> Result<Vec<LabPlace>, String> {
        let mut run = RunSpec::default();
        let args: Vec<&str> = options.split_whitespace().collect();
        for option in args.chunks(2) {
            let axis = Axis::of(option[0].trim_start_matches("--")).unwrap();
            axis.put(&mut run.axes, option[1]).unwrap();
        }
        places(&run, &["6.1".into()], true).map_err(|failure| failure.message)
    }

    #[test]
    fn a_file_that_names_no_machine_has_the_classic_one_without_its_name() {
        let run = RunSpec { author: Author::File, ..RunSpec::default() };
        let place = places(&run, &["6.1".into()], true).unwrap().remove(0);
        assert_eq!((place.guest.machine, place.disks), (None, vec!["hdd-7200".to_string()]));
    }

    fn single_place(options: &str) -> (Option<String>, Vec<String>, String, Bytes) {
        let place = places_of(options).unwrap().remove(0);
        let LabPlan { machine, cpu, ram, .. } = place.guest;
        (machine, place.disks, cpu.to_string(), ram)
    }

    #[test]
    fn a_machine_sets_what_the_command_line_does_not() {
        let (machine, disks, cpu, ram) = single_place("--machine pc-2001");
        assert_eq!((machine.as_deref(), cpu.as_str()), (Some("pc-2001"), "pc-2001"));
        assert_eq!((disks, ram), (vec!["ide-2001".to_string()], Bytes(256 << 20)));
        let (machine, disks, cpu, ram) =
            single_place("--machine pc-2001 --disk ssd-sata --disk ide-2008 --cpu 1/4 --ram 512M");
        assert_eq!((machine.as_deref(), cpu.as_str()), (Some("pc-2001"), "1/4"));
        assert_eq!((disks.join(" ").as_str(), ram), ("ssd-sata ide-2008", Bytes(512 << 20)));
        // The order of options does not matter, and a value that is a default elsewhere still counts as given.
        let (_, _, cpu, _) = single_place("--cpu 1 --machine desktop-2008");
        assert_eq!(cpu, "1");
        assert_eq!(single_place("--machine desktop-2008").2, "desktop-2008");
    }

    #[test]
    fn under_kvm_a_machine_does_not_set_the_cpu() {
        assert_eq!(single_place("--machine desktop-2008 --accel kvm").2, "1");
    }

    #[test]
    fn several_machines_are_several_places() {
        let places = places_of("--machine pc-2001 --machine server-2004").unwrap();
        let names: Vec<_> = places.iter().filter_map(|place| place.guest.machine.clone()).collect();
        assert_eq!(names, ["pc-2001", "server-2004"]);
    }

    #[test]
    fn a_machine_that_is_named_twice_or_is_the_same_as_another_is_refused() {
        let error = places_of("--machine pc-2001 --machine pc-2001").unwrap_err();
        assert_eq!(error, "--machine pc-2001 is given twice; give it once");
        let error =
            places_of("--machine pc-2001 --machine server-2004 --disk ssd-sata --cpu 1 --ram 1G")
                .unwrap_err();
        assert!(error.contains("are the same machine with the given --disk"), "{error}");
    }
}
