//! `fsdyno list`: lists the available items, and whether they can run here.

use fsdyno_describe::{Listing, list as items};
use fsdyno_report::Style;

use crate::cli::{List, Listable};
use crate::exit::{Exit, Failure};
use crate::output;

/// Lists the items of a kind.
pub fn run(list: &List) -> Result<Exit, Failure> {
    if list.available && list.what != Listable::Kernels {
        return Err(Failure::invalid_use("--available is for 'fsdyno list kernels'; remove it"));
    }
    if let Some(folder) = list.folder.as_ref().filter(|_| list.what != Listable::Results) {
        return Err(Failure::invalid_use(format!(
            "a folder is for 'fsdyno list results'; remove '{}'",
            folder.display()
        )));
    }
    let listing = match list.what {
        Listable::Workloads => items::workloads(),
        Listable::Filesystems => items::filesystems(),
        Listable::Machines => items::machines()?,
        Listable::Disks => items::disks()?,
        Listable::Processors => items::processors()?,
        Listable::Networks => items::networks()?,
        Listable::Kernels if list.available => items::available_kernels()?,
        Listable::Kernels => items::kernels()?,
        Listable::Periods => items::periods(),
        Listable::Studies => items::studies()?,
        Listable::Schemas => items::schemas(),
        Listable::Results => items::results(list.folder.as_deref())?,
    };
    let listing = Listing { limit: output::limit(), ..listing };
    let style = output::style();
    output::write_data(
        &list.format.write(&listing, Style { width: style.width.min(100), ..style })?,
    )?;
    Ok(Exit::Success)
}
