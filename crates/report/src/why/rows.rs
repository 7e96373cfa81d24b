//! The tables of an explained trial, cell by cell, for all output formats.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_why::account::{Cause, Sum};
use fsdyno_why::explained::FunctionCounts;
use fsdyno_why::functions::{Difference, differences};
use fsdyno_why::kernel::{Frame, Task};
use fsdyno_why::{Access, Explained, Phase, Row};

use crate::number::{self, sanitize};
use crate::table::{Column, Table};

/// The maximum number of functions of a phase in a table.
const SHOWN: usize = 12;

/// The rows of a phase or gap, one for each structure and cause, with their sums.
pub struct Requests {
    /// The phase, or the gap between phases.
    pub place: String,
    /// The time for which the disk was busy there.
    pub busy: Nanos,
    /// The head of the column of requests that do not continue the previous request.
    elsewhere: &'static str,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// The timed requests, by phase and gap, in the trial's order.
pub fn places(it: &Explained) -> Vec<Requests> {
    let mut places: Vec<Requests> = Vec::new();
    let elsewhere = if it.access == Access::Seek { "seeks" } else { "random" };
    for row in it.rows().into_iter().filter(|row| row.cause != Cause::Untimed) {
        if places.last().is_none_or(|last| last.place != row.place) {
            let place = row.place.clone();
            places.push(Requests { place, busy: Nanos(0), elsewhere, rows: Vec::new() });
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

/// The table of one phase's or gap's rows.
pub fn requests(of: &Requests) -> Table {
    let share = |row: &Row| 100.0 * row.sum.time_ns.0 as f64 / of.busy.0.max(1) as f64;
    let columns = vec![
        Column::words("structure", |row: &Row| what(row).into()),
        Column::words("cause", |row: &Row| sanitize(row.cause.name())).priority(4),
        Column::number("requests", |row: &Row| number::count(row.sum.requests)).priority(2),
        Column::number("bytes", |row: &Row| size(row.sum.bytes.0)).priority(5),
        Column::number(of.elsewhere, |row: &Row| number::count(row.sum.seeks)).priority(3),
        Column::number("time", |row: &Row| row.sum.time_ns.to_string()),
        Column::number("share", |row: &Row| format!("{:.1} %", share(row))).priority(1),
    ];
    Table::of(columns, &of.rows)
}

/// The name of the structure that a row touches.
pub fn what(row: &Row) -> &'static str {
    row.structure.map_or("unattributed", |structure| structure.name())
}

/// A number of bytes in short form.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        n if n < 1 << 20 => format!("{} KiB", n >> 10),
        n => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
    }
}

/// The meaning of requests without a structure.
const UNATTRIBUTED: &str = " One is unattributed if its block is free both before and after the phase, as that of a file \
     which the phase creates and removes, or if its use changed in between.";

/// The sums of all rows, and the attributed share.
pub fn sums(it: &Explained) -> String {
    let Some(account) = &it.account else { return String::new() };
    let all = account.sum(|_| true);
    let (requests, time) = account.attributed_shares();
    // Rounded down, so that it is not shown as 100 % unless all are attributed.
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
         in which it begins, its bytes for the structures in which they lie.{}",
        number::count(all.requests),
        size(all.bytes.0),
        all.time_ns,
        down(requests),
        down(time),
        if requests < 1.0 { UNATTRIBUTED } else { "" },
    ) + &cut
}

/// Instructions of a phase by task.
pub fn executed(phase: &Phase) -> String {
    let per_op = |count: u64| count as f64 / phase.ops.max(1) as f64;
    let of = |(task, tree): (&Task, &Frame)| format!("{} {:.0}", task.name(), per_op(tree.total()));
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
pub fn functions(phase: &Phase, there: Option<&Phase>) -> Table {
    let table = match there.filter(|there| !there.executed.is_empty()) {
        Some(there) => difference(phase, there),
        None => alone(phase),
    };
    Table { caption: sanitize(&executed(phase)), ..table }
}

fn alone(phase: &Phase) -> Table {
    let all = phase.executed.get(&Task::Ops).map_or(0, |tree| tree.total()).max(1) as f64;
    let ops = phase.ops.max(1) as f64;
    let mut columns = vec![
        Column::words("function", |it: &FunctionCounts| sanitize(&it.function)),
        Column::words("layer", |it: &FunctionCounts| sanitize(&it.layer)).priority(3),
        Column::number("instructions per op", move |it: &FunctionCounts| {
            format!("{:.1}", it.instructions as f64 / ops)
        }),
        Column::number("calls per op", move |it: &FunctionCounts| {
            format!("{:.2}", it.calls as f64 / ops)
        })
        .priority(2),
        Column::number("share", move |it: &FunctionCounts| {
            format!("{:.1} %", 100.0 * it.instructions as f64 / all)
        })
        .priority(1),
    ];
    if phase.instruction_ns.is_some() {
        let ns = Column::number("estimated ns per op", |it: &FunctionCounts| {
            phase.ns_per_op(it).map_or(String::new(), |ns| format!("{ns:.1}"))
        });
        columns.insert(3, ns);
    }
    Table::of(columns, phase.functions.iter().filter(|it| it.task == Task::Ops).take(SHOWN))
}

fn difference(here: &Phase, there: &Phase) -> Table {
    let rows: Vec<Difference> = differences(here, there).into_iter().take(SHOWN).collect();
    let columns = vec![
        Column::words("function", |it: &Difference| sanitize(&it.names())),
        Column::words("layer", |it: &Difference| sanitize(&it.layer)).priority(3),
        Column::number("instructions per op", |it: &Difference| format!("{:.1}", it.instructions))
            .priority(1),
        Column::number("of the other", |it: &Difference| format!("{:.1}", it.other_instructions))
            .priority(2),
        Column::number("difference", |it: &Difference| format!("{:+.1}", it.delta())),
    ];
    Table::of(columns, &rows)
}
