//! `fsdyno show`: prints one item in full.

use fsdyno_campaign::results;
use fsdyno_describe::show as item;
use fsdyno_report::{Clients, Format, OverTime, Ranks};

use crate::cli::{Show, Showable};
use crate::exit::{Exit, Failure};
use crate::output::{self, prose};

/// Shows one item.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    check(show)?;
    let name = show.names[0].as_str();
    let (text, value) = match show.kind {
        Showable::Log
        | Showable::Series
        | Showable::Ranks
        | Showable::Clients
        | Showable::Trace => {
            return show_stored(show).map(|()| Exit::Success);
        }
        Showable::Workload => item::workload(name, show.sources, prose()),
        Showable::Filesystem => item::filesystem(name, prose()),
        Showable::Network => item::network(name, prose()),
        Showable::Machine => item::machine(name, prose()),
        Showable::Disk => item::disk(name, prose()),
        Showable::Processor => item::processor(name),
        Showable::Period => item::period(name, prose()),
        Showable::Space => item::space(name, prose()),
        Showable::Kernel => item::kernel(name),
        Showable::Study => item::study(name, prose()),
        Showable::Schema => item::schema(name),
    }?;
    match show.format {
        Format::Json => output::write_json(&value)?,
        _ => output::write_data(&text)?,
    }
    Ok(Exit::Success)
}

/// Refuses options and formats that apply to other items.
fn check(show: &Show) -> Result<(), Failure> {
    if show.sources && show.kind != Showable::Workload {
        return Err(Failure::invalid_use("--sources is for 'fsdyno show workload'; remove it"));
    }
    if show.names.len() > 1 && !show.kind.reads_results() {
        return Err(Failure::invalid_use(format!(
            "'{}' is one name too many: only 'show series', 'show clients' and 'show ranks' accept several",
            show.names[1]
        )));
    }
    let is_basic = matches!(show.format, Format::Text | Format::Json);
    if let Some((name, ..)) = Format::ALL.iter().find(|(.., format)| *format == show.format)
        && !is_basic
        && !show.kind.reads_results()
        && show.kind != Showable::Trace
    {
        return Err(Failure::invalid_use(format!(
            "--format {name} is for 'fsdyno show series', 'show ranks', 'show clients' and 'show trace'; use text or \
             json"
        )));
    }
    Ok(())
}

/// Shows the contents of a file or a result.
fn show_stored(show: &Show) -> Result<(), Failure> {
    let (names, format) = (&show.names, show.format);
    match show.kind {
        Showable::Log => {
            item::log(&names[0], format == Format::Json, |rows| output::write_lines(rows))
        }
        Showable::Trace => output::print(&item::trace(&names[0])?, format),
        Showable::Ranks => output::print(&Ranks { trials: &results::load(names)? }, format),
        Showable::Clients => output::print(&Clients { trials: &results::load(names)? }, format),
        _ => {
            let trials = results::load(names)?;
            let series = results::over_time(names, &trials)?;
            let over_time = OverTime { series: &series, trials: &trials, style: output::style() };
            output::print(&over_time, format)
        }
    }
}
