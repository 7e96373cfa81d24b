//! The tables of an explained trial, cell by cell, for all output formats.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_why::account::{Cause, Sum};
use fsdyno_why::functions::{Difference, differences};
use fsdyno_why::kernel::{Frame, Task};
use fsdyno_why::{Explained, Phase, Row};

use crate::columns::Column;
use crate::number;

/// Number of functions of a phase in a table.
const SHOWN: usize = 12;

/// The rows of a phase or gap, one for each structure and cause, with their sums.
pub struct Requests {
    /// The phase, or the gap between phases.
    pub place: String,
    /// How long the disk was busy there.
    pub busy: Nanos,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// The timed requests, by phase and gap, in the trial's order.
pub fn places(it: &Explained) -> Vec<Requests> {
    let mut places: Vec<Requests> = Vec::new();
    for row in it.rows().into_iter().filter(|row| row.cause != Cause::Untimed) {
        if places.last().is_none_or(|last| last.place != row.place) {
            let place = row.place.clone();
            places.push(Requests { place, busy: Nanos(0), rows: Vec::new() });
        }
        if let Some(last) = places.last_mut() {
            last.busy += row.sum.time_ns;
            last.rows.push(row);
        }
    }
    places
}

/// The requests of mkfs and verification, outside the disk's time.
pub fn untimed(it: &Explained) -> Sum {
    let mut sum = Sum::default();
    it.rows().iter().filter(|row| row.cause == Cause::Untimed).for_each(|row| sum.add(&row.sum));
    sum
}

/// The columns of one phase's or gap's rows.
pub fn requests(of: &Requests) -> Vec<Column> {
    let share = |row: &Row| 100.0 * row.sum.time_ns.0 as f64 / of.busy.0.max(1) as f64;
    let column = |head: &str, drop, left, cell: &dyn Fn(&Row) -> String| Column {
        head: head.into(),
        drop,
        left,
        cells: of.rows.iter().map(cell).collect(),
    };
    vec![
        column("structure", 0, true, &|row| what(row).into()),
        column("cause", 4, true, &|row| row.cause.name().into()),
        column("requests", 2, false, &|row| number::count(row.sum.requests)),
        column("bytes", 5, false, &|row| size(row.sum.bytes.0)),
        column("seeks", 3, false, &|row| number::count(row.sum.seeks)),
        column("time", 0, false, &|row| row.sum.time_ns.to_string()),
        column("share", 1, false, &|row| format!("{:.1} %", share(row))),
    ]
}

/// The structure that a row touches.
pub fn what(row: &Row) -> &'static str {
    row.structure.map_or("unattributed", |structure| structure.name())
}

/// Bytes in short form.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        n if n < 1 << 20 => format!("{} KiB", n >> 10),
        n => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
    }
}

/// The sums of all rows, and the attributed share.
pub fn sums(it: &Explained) -> String {
    let Some(account) = &it.account else { return String::new() };
    let all = account.sum(|_| true);
    let (requests, time) = account.attributed();
    // Never rounded up to all.
    let down = |share: f64| (share * 10_000.0).floor() / 100.0;
    let cut = match it.log.lost {
        0 => String::new(),
        lost => {
            format!(" The log was truncated: {} more requests are in no row.", number::count(lost))
        }
    };
    format!(
        "All rows: {} requests, {}, {} during which the disk was busy. Of what is \
         timed, {:.2} % of the requests and {:.2} % of the time are attributed. A request and its time count for the structure \
         in which it begins, its bytes for the structures in which they lie.",
        number::count(all.requests),
        size(all.bytes.0),
        all.time_ns,
        down(requests),
        down(time),
    ) + &cut
}

/// Instructions of a phase by task.
pub fn executed(phase: &Phase) -> String {
    let per_op = |count: u64| count as f64 / phase.ops.max(1) as f64;
    let of = |(task, tree): (&Task, &Frame)| format!("{} {:.0}", task.name(), per_op(tree.whole()));
    let busy: BTreeMap<&Task, &Frame> =
        phase.executed.iter().filter(|(task, _)| **task != Task::Idle).collect();
    format!(
        "{}: instructions per op ({} ops): {}",
        phase.name,
        number::count(phase.ops),
        busy.into_iter().map(of).collect::<Vec<_>>().join(", ")
    )
}

/// The functions of a phase's ops with the most instructions, compared with those of another trial if there is one.
pub fn functions(phase: &Phase, there: Option<&Phase>) -> Vec<Column> {
    match there.filter(|there| !there.executed.is_empty()) {
        Some(there) => difference(phase, there),
        None => alone(phase),
    }
}

fn alone(phase: &Phase) -> Vec<Column> {
    let all = phase.executed.get(&Task::Ops).map_or(0, |tree| tree.whole()).max(1) as f64;
    let ops = phase.ops.max(1) as f64;
    let rows: Vec<_> =
        phase.functions.iter().filter(|it| it.task == Task::Ops).take(SHOWN).collect();
    let column = |head: &str, drop, left, cells: Vec<String>| Column {
        head: head.into(),
        drop,
        left,
        cells,
    };
    let each = |cell: &dyn Fn(&fsdyno_why::explained::Flat) -> String| -> Vec<String> {
        rows.iter().map(|row| cell(row)).collect()
    };
    vec![
        column("function", 0, true, each(&|it| it.function.clone())),
        column("layer", 3, true, each(&|it| it.layer.clone())),
        column(
            "instructions per op",
            0,
            false,
            each(&|it| format!("{:.1}", it.instructions as f64 / ops)),
        ),
        column("calls per op", 2, false, each(&|it| format!("{:.2}", it.calls as f64 / ops))),
        column(
            "share",
            1,
            false,
            each(&|it| format!("{:.1} %", 100.0 * it.instructions as f64 / all)),
        ),
    ]
}

fn difference(here: &Phase, there: &Phase) -> Vec<Column> {
    let rows: Vec<Difference> = differences(here, there).into_iter().take(SHOWN).collect();
    let column = |head: &str, drop, left, cell: &dyn Fn(&Difference) -> String| Column {
        head: head.into(),
        drop,
        left,
        cells: rows.iter().map(cell).collect(),
    };
    vec![
        column("function", 0, true, &Difference::names),
        column("layer", 3, true, &|it| it.layer.clone()),
        column("instructions per op", 1, false, &|it| format!("{:.1}", it.here)),
        column("of the other", 2, false, &|it| format!("{:.1}", it.there)),
        column("difference", 0, false, &|it| format!("{:+.1}", it.delta())),
    ]
}
