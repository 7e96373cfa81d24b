//! What the instrument took of each phase, for the page.

use fsdyno_record::trial::{Instrument, Phase};
use fsdyno_record::{Nanos, Trial};
use fsdyno_stats::validity::{INSTRUMENT_LIMIT, instrument_share};
use serde::Serialize;

use crate::number;
use crate::view::{Row, Section};

/// The table "what the instrument took".
#[derive(Serialize)]
pub struct InstrumentView {
    /// Whether a modelled disk was served, so that its columns are shown.
    disk: bool,
    /// The share from which on a result is marked.
    limit: String,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    phase: String,
    name: String,
    server: String,
    driver: String,
    late: String,
    engine: String,
    /// The largest over the trials, for that is what marks a row.
    share: String,
    over: bool,
}

/// A line for each row of each section: means over its trials.
pub fn view(sections: &[Section<'_>]) -> InstrumentView {
    let lines = |section: &Section<'_>| {
        let title = section.title();
        section.rows.iter().map(|row| line(&title, row)).collect::<Vec<_>>()
    };
    let in_lab = |(trial, _): &(&Trial, &Phase)| trial.lab_id.is_some();
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    InstrumentView {
        disk: rows.any(|row| row.trials.iter().any(in_lab)),
        limit: format!("{:.0} %", INSTRUMENT_LIMIT * 100.0),
        lines: sections.iter().flat_map(lines).collect(),
    }
}

fn line(title: &str, row: &Row<'_>) -> Line {
    let mean = |of: fn(&Instrument) -> Nanos| {
        let mean = row.mean(|phase| Some(of(&phase.instrument).seconds()));
        mean.map_or("–".into(), number::seconds)
    };
    let shares = row.trials.iter().map(|(_, phase)| instrument_share(phase));
    let most = shares.fold(0.0, f64::max);
    Line {
        phase: title.into(),
        name: row.name.clone(),
        server: mean(|i| i.server_cpu_ns),
        driver: mean(|i| i.driver_cpu_ns),
        late: mean(|i| i.late_ns),
        engine: mean(|i| i.engine_ns),
        share: number::percent(most),
        over: most > INSTRUMENT_LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use crate::{fixture, view};

    #[test]
    fn every_phase_of_every_file_system_has_a_line_and_the_largest_share_counts() {
        let mut trials = fixture::trials();
        let phase = &mut trials[0].measured.phases[0];
        phase.instrument.server_cpu_ns = phase.returned_ns;
        let sections = view::sections(&trials, None);
        let view = super::view(&sections);
        assert!(view.disk);
        assert_eq!(view.lines.len(), 12);
        let over: Vec<&str> =
            view.lines.iter().filter(|line| line.over).map(|line| line.name.as_str()).collect();
        assert_eq!(over, [trials[0].plan.label.as_str()]);
    }

    #[test]
    fn a_host_serves_no_disk() {
        let trials = fixture::on_a_host();
        assert!(!super::view(&view::sections(&trials, None)).disk);
    }
}
