//! A set of trials that are compared with each other: those of one result, or of one run of a study under one set of
//! conditions. Trials of different parts are never compared.

use fsdyno_record::Trial;

/// A set of trials that are compared with each other.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The run's name in the study's file, or empty if there is no study.
    pub run: &'a str,
    /// The conditions: `then`, `today` or `as-it-stands`, or empty if there is no study.
    pub variant: &'a str,
    /// Its kernel, if the study is a timeline.
    pub kernel: Option<&'a str>,
    /// Its trials.
    pub trials: &'a [Trial],
}

impl<'a> Part<'a> {
    /// Trials without a study.
    pub fn whole(trials: &'a [Trial]) -> Part<'a> {
        Part { run: "", variant: "", kernel: None, trials }
    }

    /// The name of the part: `curve as then`, with the kernel of a timeline, or `None` if there is no study.
    pub fn name(&self) -> Option<String> {
        let kernel = self.kernel.map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
        let conditions = match self.variant {
            "as-it-stands" => "as it stands".to_string(),
            variant => format!("as {variant}"),
        };
        (!self.run.is_empty())
            .then(|| crate::number::sanitize(&format!("{} {conditions}{kernel}", self.run)))
    }
}
