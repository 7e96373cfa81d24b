//! `fsdyno show`: prints one item in full.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use fsdyno_campaign::results;
use fsdyno_describe::show as item;
use fsdyno_report::{Clients, Format, OverTime, Ranks, TraceSummary};
use fsdyno_trace::Reader;

use crate::cli::{Show, Showable};
use crate::exit::{Exit, Failure};
use crate::output::{self, prose};

/// Shows one item.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    check(show)?;
    let name = show.name.as_str();
    let (text, value) = match show.kind {
        Showable::Log
        | Showable::Series
        | Showable::Ranks
        | Showable::Clients
        | Showable::Trace => {
            return stored(show).map(|()| Exit::Success);
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
        Format::Json => output::json(&value)?,
        _ => output::data(&text)?,
    }
    Ok(Exit::Success)
}

/// Refuses options and formats that apply to other items.
fn check(show: &Show) -> Result<(), Failure> {
    if show.sources && show.kind != Showable::Workload {
        return Err(Failure::invalid_use("--sources is for 'fsdyno show workload'"));
    }
    let data = matches!(show.format, Format::Text | Format::Json);
    if let Some((name, ..)) = Format::ALL.iter().find(|(.., format)| *format == show.format)
        && !data
        && ![Showable::Series, Showable::Ranks, Showable::Clients, Showable::Trace]
            .contains(&show.kind)
    {
        return Err(Failure::invalid_use(format!(
            "--format {name} is for `fsdyno show series`, `show ranks`, `show clients` and `show trace`; use text or json"
        )));
    }
    Ok(())
}

/// Shows the contents of a file or a result.
fn stored(show: &Show) -> Result<(), Failure> {
    match show.kind {
        Showable::Log => {
            item::log(&show.name, show.format == Format::Json, |rows| output::lines(rows))
        }
        Showable::Trace => output::print(&trace(Path::new(&show.name))?, show.format),
        Showable::Ranks => {
            output::print(&Ranks { trials: &results::load(&[&show.name])? }, show.format)
        }
        Showable::Clients => {
            output::print(&Clients { trials: &results::load(&[&show.name])? }, show.format)
        }
        _ => {
            let trials = results::load(&[&show.name])?;
            let series = results::over_time(&[&show.name], &trials)?;
            let it = OverTime { series: &series, trials: &trials, style: output::style() };
            output::print(&it, show.format)
        }
    }
}

fn trace(path: &Path) -> Result<TraceSummary, Failure> {
    let file = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
    let summary = Reader::new(BufReader::new(file)).and_then(TraceSummary::read);
    summary.map_err(|error| {
        Failure::invalid_use(format!("failed to read the trace '{}': {error}", path.display()))
    })
}
