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
const MAX_SHOWN: usize = 12;

/// The rows of a phase or gap, one for each structure and cause, with their sums.
pub struct Requests {
    /// The phase, or the gap between phases.
    pub place: String,
    /// The time for which the disk was busy there.
    pub busy: Nanos,
    /// The heading of the column of requests that do not continue the previous request.
    seeks_head: &'static str,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The timed requests, by phase and gap, in the trial's order.
pub fn places(explained: &Explained) -> Vec<Requests> {
    let mut places: Vec<Requests> = Vec::new();
    let seeks_head = if explained.access == Access::Seek { "seeks" } else { "random" };
    for row in explained.rows().into_iter().filter(|row| row.cause != Cause::Untimed) {
        if places.last().is_none_or(|last| last.place != row.place) {
            let place = row.place.clone();
            places.push(Requests { place, busy: Nanos(0), seeks_head, rows: Vec::new() });
        }
        if let Some(last) = places.last_mut() {
            last.busy += row.sum.time_ns;
            last.rows.push(row);
        }
    }
    places
}

/// The sum of the untimed requests, such as those of mkfs and verification.
pub fn untimed(explained: &Explained) -> Sum {
    let mut sum = Sum::default();
    explained
        .rows()
        .iter()
        .filter(|row| row.cause == Cause::Untimed)
        .for_each(|row| sum.add(&row.sum));
    sum
}

/// The table of one phase's or gap's rows.
pub fn requests(requests: &Requests) -> Table {
    let share = |row: &Row| 100.0 * row.sum.time_ns.0 as f64 / requests.busy.0.max(1) as f64;
    let columns = vec![
        Column::words("structure", |row: &Row| structure_name(row).into()),
        Column::words("cause", |row: &Row| sanitize(row.cause.name())).priority(4),
        Column::number("requests", |row: &Row| number::count(row.sum.requests)).priority(2),
        Column::number("bytes", |row: &Row| size(row.sum.bytes.0)).priority(5),
        Column::number(requests.seeks_head, |row: &Row| number::count(row.sum.seeks)).priority(3),
        Column::number("time", |row: &Row| row.sum.time_ns.to_string()),
        Column::number("share", |row: &Row| format!("{:.1} %", share(row))).priority(1),
    ];
    Table::of(columns, &requests.rows)
}

/// The name of the structure that a row touches.
pub fn structure_name(row: &Row) -> &'static str {
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
const UNATTRIBUTED: &str = " A request is unattributed if its block is free both before and after the phase (such as a \
     block of a file that the phase creates and removes), or if the use of the block changed in between.";

/// The sums of all rows, and the attributed share.
pub fn sums(explained: &Explained) -> String {
    let Some(account) = &explained.account else { return String::new() };
    let total = account.sum(|_| true);
    let (requests, time) = account.attributed_shares();
    // Rounded down, so that it is not shown as 100 % unless all are attributed.
    let rounded_down = |share: f64| (share * 10_000.0).floor() / 100.0;
    let truncated = match explained.log.lost {
        0 => String::new(),
        lost => {
            format!(" The log was truncated: {} more requests are in no row.", number::count(lost))
        }
    };
    format!(
        "All rows: {} requests, {}, and a disk busy time of {}. Of the timed requests, {:.2} % are attributed, with \
         {:.2} % of their time. A request and its time count for the structure in which the request begins; its bytes \
         count for the structures in which they lie.{}",
        number::count(total.requests),
        size(total.bytes.0),
        total.time_ns,
        rounded_down(requests),
        rounded_down(time),
        if requests < 1.0 { UNATTRIBUTED } else { "" },
    ) + &truncated
}

/// Instructions of a phase by task.
pub fn executed(phase: &Phase) -> String {
    let per_op = |count: u64| count as f64 / phase.ops.max(1) as f64;
    let text =
        |(task, tree): (&Task, &Frame)| format!("{} {:.0}", task.name(), per_op(tree.total()));
    let busy: BTreeMap<&Task, &Frame> =
        phase.executed.iter().filter(|(task, _)| **task != Task::Idle).collect();
    format!(
        "{}: instructions per op ({} ops): {}",
        phase.name,
        number::count(phase.ops),
        busy.into_iter().map(text).collect::<Vec<_>>().join(", ")
    )
}

/// The functions of a phase's ops with the most instructions, compared with those of another trial if there is one.
pub fn functions(phase: &Phase, other: Option<&Phase>) -> Table {
    let table = match other.filter(|other| !other.executed.is_empty()) {
        Some(other) => difference_table(phase, other),
        None => function_table(phase),
    };
    Table { caption: sanitize(&executed(phase)), ..table }
}

fn function_table(phase: &Phase) -> Table {
    let total = phase.executed.get(&Task::Ops).map_or(0, |tree| tree.total()).max(1) as f64;
    let ops = phase.ops.max(1) as f64;
    let mut columns = vec![
        Column::words("function", |function: &FunctionCounts| sanitize(&function.function)),
        Column::words("layer", |function: &FunctionCounts| sanitize(&function.layer)).priority(3),
        Column::number("instructions per op", move |function: &FunctionCounts| {
            format!("{:.1}", function.instructions as f64 / ops)
        }),
        Column::number("calls per op", move |function: &FunctionCounts| {
            format!("{:.2}", function.calls as f64 / ops)
        })
        .priority(2),
        Column::number("share", move |function: &FunctionCounts| {
            format!("{:.1} %", 100.0 * function.instructions as f64 / total)
        })
        .priority(1),
    ];
    if phase.instruction_ns.is_some() {
        let ns = Column::number("estimated ns per op", |function: &FunctionCounts| {
            phase.ns_per_op(function).map_or(String::new(), |ns| format!("{ns:.1}"))
        });
        columns.insert(3, ns);
    }
    Table::of(
        columns,
        phase.functions.iter().filter(|function| function.task == Task::Ops).take(MAX_SHOWN),
    )
}

fn difference_table(phase: &Phase, other: &Phase) -> Table {
    let rows: Vec<Difference> = differences(phase, other).into_iter().take(MAX_SHOWN).collect();
    let columns = vec![
        Column::words("function", |difference: &Difference| sanitize(&difference.names())),
        Column::words("layer", |difference: &Difference| sanitize(&difference.layer)).priority(3),
        Column::number("instructions per op", |difference: &Difference| {
            format!("{:.1}", difference.instructions)
        })
        .priority(1),
        Column::number("of the other, per op", |difference: &Difference| {
            format!("{:.1}", difference.other_instructions)
        })
        .priority(2),
        Column::number("difference per op", |difference: &Difference| {
            format!("{:+.1}", difference.delta())
        }),
    ];
    Table::of(columns, &rows)
}
