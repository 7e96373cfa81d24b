//! The identity of a lab: a hash of every input that can change a result.
//!
//! Equal identities mean bit-identical results. Each part is a component with a readable name, so that a
//! comparison of two labs can name the differences. The parts of the plan (RAM, disks, workload) are excluded, and so
//! are the numbers of file descriptors, which only transport data.

use std::collections::BTreeMap;

use fsdyno_record::canonical;
use fsdyno_record::plan::CpuPlan;

use crate::guard;
use crate::machine::Machine;
use crate::probe::Qemu;
use crate::processor;
use crate::qemu::{MACHINE_ARGUMENTS, clock, kernel_command_line};

/// Component values by name: a version, a hash, or the arguments themselves.
pub type Components = BTreeMap<String, String>;

/// Returns the components of the machine, excluding those of the initramfs.
pub fn of_machine(
    qemu: &Qemu,
    kernel_release: &str,
    kernel_sha256: &str,
    cpu: &CpuPlan,
    extra_parameters: &str,
) -> Components {
    let mut components: Components = MACHINE_ARGUMENTS
        .iter()
        .map(|(name, _, value)| (name.to_string(), value.to_string()))
        .collect();
    components.insert("qemu".into(), format!("{} sha256:{}", qemu.version, qemu.sha256));
    components.insert("kernel".into(), format!("{kernel_release} sha256:{kernel_sha256}"));
    components.insert("cmdline".into(), kernel_command_line(cpu, extra_parameters));
    components.insert("clock".into(), clock(cpu));
    add_file(&mut components, "clock guard".into(), guard::LIBRARY);
    if let Some(processor) = cpu.processor() {
        add_file(&mut components, "processor model".into(), processor::LIBRARY);
        components.insert("processor".into(), processor::arguments(processor));
    }
    for (name, sha256) in &qemu.firmware {
        components.insert(format!("firmware {name}"), format!("sha256:{sha256}"));
    }
    components
}

/// Returns the components of a booted guest: its own, and those of the machine that it has detected by then.
pub fn of_booted(guest: &Components, machine: &Machine) -> Components {
    let mut components = guest.clone();
    components.insert("ram".into(), machine.ram.0.to_string());
    for (index, disk) in machine.disks.iter().enumerate() {
        components.insert(format!("disk {index}"), format!("{:?} {}", disk.attach, disk.size()));
    }
    let input = machine.input.as_ref().and_then(|file| file.metadata().ok());
    components.insert("input".into(), input.map_or(0, |metadata| metadata.len()).to_string());
    components
}

/// Returns the key of the snapshot of a guest that has booted on such a machine.
pub fn of_snapshot(guest: &Components, machine: &Machine) -> String {
    lab_id(&of_booted(guest, machine))
}

/// Adds a file, represented by the hash of its contents.
pub fn add_file(components: &mut Components, name: String, contents: &[u8]) {
    components.insert(name, format!("sha256:{}", canonical::sha256_hex(contents)));
}

/// Returns the SHA-256, in hex, of the canonical JSON of the components.
pub fn lab_id(components: &Components) -> String {
    // A map of strings always has a JSON form.
    let text = canonical::to_string(components).unwrap_or_default();
    canonical::sha256_hex(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qemu() -> Qemu {
        Qemu {
            path: "/usr/bin/qemu-system-x86_64".into(),
            version: "7.2.22".into(),
            sha256: "aa".into(),
            firmware: [("bios-256k.bin".to_string(), "bb".to_string())].into(),
            files: Vec::new(),
        }
    }

    #[test]
    fn the_same_parts_at_another_path_have_the_same_identity() {
        let moved = Qemu { path: "/opt/qemu".into(), ..qemu() };
        let one = of_machine(&qemu(), "6.1", "cc", &CpuPlan::default(), "");
        assert_eq!(lab_id(&one), lab_id(&of_machine(&moved, "6.1", "cc", &CpuPlan::default(), "")));
        assert_eq!(lab_id(&one).len(), 64);
    }

    #[test]
    fn any_different_part_changes_its_component() {
        let one = of_machine(&qemu(), "6.1", "cc", &CpuPlan::default(), "");
        let mut two = one.clone();
        add_file(&mut two, "tool mke2fs".into(), b"bytes");
        assert_ne!(lab_id(&one), lab_id(&two));
        let slow = of_machine(&qemu(), "6.1", "cc", &"1/2".parse().unwrap(), "");
        assert_eq!(
            (one["clock"].as_str(), slow["clock"].as_str()),
            ("shift=0,sleep=off", "shift=1,sleep=off")
        );
        let profile = r#"{"name":"mine","instructions_per_us":1000,"costs_ps":{},
            "caches":{"first_ways":12,"second_sets":2048,"second_ways":16}}"#;
        let profile: CpuPlan = serde_json::from_str(profile).unwrap();
        let profiled = of_machine(&qemu(), "6.1", "cc", &profile, "");
        assert_ne!(lab_id(&one), lab_id(&profiled));
        for name in ["processor", "processor model"] {
            assert!(!one.contains_key(name) && profiled.contains_key(name), "{name}");
        }
        let differing: Vec<_> = two.iter().filter(|(k, v)| one.get(*k) != Some(v)).collect();
        assert_eq!(differing.len(), 1);
        assert_eq!(differing[0].0, "tool mke2fs");
        for name in
            ["qemu", "kernel", "cmdline", "cpu", "firmware bios-256k.bin", "clock", "clock guard"]
        {
            assert!(one.contains_key(name), "no component {name}");
        }
    }
}
