//! How many trials of each kind `fsdyno run` runs: a typed number, or two stages (--width).

use fsdyno_record::Repeats;
use fsdyno_study::{Cell, Slot, Store, stage, two_stage};

use crate::cli::Run;
use crate::exit::Failure;
use crate::output::say;

/// The two-stage rule, where one is asked for.
///
/// # Errors
/// Shares, which know too little of each other.
pub fn rule(run: &Run) -> Result<Option<Repeats>, Failure> {
    let Some(width) = run.width else { return Ok(None) };
    let width_ppm = (width.0 * 1e6).round() as u32;
    if let Some(shard) = run.shard {
        return Err(Failure::wrong(format!(
            "--width sets the number by a pilot of all trials, and share {shard} knows only its own; \
             leave --shard out, or run the pilot alone (--width {}% --at-most 5), see what it asks for, and \
             give the shares that number with --repeat",
            f64::from(width_ppm) / 1e4
        )));
    }
    Ok(Some(two_stage::rule(width_ppm, run.at_most, run.seed)))
}

/// The trials that are known beforehand: all of a typed number, else the pilot.
pub fn first(run: &Run, rule: Option<&Repeats>, cells: usize) -> Vec<Slot> {
    let rounds = rule.map_or(run.repeat, |rule| rule.pilot);
    stage(cells, 0..rounds, run.seed, rule.copied())
}

/// The trials of the second stage, once the pilot is stored; none where there is nothing more to run.
pub fn second(rule: &Repeats, cells: &[Cell], store: &Store) -> Option<Vec<Slot>> {
    let Some(decision) = two_stage::decide(rule, cells, store.trials()) else {
        say("fsdyno: no kind has two good trials in the pilot, so there is no second stage");
        return None;
    };
    let (total, by) = (decision.total, &decision.by);
    let (pilot, width) = (rule.pilot, rule.width() * 100.0);
    let asks = match total.wanted {
        wanted if wanted == pilot => format!("the pilot of {pilot} is enough for ±{width} %"),
        wanted => format!("±{width} % takes {wanted} trials of each kind ({by} scatters most)"),
    };
    let cut = match total.reached {
        true => String::new(),
        false => format!("; NOT REACHED: --at-most {}", rule.at_most),
    };
    say(&format!("fsdyno: {asks}{cut}"));
    let rule = Repeats { wanted: Some(total.wanted), ..*rule };
    (total.n > pilot).then(|| stage(cells.len(), pilot..total.n, rule.first_seed, Some(rule)))
}
