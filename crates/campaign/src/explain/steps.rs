//! Explains steps along an axis: finds the kernel function behind most of each step's change in instructions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_axes::Axis;
use fsdyno_record::Trial;
use fsdyno_report::compare::{Compared, ExplainedStep, Row, sides_of_steps};
use fsdyno_why::Explained;
use fsdyno_why::functions::source;

use super::Explainer;
use super::select::why_irreproducible;
use crate::failure::Failure;
use crate::notes::say;

/// Minimum difference in instructions per op for which the responsible kernel function is reported.
const MIN_DIFFERENCE: f64 = 0.5;

/// Explains the `limit` largest steps of a comparison along an axis: repeats one trial of each side as a profiled run
/// (each trial only once), and adds the instructions and their source to the rows.
///
/// # Errors
/// A step whose trials are not reproducible or ran in a different lab; a failed run.
pub fn steps(
    compared: &mut Compared,
    trials: &[Trial],
    axis: &'static Axis,
    limit: usize,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let sides: BTreeMap<String, [&Trial; 2]> = sides_of_steps(trials, axis).into_iter().collect();
    let mut rows: Vec<(&mut Row, [&Trial; 2])> = Vec::new();
    for row in compared.rows.iter_mut().filter(|row| row.is_step()) {
        if let Some(sides) = sides.get(&row.group()) {
            rows.push((row, *sides));
        }
    }
    let distance = |row: &Row| row.comparison.map_or(0.0, |comparison| comparison.ratio.ln().abs());
    rows.sort_by(|one, other| distance(other.0).total_cmp(&distance(one.0)));
    rows.truncate(limit);
    if rows.is_empty() {
        say("fsdyno: no step is large enough to be explained");
        return Ok(());
    }
    let trials = || rows.iter().flat_map(|(_, sides)| *sides);
    if let Some(reason) = trials().find_map(why_irreproducible) {
        return Err(Failure::invalid_use(format!("steps cannot be explained: {reason}")));
    }
    let explainer = Explainer::new(trials(), &[], stop)?;
    let mut known: BTreeMap<String, Explained> = BTreeMap::new();
    for (row, sides) in rows {
        let mut explain_once = |trial: &Trial| -> Result<Explained, Failure> {
            let id = format!("{:?}", trial.identity());
            if !known.contains_key(&id) {
                known.insert(id.clone(), explainer.explain(trial)?);
            }
            Ok(known.get(&id).cloned().unwrap_or_default())
        };
        let [base, new] = [explain_once(sides[0])?, explain_once(sides[1])?];
        row.explained =
            explain_step(&row.phase, &base, &new).map(|step| drop_opposed_source(step, row));
    }
    Ok(())
}

/// Returns the instructions of a phase on both sides; `None` if they were not counted.
fn explain_step(name: &str, base: &Explained, new: &Explained) -> Option<ExplainedStep> {
    let [old, now] = [base, new].map(|it| it.phases.iter().find(|phase| phase.name == name));
    let (old, now) = (old?, now?);
    let (before, after) = (old.instructions_per_op()?, now.instructions_per_op()?);
    let increase = after - before;
    let source = source(now, old, increase).filter(|_| increase.abs() >= MIN_DIFFERENCE);
    Some(ExplainedStep { seed: base.seed, base: before, new: after, source })
}

/// Removes the source of a step whose instructions and time changed in opposite directions: it has a different cause.
fn drop_opposed_source(step: ExplainedStep, row: &Row) -> ExplainedStep {
    let slower = row.comparison.is_some_and(|comparison| comparison.ratio > 1.0);
    let source = step.source.filter(|_| slower == (step.new > step.base));
    ExplainedStep { source, ..step }
}

#[cfg(test)]
mod tests {
    use fsdyno_why::Phase;
    use fsdyno_why::kernel::{Frame, Task};

    use super::*;

    /// Creates an explanation of a phase of 10 ops, with one function below the entry.
    fn with_instructions(own: u64) -> Explained {
        let leaf = |own, below| Frame { own, calls: 1, charged: 0, layer: "files".into(), below };
        let below = [("do_unlinkat".to_string(), leaf(own, BTreeMap::new()))];
        let mut phase = Phase { name: "delete".into(), ops: 10, ..Phase::default() };
        phase.set_executed(&BTreeMap::from([(Task::Ops, leaf(0, below.into()))]));
        Explained { phases: vec![phase], seed: 3, ..Explained::default() }
    }

    #[test]
    fn the_source_is_the_function_that_has_the_difference() {
        let step =
            explain_step("delete", &with_instructions(1000), &with_instructions(1300)).unwrap();
        assert_eq!((step.seed, step.base, step.new), (3, 100.0, 130.0));
        let source = step.source.unwrap();
        assert_eq!((source.function.as_str(), source.delta), ("do_unlinkat", 30.0));
        assert_eq!(
            explain_step("delete", &with_instructions(1000), &with_instructions(1001))
                .unwrap()
                .source,
            None
        );
        assert_eq!(
            explain_step("create", &with_instructions(1000), &with_instructions(1300)),
            None
        );
    }
}
