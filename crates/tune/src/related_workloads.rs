//! Related workloads, on which the winner of a search is confirmed: the same workload in a different size, and a second
//! workload.

/// The workloads related to a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelatedWorkloads {
    /// The parameter that sets the amount of work.
    pub size: &'static str,
    /// A second workload of the same kind, with its parameters, or empty if there is none.
    pub second: &'static [&'static str],
}

/// All workloads that have related ones: name, size parameter, second workload.
const RELATED_WORKLOADS: &[(&str, RelatedWorkloads)] = &[
    (
        "dirops",
        RelatedWorkloads { size: "files", second: &["many-files", "widths=10/20", "files=10"] },
    ),
    ("many-files", RelatedWorkloads { size: "files", second: &["dirops", "files=5000"] }),
    (
        "tarball",
        RelatedWorkloads { size: "files", second: &["many-files", "widths=10/20", "files=10"] },
    ),
    (
        "maildir",
        RelatedWorkloads { size: "ops", second: &["postmark", "number=200", "transactions=500"] },
    ),
    (
        "maildir-read",
        RelatedWorkloads { size: "ops", second: &["postmark", "number=200", "transactions=500"] },
    ),
    ("postmark", RelatedWorkloads { size: "transactions", second: &["churn", "files=1000"] }),
    (
        "churn",
        RelatedWorkloads { size: "files", second: &["postmark", "number=200", "transactions=500"] },
    ),
    ("fdtree", RelatedWorkloads { size: "files", second: &["dirops", "files=5000"] }),
    ("calls", RelatedWorkloads { size: "files", second: &["dirops", "files=5000"] }),
];

/// Returns the workloads related to a workload, if there are any.
pub fn related_workloads(workload: &str) -> Option<RelatedWorkloads> {
    RELATED_WORKLOADS.iter().find(|(name, _)| *name == workload).map(|(_, related)| *related)
}
