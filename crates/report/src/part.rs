//! Trials that are compared with each other: those of one result, or of one run of a study under one set of
//! conditions. Nothing is compared across two of them.

use fsdyno_record::Trial;

/// Trials that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The run's name in the study's file; empty of what is no study.
    pub run: &'a str,
    /// `then`, `today` or `as-it-stands`; empty of what is no study.
    pub variant: &'a str,
    /// Its kernel, where the study is a timeline.
    pub kernel: Option<&'a str>,
    /// Its trials.
    pub trials: &'a [Trial],
}

impl<'a> Part<'a> {
    /// Trials of no study.
    pub fn whole(trials: &'a [Trial]) -> Part<'a> {
        Part { run: "", variant: "", kernel: None, trials }
    }

    /// `curve as then`, with the kernel of a timeline; none of what is no study.
    pub fn called(&self) -> Option<String> {
        let kernel = self.kernel.map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
        let words = match self.variant {
            "as-it-stands" => "as it stands".to_string(),
            variant => format!("as {variant}"),
        };
        (!self.run.is_empty())
            .then(|| crate::number::clean(&format!("{} {words}{kernel}", self.run)))
    }
}
