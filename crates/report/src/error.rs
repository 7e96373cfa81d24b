//! What can go wrong while a report is written.

/// Why there is no report; each text completes "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page's own template is broken; a test keeps this from being shipped.
    #[error("render the page: {0}")]
    Template(#[from] minijinja::Error),
    /// A record has no JSON form.
    #[error("write records as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// No trial has a workload with an original form, or none ended well.
    #[error(
        "print them as an original program would: no trial here has such a form; workloads that have \
         one: {0}"
    )]
    NoOriginal(String),
}
