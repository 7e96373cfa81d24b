//! The parameters that give a workload more work, for phases that are too short.

use fsdyno_workload::workloads;

/// Returns the options that give these workloads more work: `--set files=N`, with the workload's name if there are
/// several; empty if none of them has such a parameter.
pub fn options(names: &[&str]) -> String {
    let workload_options = |name: &&str| {
        // A record may name a workload of another version.
        let kind = workloads::find(name).ok().filter(|kind| !kind.more_work.is_empty())?;
        let options: Vec<String> =
            kind.more_work.iter().map(|parameter| format!("--set {parameter}=N")).collect();
        let prefix = if names.len() > 1 { format!("{name} ") } else { String::new() };
        Some(prefix + &options.join(" "))
    };
    names.iter().filter_map(workload_options).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn the_parameter_depends_on_the_workload() {
        assert_eq!(options(&["replay"]), "--set copies=N");
        assert_eq!(options(&["command"]), "");
        assert_eq!(options(&["from-a-later-version"]), "");
        let both = "dirops --set files=N, postmark --set number=N --set transactions=N";
        assert_eq!(options(&["dirops", "postmark"]), both);
    }
}
