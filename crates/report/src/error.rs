//! Errors of writing a report.

/// The reason why there is no report; each message completes "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page's own template is broken.
    #[error("render the page: {0}")]
    Template(#[from] minijinja::Error),
    /// A record has no JSON form.
    #[error("write records as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The output is not available in this format.
    #[error(
        "print this output in the requested format, which is not available for it; use text, mail, markdown, html, csv \
             or json"
    )]
    Format,
    /// No trial's workload has an original format, or no such trial was successful.
    #[error(
        "print the trials in the format of the original program: no successful trial has a workload with such a \
         format; workloads with one: {0}"
    )]
    NoOriginal(String),
}
