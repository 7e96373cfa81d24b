//! Writes a fitted disk as a profile, with its prediction errors in the header.

use super::{Facts, Fitted};

/// Formats the comments and the profile.
pub fn write(fitted: &Fitted, facts: &Facts) -> Result<String, toml::ser::Error> {
    let mut text = format!(
        "# Fitted by `fsdyno fit`, {}.\n#\n# Prediction error for random reads (4 KiB, the whole \
         disk) that were not used in the fit:\n",
        facts.probed
    );
    for line in fitted.errors() {
        text.push_str(&format!("#   {line}\n"));
    }
    if fitted.seeks > 0 {
        text.push_str(&format!(
            "# The seeks are fitted to {} reads; {} outliers that rotation cannot explain are excluded.\n",
            fitted.seeks, fitted.outliers
        ));
    }
    text.push_str(
        "# Nothing was written to the drive, so all parameters of writes are estimates: see the sources.\n\n",
    );
    text.push_str(&toml::to_string(&fitted.spec)?);
    Ok(text)
}

impl Fitted {
    /// Returns a line for each queue depth: measured rate, predicted rate, error.
    pub fn errors(&self) -> Vec<String> {
        let line = |check: &super::Prediction| {
            format!(
                "{} in flight: {:.1} reads/s measured over {} reads, {:.1} predicted ({:+.1} %)",
                check.depth,
                check.measured,
                check.reads,
                check.predicted,
                check.error()
            )
        };
        self.predictions.iter().map(line).collect()
    }
}
