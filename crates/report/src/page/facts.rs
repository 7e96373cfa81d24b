//! The settings in effect in a trial, as names and values.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use fsdyno_record::plan::{NetworkPlan, VenuePlan};
use fsdyno_record::trial::Phase;

use crate::subject::raid_of;

/// All settings in effect, as name and value; unknown ones are omitted.
pub fn facts(trial: &Trial) -> Vec<(String, String)> {
    let (plan, found) = (&trial.plan, &trial.conditions);
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((name.into(), value));
        }
    };
    fact("parameters", pairs(&plan.workload.params));
    fact("requested", plan.filesystem.as_ref().map(|fs| fs.spec.clone()).unwrap_or_default());
    fact("mkfs", found.mkfs.join(" "));
    fact("mount", found.mount.clone());
    fact("features", lines(&found.features));
    fact("tools", lines(&found.tools));
    fact("kernel", found.kernel.clone());
    fact("CPU", found.cpu.clone());
    fact("threads", plan.threads.to_string());
    fact("issuer", plan.issuer.to_string());
    let (medium, raid) = (&plan.medium, raid_of(&plan.medium));
    if let Some(disk) = medium.disk() {
        fact("disk", format!("{raid}{}\n{}", disk.name, parameters(&disk.spec)));
    }
    let journal = medium.journal();
    fact("journal on", journal.map(|disk| disk.name.clone()).unwrap_or_default());
    if let Some(lab) = plan.lab() {
        fact("guest memory", lab.ram.to_string());
        fact("guest CPU", lab.cpu.describe());
        fact("boot", lab.boot.name().to_string());
        fact("clients", lab.clients.map(|clients| clients.to_string()).unwrap_or_default());
        fact("network", lab.network.as_ref().map(network_lines).unwrap_or_default());
    }
    if let VenuePlan::Model { block_size } = plan.venue {
        fact("block size", block_size.to_string());
    }
    fact("directory", medium.directory().unwrap_or_default().to_string());
    if medium.is_host_device() {
        fact("medium", format!("{raid}{}: {}", plan.target(), found.device));
        fact("journal on", medium.journal_size().map(|size| size.to_string()).unwrap_or_default());
    }
    fact("device", found.device_size.map(|size| size.to_string()).unwrap_or_default());
    let start = found.partition_start.map(|start| format!("at {start}"));
    fact("partition", start.unwrap_or_default());
    fact("cacheable memory", found.cacheable_memory.to_string());
    fact("queue", lines(&found.queue));
    fact("sysctls", lines(&found.sysctls));
    let verify = &trial.measured.verify;
    let verified = format!(
        "{:?}: {} files, {} directories, {} compared, {} problems",
        verify.mode, verify.files, verify.directories, verify.bytes, verify.problems
    );
    fact("verified", verified.to_lowercase());
    fact("kernel threads' CPU", kernel_threads(trial));
    if let Some(check) = &trial.measured.check {
        let verdict = if check.clean { "clean" } else { "not clean" };
        fact("check", format!("{}: {verdict}", check.argv.join(" ")));
    }
    facts
}

/// CPU time of kernel threads by kind of work, a line for each phase. The kernel's pooled workers
/// (kworker) serve every subsystem, so their time cannot be attributed.
fn kernel_threads(trial: &Trial) -> String {
    let name = |work: &str| match work {
        "kworker" => "kworker (pooled, unattributed)".to_string(),
        other => other.to_string(),
    };
    let line = |phase: &Phase| {
        let works = phase.kernel_cpu_ns.iter();
        let works: Vec<String> = works.map(|(work, ns)| format!("{} {ns}", name(work))).collect();
        (!works.is_empty()).then(|| format!("{}: {}", phase.name, works.join(", ")))
    };
    trial.measured.phases.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The parameters of a disk, a line for each. `fsdyno show disk` has its description and the sources of
/// the values.
fn parameters(spec: &serde_json::Value) -> String {
    let is_description = |key: &str| matches!(key, "about" | "source");
    let mut lines = Vec::new();
    for (key, value) in
        spec.as_object().into_iter().flatten().filter(|(key, _)| !is_description(key))
    {
        match value.as_object() {
            Some(fields) => {
                lines.extend(fields.iter().map(|(name, value)| format!("{key}.{name}: {value}")));
            }
            None => lines.push(format!("{key}: {value}")),
        }
    }
    lines.join("\n")
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn lines(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join("\n")
}

/// The parameters of a network, a line for each.
fn network_lines(network: &NetworkPlan) -> String {
    let NetworkPlan { name, bits_per_second, delay_ns, limit } = network;
    format!("{name}\nlink of {bits_per_second} bit/s, {delay_ns}\n{limit} packets")
}
