//! A fitted disk as a file of the catalog's form, with what it is worth in its head.

use super::{Facts, Fitted};

/// Comments and the disk.
pub fn write(fitted: &Fitted, facts: &Facts) -> Result<String, toml::ser::Error> {
    let mut text = format!(
        "# Fitted by `fsdyno fit`, {}.\n#\n# How well it foretells reads at random places (4 KiB, the whole \
         disk), which it was not fitted to:\n",
        facts.probed
    );
    for line in fitted.errors() {
        text.push_str(&format!("#   {line}\n"));
    }
    if fitted.seeks > 0 {
        text.push_str(&format!(
            "# The seeks are fitted to {} reads; {} more no turn of the platter explains.\n",
            fitted.seeks, fitted.outliers
        ));
    }
    text.push_str(
        "# Nothing was written to the drive, so all that belongs to writes is an estimate: see the sources.\n\n",
    );
    text.push_str(&toml::to_string(&fitted.spec)?);
    Ok(text)
}

impl Fitted {
    /// A line for each queue depth: measured, foretold, error.
    pub fn errors(&self) -> Vec<String> {
        let line = |check: &super::Foretold| {
            format!(
                "{} in flight: {:.1} reads a second measured over {} reads, {:.1} foretold ({:+.1} %)",
                check.depth,
                check.measured,
                check.reads,
                check.foretold,
                check.error()
            )
        };
        self.foretold.iter().map(line).collect()
    }
}
