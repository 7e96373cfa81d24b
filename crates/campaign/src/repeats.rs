//! The number of trials of each configuration: fixed (--repeat), or chosen in two stages (--width).

use crate::{Cell, Slot, Store, stage, two_stage};
use fsdyno_record::Repeats;

use crate::RunSpec;
use crate::failure::Failure;
use crate::notes::say;

/// Returns the two-stage rule, if --width is given.
///
/// # Errors
/// A request for a shard, which does not have the pilot trials of the other shards.
pub fn rule(run: &RunSpec) -> Result<Option<Repeats>, Failure> {
    let Some(half_width) = run.half_width else { return Ok(None) };
    let width_ppm = (half_width * 1e6).round() as u32;
    if let Some(shard) = run.shard {
        return Err(Failure::invalid_use(format!(
            "--width needs a pilot of all trials, and shard {shard} runs only its own; remove --shard, or run the \
             pilot alone (--width {}% --at-most 5), then pass the number that it prints to all shards with --repeat",
            f64::from(width_ppm) / 1e4
        )));
    }
    Ok(Some(two_stage::rule(width_ppm, run.at_most, run.seed)))
}

/// Returns the trials of the first stage: all with --repeat, the pilot with --width.
pub fn first(run: &RunSpec, rule: Option<&Repeats>, cells: usize) -> Vec<Slot> {
    let rounds = rule.map_or(run.repeat, |rule| rule.pilot);
    stage(cells, 0..rounds, run.seed, rule.copied())
}

/// Returns the trials of the second stage, after the pilot; `None` if there is no second stage.
pub fn second(rule: &Repeats, cells: &[Cell], store: &Store) -> Option<Vec<Slot>> {
    let Some(decision) = two_stage::decide(rule, cells, store.trials()) else {
        say(
            "fsdyno: no configuration has two good trials in the pilot, so there is no second stage",
        );
        return None;
    };
    let (total, by) = (decision.total, &decision.by);
    let (pilot, width) = (rule.pilot, rule.half_width() * 100.0);
    let needs = match total.wanted {
        wanted if wanted == pilot => format!("the pilot of {pilot} trials suffices for ±{width} %"),
        wanted => {
            format!("±{width} % needs {wanted} trials of each configuration ({by} varies most)")
        }
    };
    let limit = match total.reached {
        true => String::new(),
        false => format!("; NOT REACHED: --at-most {}", rule.at_most),
    };
    say(&format!("fsdyno: {needs}{limit}"));
    let rule = Repeats { wanted: Some(total.wanted), ..*rule };
    (total.n > pilot).then(|| stage(cells.len(), pilot..total.n, rule.first_seed, Some(rule)))
}
