//! The arguments of `fsdyno completions` and `fsdyno man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::values::folder;

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
    /// The folder for the pages, such as the man1 folder of a directory that man(1) searches; it is created if it does not exist
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
}
