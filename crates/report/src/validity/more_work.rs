//! The parameters that give a workload more work, for phases that are too short.

/// The parameters by workload, the most important first. Workloads without such a parameter are omitted.
pub const MORE_WORK: &[(&str, &[&str])] = &[
    ("dirops", &["files"]),
    ("tarball", &["files"]),
    ("source-tree", &["files"]),
    ("maildir", &["ops"]),
    ("maildir-read", &["reads"]),
    ("fdtree", &["files"]),
    ("bonnie", &["file-size", "files"]),
    ("many-files", &["files"]),
    ("postmark", &["number", "transactions"]),
    ("churn", &["ops"]),
    ("everyday", &["documents", "songs"]),
    ("bigfile", &["size", "reads", "writes"]),
    ("tenant", &["rounds"]),
    ("calls", &["files"]),
    ("replay", &["copies"]),
];

/// Returns the options that give these workloads more work: `--set files=N`, with the workload's name if there are
/// several; empty if none of them has such a parameter.
pub fn options(workloads: &[&str]) -> String {
    let of = |workload: &&str| {
        let (name, parameters) = MORE_WORK.iter().find(|(name, _)| name == workload)?;
        let options: Vec<String> =
            parameters.iter().map(|parameter| format!("--set {parameter}=N")).collect();
        let name = if workloads.len() > 1 { format!("{name} ") } else { String::new() };
        Some(name + &options.join(" "))
    };
    workloads.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn the_parameter_depends_on_the_workload() {
        assert_eq!(options(&["replay"]), "--set copies=N");
        assert_eq!(options(&["command"]), "");
        let both = "dirops --set files=N, postmark --set number=N --set transactions=N";
        assert_eq!(options(&["dirops", "postmark"]), both);
    }
}
