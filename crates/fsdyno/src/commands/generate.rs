//! `fsdyno completions` and `fsdyno man`: files for shells and for man, generated from the definition of the command
//! line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{self, folder};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// `fsdyno completions`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno completions bash > ~/.local/share/bash-completion/completions/fsdyno
  fsdyno completions zsh > ~/.zfunc/_fsdyno
  fsdyno completions fish > ~/.config/fish/completions/fsdyno.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `fsdyno man`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno man ~/.local/share/man/man1
  man fsdyno-run")]
pub struct ManPages {
    /// The folder for the pages, such as man1 of a folder that man searches; is made if it does not exist
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
}

/// Prints the completions of a shell.
pub fn completions(completions: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut cli::command(), "fsdyno", &mut text);
    output::data(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Good)
}

/// Writes a page for fsdyno and for each of its commands.
pub fn man_pages(man: &ManPages) -> Result<Exit, Failure> {
    let folder = &man.folder;
    let failed = |error: std::io::Error| {
        Failure::wrong(format!("failed to write manual pages to '{}': {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Without the commit, so that equal pages have equal bytes.
    let command = cli::command().version(env!("CARGO_PKG_VERSION"));
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    say(&format!("manual pages: {}", folder.display()));
    Ok(Exit::Good)
}
