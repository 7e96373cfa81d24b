//! The arguments of `fsdyno completions` and `fsdyno man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::values::folder;

pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

pub struct ManPages {
    /// The folder for the pages, such as man1 of a folder that man searches; is made if it does not exist
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
}
