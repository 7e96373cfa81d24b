//! `fsdyno completions` and `fsdyno man`: generates files for shells and for man from the definition of the command
//! line.

use crate::cli::{self, Completions, ManPages};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Prints the completions of a shell.
pub fn completions(completions: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut cli::command(), "fsdyno", &mut text);
    output::write_data(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Success)
}

/// Writes a page for fsdyno and for each of its commands.
pub fn man_pages(man: &ManPages) -> Result<Exit, Failure> {
    let folder = &man.folder;
    let failed = |error: std::io::Error| {
        Failure::invalid_use(format!(
            "failed to write manual pages to '{}': {error}",
            folder.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    // The version omits the commit, so that equal pages have equal bytes.
    let command = cli::command().version(env!("CARGO_PKG_VERSION"));
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    say(&format!("manual pages: {}", folder.display()));
    Ok(Exit::Success)
}
