//! Instrument overhead of each phase, for the report page.

use crate::validity::{INSTRUMENT_LIMIT, INSTRUMENT_MAXIMUM, instrument_share};
use fsdyno_record::trial::{Instrument, Phase};
use fsdyno_record::{Nanos, Trial};
use serde::Serialize;

use crate::model::{Row, Section};
use crate::number;

/// The table of instrument overhead.
#[derive(Serialize)]
pub struct InstrumentView {
    /// True if a trial used a modelled disk; only then are its columns shown.
    disk: bool,
    /// The instrument's share of the time above which a row is flagged if its differences are not larger.
    limit: String,
    /// The share above which a row is always flagged.
    maximum: String,
    lines: Vec<Line>,
    /// Number of omitted rows.
    left_out: usize,
}

#[derive(Serialize)]
struct Line {
    phase: String,
    name: String,
    n: usize,
    server: String,
    driver: String,
    delay: String,
    engine: String,
    /// The share in the time of all trials of the row.
    share: String,
    over_limit: bool,
}

/// The table, with a line for each row of each section, at most `max_lines`. Values are means over the trials of a
/// row.
pub fn view(sections: &[Section<'_>], max_lines: usize) -> InstrumentView {
    let lines = |section: &Section<'_>| {
        let title = section.title();
        section.rows.iter().map(|row| line(&title, row)).collect::<Vec<_>>()
    };
    let total: usize = sections.iter().map(|section| section.rows.len()).sum();
    let in_lab = |(trial, _): &(&Trial, &Phase)| trial.lab_id.is_some();
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    InstrumentView {
        disk: rows.any(|row| row.trials.iter().any(in_lab)),
        limit: number::difference(INSTRUMENT_LIMIT),
        maximum: number::difference(INSTRUMENT_MAXIMUM),
        lines: sections.iter().flat_map(lines).take(max_lines).collect(),
        left_out: total.saturating_sub(max_lines),
    }
}

/// Returns a sentence with the largest share in any phase and the mean delay of the disk; `None` on a host, which has
/// no disk server.
pub fn sentence(sections: &[Section<'_>]) -> Option<String> {
    let rows =
        sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    let phases = rows.flat_map(|(section, row)| row.trials.iter().map(move |t| (section, row, t)));
    let phases: Vec<_> = phases.filter(|(_, _, (trial, _))| trial.lab_id.is_some()).collect();
    let share = |measured: &(&Trial, &Phase)| instrument_share(std::slice::from_ref(measured));
    let (section, row, worst) = phases.iter().max_by(|a, b| share(a.2).total_cmp(&share(b.2)))?;
    let devices = phases.iter().filter_map(|(_, _, (_, phase))| phase.device);
    let requests: u64 = devices.map(|d| d.reads + d.writes + d.flushes + d.discards).sum();
    let delay: f64 =
        phases.iter().map(|(_, _, (_, phase))| phase.instrument.late_ns.seconds()).sum();
    let mut out = format!(
        "instrument: server and engine took at most {} of the time ({}, {})",
        number::percent(share(worst)),
        section.title(),
        row.in_sentence(),
    );
    if requests > 0 && delay > 0.0 {
        let mean = number::seconds(delay / requests as f64);
        out.push_str(&format!("; requests to the modelled disk completed {mean} late on average"));
    }
    Some(out)
}

fn line(title: &str, row: &Row<'_>) -> Line {
    let mean = |value: fn(&Instrument) -> Nanos| {
        let mean = row.mean(|phase| Some(value(&phase.instrument).seconds()));
        mean.map_or("–".into(), number::seconds)
    };
    let share = instrument_share(&row.trials);
    Line {
        phase: title.into(),
        name: row.name.clone(),
        n: row.returned.n,
        server: mean(|i| i.server_cpu_ns),
        driver: mean(|i| i.driver_cpu_ns),
        delay: mean(|i| i.late_ns),
        engine: mean(|i| i.engine_ns),
        share: number::percent(share),
        over_limit: share > INSTRUMENT_LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;

    use crate::{fixture, view};

    #[test]
    fn every_phase_of_every_file_system_has_a_line_and_shares_over_the_limit_are_marked() {
        let mut trials = fixture::trials();
        let phase = &mut trials[0].measured.phases[0];
        phase.instrument.server_cpu_ns = phase.returned_ns;
        let sections = view::sections(&trials, None);
        let view = super::view(&sections, 100);
        assert!(view.disk);
        assert_eq!(view.lines.len(), 12);
        let over_limit: Vec<&str> = view
            .lines
            .iter()
            .filter(|line| line.over_limit)
            .map(|line| line.name.as_str())
            .collect();
        assert_eq!(over_limit, [trials[0].plan.label.as_str()]);
    }

    #[test]
    fn the_sentence_names_the_phase_with_the_largest_overhead() {
        let mut trials = fixture::trials();
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            phase.instrument = Default::default();
        }
        let phase = &mut trials[0].measured.phases[0];
        let device = phase.device.unwrap();
        let requests = device.reads + device.writes + device.flushes + device.discards;
        phase.instrument.late_ns = Nanos(5_000 * requests);
        phase.instrument.server_cpu_ns = phase.durable_ns.unwrap();
        trials.truncate(1);
        trials[0].measured.phases.truncate(1);
        let text = super::sentence(&view::sections(&trials, None)).unwrap();
        let label = &trials[0].plan.label;
        assert!(text.contains("at most 100 % of the time"), "{text}");
        assert!(
            text.contains(label.as_str()) && text.contains("completed 5.00 us late on"),
            "{text}"
        );
    }

    #[test]
    fn a_host_has_no_disk_server() {
        let trials = fixture::on_a_host();
        assert_eq!(super::sentence(&view::sections(&trials, None)), None);
        assert!(!super::view(&view::sections(&trials, None), 100).disk);
    }
}
