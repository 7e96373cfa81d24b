//! Related work, on which the winner of a search is confirmed: the same workload in a different size, and a second
//! workload.

/// The related work of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelatedWork {
    /// The parameter that sets the amount of work.
    pub size: &'static str,
    /// A second workload of the same kind, with its parameters, or empty if there is none.
    pub second: &'static [&'static str],
}

/// All workloads that have related work: name, size parameter, second workload.
const RELATED_WORK: &[(&str, RelatedWork)] = &[
    ("dirops", RelatedWork { size: "files", second: &["many-files", "widths=10/20", "files=10"] }),
    ("many-files", RelatedWork { size: "files", second: &["dirops", "files=5000"] }),
    ("tarball", RelatedWork { size: "files", second: &["many-files", "widths=10/20", "files=10"] }),
    (
        "maildir",
        RelatedWork { size: "ops", second: &["postmark", "number=200", "transactions=500"] },
    ),
    (
        "maildir-read",
        RelatedWork { size: "ops", second: &["postmark", "number=200", "transactions=500"] },
    ),
    ("postmark", RelatedWork { size: "transactions", second: &["churn", "files=1000"] }),
    (
        "churn",
        RelatedWork { size: "files", second: &["postmark", "number=200", "transactions=500"] },
    ),
    ("fdtree", RelatedWork { size: "files", second: &["dirops", "files=5000"] }),
    ("calls", RelatedWork { size: "files", second: &["dirops", "files=5000"] }),
];

/// Returns the related work of a workload, if it has any.
pub fn related_work(workload: &str) -> Option<RelatedWork> {
    RELATED_WORK.iter().find(|(name, _)| *name == workload).map(|(_, related_work)| *related_work)
}
