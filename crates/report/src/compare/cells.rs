//! Cells of two results, and the matching of the cells of one result with those of the other.
//!
//! A cell is a plan under one lab identity, with all its seeds. Its conditions are its plan without the parts whose
//! effect may be the subject of a comparison: the kernel, the tools' exact commands, the lab, the directory's path and
//! the disk's parameters. [`super::differences`] lists all of these.

use std::collections::BTreeMap;

use fsdyno_axes::Axis;
use fsdyno_axes::along::SteppedAxis;
use fsdyno_axes::naming::RowNames;
use fsdyno_axes::subject::Subject;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Plan, Trial};
use serde_json::Value;

use crate::number::sanitize;

/// The trials of one plan in one result.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The cell's name, `dirops files=1000 on ext4`, with the conditions that distinguish it from other cells of that
    /// name.
    pub name: String,
    /// The parts of the name.
    pub place: Place,
    /// Its value on the compared axis, if both sides are from one result.
    pub value: Option<String>,
    /// All trials of the cell, in the order of the records; never empty.
    pub trials: Vec<&'a Trial>,
    key: Value,
}

/// The parts of a cell's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The workload: `dirops files=1000`.
    pub workload: String,
    /// The row: `ext4, 4 threads`.
    pub row: String,
    /// The kind of the file system; the label for an existing directory.
    pub kind: String,
}

/// Two cells with equal conditions.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The base cell.
    pub base: Cell<'a>,
    /// The new cell.
    pub new: Cell<'a>,
    /// The step from the base to the new cell, if both are from one result.
    pub step: Option<Step>,
}

/// A step along an axis, between two neighbouring values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The value before the step.
    pub from: String,
    /// The value after the step.
    pub to: String,
}

impl std::fmt::Display for Step {
    /// Formats the step as `6.1.0-56-amd64 -> 6.12.117`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)
    }
}

impl Pair<'_> {
    /// The name of the cell, with the step.
    pub fn title(&self) -> String {
        match &self.step {
            Some(step) => format!("{}: {step}", self.base.name),
            None => self.base.name.clone(),
        }
    }
}

/// The cells of two results.
#[derive(Debug, Default)]
pub struct Matched<'a> {
    /// The matched cells, in the order of the base.
    pub pairs: Vec<Pair<'a>>,
    /// Unmatched cells of the base.
    pub base_unmatched: Vec<Cell<'a>>,
    /// Unmatched cells of the new result.
    pub new_unmatched: Vec<Cell<'a>>,
}

impl<'a> Cell<'a> {
    /// The successful trials.
    pub fn successful(&self) -> impl Iterator<Item = &'a Trial> + '_ {
        self.trials.iter().copied().filter(|trial| trial.outcome == Outcome::Ok)
    }

    fn plan(&self) -> &'a Plan {
        &self.trials[0].plan
    }

    /// The name, with the value on the compared axis, if any.
    pub fn title(&self) -> String {
        match &self.value {
            Some(value) => format!("{}, {value}", self.name),
            None => self.name.clone(),
        }
    }

    fn identity(&self) -> Option<&'a str> {
        self.trials.iter().find_map(|trial| trial.lab_id.as_deref())
    }

    fn lab(&self) -> &'a str {
        self.identity().unwrap_or("")
    }
}

/// Matches cells: first cells with the same plan, then cells with equal conditions, then cells with the same label
/// whose conditions are equal except for the file system's spec. An ambiguous cell is not matched.
pub fn match_cells<'a>(base: &'a [Trial], new: &'a [Trial]) -> Matched<'a> {
    let (mut base, mut new) = (cells(base), cells(new));
    set_names(&mut base, &mut new);
    let mut remaining: [Vec<Option<Cell<'a>>>; 2] =
        [base.into_iter().map(Some).collect(), new.into_iter().map(Some).collect()];
    let mut pairs: Vec<(usize, Pair<'a>)> = Vec::new();
    for key_of in PASSES {
        let mut places: BTreeMap<String, [Vec<usize>; 2]> = BTreeMap::new();
        for (side, cells) in remaining.iter().enumerate() {
            for (index, cell) in cells.iter().enumerate() {
                if let Some(cell) = cell {
                    places.entry(key_of(cell)).or_default()[side].push(index);
                }
            }
        }
        for places in places.into_values() {
            let ([b], [n]) = (places[0].as_slice(), places[1].as_slice()) else { continue };
            if let (Some(base), Some(new)) = (remaining[0][*b].take(), remaining[1][*n].take()) {
                pairs.push((*b, Pair { base, new, step: None }));
            }
        }
    }
    pairs.sort_by_key(|(index, _)| *index);
    let [base_unmatched, new_unmatched] =
        remaining.map(|cells| cells.into_iter().flatten().collect());
    Matched {
        pairs: pairs.into_iter().map(|(_, pair)| pair).collect(),
        base_unmatched,
        new_unmatched,
    }
}

/// Matches the cells of one result that differ only in an axis, each with the cell of the next value. Values are in
/// the order of the trials, versions in version order. A cell without a neighbour is not matched, nor are several
/// cells with the same value.
pub fn match_steps<'a>(trials: &'a [Trial], axis: &'static Axis) -> Matched<'a> {
    let along = SteppedAxis::new(axis, trials.iter().map(|trial| &trial.plan));
    let cells = cells(trials);
    let names = RowNames::for_steps(axis, cells.iter().map(subject));
    let mut order: Vec<String> = Vec::new();
    let mut lines: Vec<(String, Vec<(String, Cell<'a>)>)> = Vec::new();
    let mut unmatched = Vec::new();
    for mut cell in cells {
        let subject = subject(&cell);
        let row = if axis.names_rows { names.variant(subject) } else { names.row(subject) };
        let row = sanitize(row.trim_start_matches(", "));
        let filesystem = subject.plan.filesystem.as_ref();
        let kind = sanitize(filesystem.map_or(&subject.plan.label, |filesystem| &filesystem.kind));
        cell.place = Place { workload: sanitize(&names.workload(subject)), row, kind };
        cell.name = match (cell.place.workload.as_str(), cell.place.row.as_str()) {
            (workload, "") => workload.into(),
            (workload, row) => format!("{workload} on {row}"),
        };
        let Some(value) = along.value(&subject).map(|value| sanitize(&value)) else {
            unmatched.push(cell);
            continue;
        };
        if !order.contains(&value) {
            order.push(value.clone());
        }
        cell.value = Some(value.clone());
        let key = along.conditions(&subject);
        match lines.iter_mut().find(|line| line.0 == key) {
            Some(line) => line.1.push((value, cell)),
            None => lines.push((key, vec![(value, cell)])),
        }
    }
    order.sort_by(|one, other| axis.compare(one, other));
    let mut matched = Matched::default();
    for (_, line) in lines {
        let (steps, rest) = steps_of(line, &order);
        matched.pairs.extend(steps);
        unmatched.extend(rest);
    }
    matched.new_unmatched = unmatched;
    matched
}

/// The steps between neighbours of one line, and its cells without a neighbour.
fn steps_of<'a>(line: Vec<(String, Cell<'a>)>, order: &[String]) -> (Vec<Pair<'a>>, Vec<Cell<'a>>) {
    let (mut single, mut unmatched): (Vec<(&String, &Cell<'a>)>, Vec<Cell<'a>>) =
        Default::default();
    for value in order {
        let cells = line.iter().filter(|entry| entry.0 == *value).map(|entry| &entry.1);
        match cells.collect::<Vec<_>>().as_slice() {
            [] => {}
            [cell] => single.push((value, *cell)),
            several => unmatched.extend(several.iter().map(|cell| (*cell).clone())),
        }
    }
    if let [(_, cell)] = single.as_slice() {
        unmatched.push((*cell).clone());
    }
    let step = |pair: &[(&String, &Cell<'a>)]| {
        let [(from, base), (to, new)] = pair else { return None };
        let step = Step { from: (*from).clone(), to: (*to).clone() };
        Some(Pair { base: (*base).clone(), new: (*new).clone(), step: Some(step) })
    };
    (single.windows(2).filter_map(step).collect(), unmatched)
}

/// The keys that two cells must share, from the strictest to the loosest.
const PASSES: &[fn(&Cell<'_>) -> String] = &[
    |cell| format!("{} {} {}", cell.plan().hash, cell.lab(), cell.plan().label),
    |cell| format!("{} {}", cell.plan().hash, cell.plan().label),
    |cell| cell.plan().hash.clone(),
    |cell| format!("{} {}", cell.key, cell.plan().label),
    |cell| cell.key.to_string(),
    |cell| format!("{} {}", without_spec(cell.key.clone()), cell.plan().label),
];

fn cells(trials: &[Trial]) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    let mut unplaced = Vec::new();
    for trial in trials {
        let plan = &trial.plan;
        let is_place_known = match plan.on_hosts() {
            true => !trial.conditions.kernel.is_empty(),
            false => trial.lab_id.is_some(),
        };
        if !is_place_known && trial.outcome != Outcome::Ok {
            unplaced.push(trial);
            continue;
        }
        // Two hosts are two cells, as they are two rows of a table.
        let host =
            trial.lab_id.is_none().then_some((&trial.conditions.kernel, &trial.conditions.cpu));
        let place = (plan.hash.as_str(), plan.label.as_str(), trial.lab_id.as_deref(), host);
        let index = *places.entry(place).or_insert(cells.len());
        push_trial(&mut cells, index, trial);
    }
    // A trial that failed before its lab or the kernel of its host was known belongs to the only cell of its plan; among
    // several, its cell is unknown.
    let placed = cells.len();
    for trial in unplaced {
        let same = |index: &usize| {
            let plan = cells[*index].plan();
            (&plan.hash, &plan.label) == (&trial.plan.hash, &trial.plan.label)
        };
        let candidates: Vec<usize> = (0..placed).filter(same).collect();
        let index = match candidates.as_slice() {
            [only] => *only,
            _ => (placed..cells.len()).find(same).unwrap_or(usize::MAX),
        };
        push_trial(&mut cells, index, trial);
    }
    cells
}

/// Adds a trial to the cell at an index, or to a new one at the end.
fn push_trial<'a>(cells: &mut Vec<Cell<'a>>, index: usize, trial: &'a Trial) {
    match cells.get_mut(index) {
        Some(cell) => cell.trials.push(trial),
        None => cells.push(Cell {
            name: String::new(),
            place: Place::default(),
            value: None,
            trials: vec![trial],
            key: conditions(&trial.plan),
        }),
    }
}

/// The conditions of a plan: all of it except the parts that a comparison may be about. Two trials are comparable if
/// these are equal.
pub fn conditions(plan: &Plan) -> Value {
    let mut key = serde_json::to_value(plan).unwrap_or(Value::Null);
    remove(&mut key, "", &["label", "hash"]);
    remove(&mut key, "/venue", &["kernel", "boot"]);
    // The path identifies only directories and drives; an ephemeral device (loop:8G) is identified by its size.
    remove(&mut key, "/medium", &["path"]);
    remove(&mut key, "/medium/disk", &["spec"]);
    remove(&mut key, "/medium/journal", &["spec"]);
    if let Some(input) = &plan.workload.input {
        remove(&mut key, "/workload/params", &[&input.parameter]);
    }
    if let Some(Value::Object(filesystem)) = key.get_mut("filesystem") {
        filesystem.retain(|field, _| ["kind", "spec", "age", "period"].contains(&field.as_str()));
    }
    key
}

/// Conditions without the requested spec of the file system, because a label may stand for an old and a new spec.
pub fn without_spec(mut conditions: Value) -> Value {
    remove(&mut conditions, "/filesystem", &["kind", "spec"]);
    conditions
}

fn remove(value: &mut Value, pointer: &str, fields: &[&str]) {
    if let Some(Value::Object(object)) = value.pointer_mut(pointer) {
        fields.iter().for_each(|field| drop(object.remove(*field)));
    }
}

/// The subject from which a cell's name is made.
fn subject<'a>(cell: &Cell<'a>) -> Subject<'a> {
    Subject { lab_id: cell.identity(), ..cell.trials[0].into() }
}

/// Names cells by workload and label, and by the conditions that distinguish them from others with that name.
fn set_names<'a>(base: &mut [Cell<'a>], new: &mut [Cell<'a>]) {
    let names = RowNames::of_comparison(base.iter().map(subject), new.iter().map(subject));
    for cell in base.iter_mut().chain(new) {
        let subject = subject(cell);
        cell.name = sanitize(&format!("{} on {}", names.workload(subject), names.row(subject)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn names(cells: &[Cell<'_>]) -> Vec<String> {
        cells.iter().map(|cell| cell.name.clone()).collect()
    }

    fn on_kernel(mut trials: Vec<Trial>, kernel: &str) -> Vec<Trial> {
        for trial in &mut trials {
            trial.plan.lab_mut().unwrap().kernel = kernel.into();
            trial.plan = trial.plan.clone().with_hash();
            trial.lab_id = Some(format!("lab of {kernel}"));
        }
        trials
    }

    #[test]
    fn cells_match_on_different_kernels_and_labs_but_not_on_different_disks() {
        let base = fixture::trials();
        let new = on_kernel(fixture::trials(), "6.12.3");
        let both = match_cells(&base, &new);
        assert_eq!(
            (both.pairs.len(), both.base_unmatched.len(), both.new_unmatched.len()),
            (6, 0, 0)
        );
        assert!(both.pairs.iter().all(|pair| pair.base.name == pair.new.name));
        assert_eq!(both.pairs[0].base.name, "dirops on ext4");
        let mut moved = fixture::trials();
        moved.iter_mut().for_each(|trial| fixture::set_disk(trial, "instant"));
        let unmatched = match_cells(&base, &moved);
        assert!(unmatched.pairs.is_empty());
        assert_eq!(names(&unmatched.new_unmatched)[0], "dirops on ext4, instant");
    }

    #[test]
    fn two_kernels_on_both_sides_match_and_one_kernel_against_two_is_ambiguous() {
        let two = [fixture::trials(), on_kernel(fixture::trials(), "6.12.3")].concat();
        let both = match_cells(&two, &two);
        assert_eq!(both.pairs.len(), 12);
        for pair in &both.pairs {
            assert_eq!(pair.base.plan().hash, pair.new.plan().hash);
        }
        let third = on_kernel(fixture::trials(), "5.10.0");
        let unmatched = match_cells(&two, &third);
        assert!(unmatched.pairs.is_empty(), "{:?}", names(&unmatched.base_unmatched));
        assert_eq!(unmatched.base_unmatched.len(), 12);
        assert!(names(&unmatched.base_unmatched).iter().any(|name| name.contains(", 6.12.3")));
    }

    #[test]
    fn a_label_with_two_specs_matches_them_as_the_user_intended() {
        let base = fixture::trials();
        let mut new = fixture::trials();
        for trial in new.iter_mut().filter(|trial| trial.plan.label == "ext4") {
            trial.plan.filesystem.as_mut().unwrap().spec = "ext4 -O ^dir_index".into();
            trial.plan = trial.plan.clone().with_hash();
        }
        assert_eq!(match_cells(&base, &new).pairs.len(), 6);
        for trial in new.iter_mut().filter(|trial| trial.plan.label == "ext4") {
            trial.plan.label = "linear".into();
        }
        let two_alone = match_cells(&base, &new);
        assert_eq!((two_alone.pairs.len(), two_alone.base_unmatched.len()), (4, 2));
    }

    #[test]
    fn cells_with_different_parameters_do_not_match_and_are_named_after_them() {
        let base = fixture::trials();
        let mut new = fixture::trials();
        for trial in new.iter_mut().filter(|trial| trial.plan.workload.name == "dirops") {
            trial.plan.workload.params.insert("files".into(), "20000".into());
            trial.plan = trial.plan.clone().with_hash();
        }
        let both = match_cells(&base, &new);
        assert_eq!(both.pairs.len(), 3);
        assert_eq!(names(&both.base_unmatched)[0], "dirops files=10000 on ext4");
        assert_eq!(names(&both.new_unmatched)[0], "dirops files=20000 on ext4");
    }

    #[test]
    fn a_trial_that_failed_before_its_lab_was_known_stays_with_its_plan() {
        let base = fixture::trials();
        let mut new = fixture::trials();
        new[0].lab_id = None;
        new[0].outcome = Outcome::Failed;
        let both = match_cells(&base, &new);
        assert_eq!((both.pairs.len(), both.pairs[0].new.trials.len()), (6, 3));
        assert_eq!(both.pairs[0].new.successful().count(), 2);
    }
}
