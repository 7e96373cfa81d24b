//! The tables of a trial: for people, for a page, for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use fsdyno_record::Bytes;
use serde_json::{Value, json};

use crate::account::{Cause, Sum};
use crate::explained::{Explained, FunctionRow, Phase, Row};
use crate::kernel::Task;
use crate::say::{Difference, differences, sentences};

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For a page or an issue.
    Markdown,
    /// All rows, for a spreadsheet.
    Csv,
    /// Everything.
    Json,
}

impl Format {
    /// All, with the name that is typed and what it means.
    pub const ALL: &[(&str, &str, Format)] = &[
        ("text", "For people", Format::Text),
        ("markdown", "The same tables for a page or an issue", Format::Markdown),
        ("csv", "Every row of requests and of functions, one a line", Format::Csv),
        ("json", "Everything", Format::Json),
    ];
}

/// So many functions of a phase are shown to people.
const SHOWN: usize = 12;

/// A table: its head and its rows. The first columns are words, those from `numbers` on are numbers.
struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    numbers: usize,
}

/// A trial, against another where there is one.
pub fn write(it: &Explained, other: Option<&Explained>, format: Format) -> String {
    match format {
        Format::Text => words(it, other, &|table| table.text()),
        Format::Markdown => words(it, other, &|table| table.markdown()),
        Format::Csv => csv(it),
        Format::Json => {
            // A map of strings and numbers is always JSON.
            serde_json::to_string_pretty(&json(it, other)).unwrap_or_default() + "\n"
        }
    }
}

fn words(it: &Explained, other: Option<&Explained>, show: &dyn Fn(&Table) -> String) -> String {
    let mut out = format!("{} on {}, seed {}\n\n", it.workload, it.label, it.seed);
    let mut add = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    sentences(it, other).iter().for_each(|sentence| add(sentence));
    if it.account.is_some() {
        add("");
        add(&show(&requests(it)));
        add(&sums(it));
    }
    for phase in it.phases.iter().filter(|phase| !phase.executed.is_empty()) {
        add("");
        add(&executed(phase));
        let there = other.and_then(|other| other.phases.iter().find(|it| it.name == phase.name));
        match there.filter(|there| !there.executed.is_empty()) {
            Some(there) => add(&show(&difference(phase, there))),
            None => add(&show(&functions(it, phase))),
        }
    }
    if !it.notes.is_empty() {
        add("");
        it.notes.iter().for_each(|note| add(&format!("Note: {note}.")));
    }
    out
}

fn requests(it: &Explained) -> Table {
    let rows = it.rows();
    let timed = |row: &&Row| row.cause != Cause::Untimed;
    let mut whole: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows.iter().filter(timed) {
        *whole.entry(&row.place).or_default() += row.sum.time_ns.0;
    }
    let mut untimed = Sum::default();
    rows.iter().filter(|row| !timed(row)).for_each(|row| untimed.add(&row.sum));
    let line = |place: &str, what: &str, cause: &str, sum: &Sum, share: String| {
        vec![
            place.to_string(),
            what.to_string(),
            cause.to_string(),
            sum.requests.to_string(),
            size(sum.bytes),
            sum.seeks.to_string(),
            sum.time_ns.to_string(),
            share,
        ]
    };
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .filter(timed)
        .map(|row| {
            let all = whole.get(row.place.as_str()).copied().unwrap_or(0).max(1);
            let share = format!("{:.1} %", 100.0 * row.sum.time_ns.0 as f64 / all as f64);
            let what = row.structure.map_or("unattributed", |structure| structure.name());
            line(&row.place, what, row.cause.name(), &row.sum, share)
        })
        .collect();
    if untimed.requests > 0 {
        lines.push(line("untimed", "mkfs, verification", "", &untimed, String::new()));
    }
    let head = vec!["phase", "structure", "cause", "requests", "bytes", "seeks", "time", "share"];
    Table { head, rows: lines, numbers: 3 }
}

fn size(bytes: Bytes) -> String {
    match bytes.0 {
        0 => "0".into(),
        n if n < 1 << 20 => format!("{} KiB", n >> 10),
        n => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
    }
}

/// The sums, and how much of them could be told.
fn sums(it: &Explained) -> String {
    let Some(account) = &it.account else { return String::new() };
    let all = account.sum(|_| true);
    let (requests, time) = account.attributed();
    format!(
        "All rows: {} requests, {}, {} in which the disk had a request to answer. Attributed of what is timed: \
         {:.2} % of the requests, {:.2} % of the time.",
        all.requests,
        size(all.bytes),
        all.time_ns,
        // Never rounded up to all.
        (requests * 10_000.0).floor() / 100.0,
        (time * 10_000.0).floor() / 100.0,
    )
}

/// Instructions of a phase by whose work it was.
fn executed(phase: &Phase) -> String {
    let per_op = |count: u64| count as f64 / phase.ops.max(1) as f64;
    let of = |(task, tree): (&Task, &crate::kernel::Frame)| {
        format!("{} {:.0}", task.name(), per_op(tree.whole()))
    };
    let busy = phase.executed.iter().filter(|(task, _)| **task != Task::Idle);
    format!(
        "{}: instructions an op ({} ops): {}",
        phase.name,
        phase.ops,
        busy.map(of).collect::<Vec<_>>().join(", ")
    )
}

fn functions(it: &Explained, phase: &Phase) -> Table {
    let all: u64 = phase.executed.get(&Task::Ops).map_or(0, |tree| tree.whole()).max(1);
    let rows = it
        .functions()
        .into_iter()
        .filter(|row| row.phase == phase.name && row.task == Task::Ops)
        .take(SHOWN)
        .map(|row| {
            vec![
                row.function,
                row.layer,
                format!("{:.1}", row.per_op),
                format!("{:.2}", row.calls as f64 / phase.ops.max(1) as f64),
                format!("{:.1} %", 100.0 * row.instructions as f64 / all as f64),
            ]
        });
    let head = vec!["function", "layer", "instructions an op", "calls an op", "share"];
    Table { head, rows: rows.collect(), numbers: 2 }
}

fn difference(here: &Phase, there: &Phase) -> Table {
    let rows = differences(here, there).into_iter().take(SHOWN).map(|it| {
        let more = format!("{:+.1}", it.more());
        vec![it.function, it.layer, format!("{:.1}", it.here), format!("{:.1}", it.there), more]
    });
    let head = vec!["function", "layer", "instructions an op", "of the other", "difference"];
    Table { head, rows: rows.collect(), numbers: 2 }
}

impl Table {
    fn text(&self) -> String {
        let all = || std::iter::once(self.head.iter().map(ToString::to_string).collect());
        let all: Vec<Vec<String>> = all().chain(self.rows.iter().cloned()).collect();
        let width = |column: usize| {
            all.iter().map(|row: &Vec<String>| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = String::new();
        for row in &all {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a String cannot fail.
                let _ = match column < self.numbers {
                    true => write!(line, "{cell:<width$}  "),
                    false => write!(line, "{cell:>width$}  "),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("|{}|\n", cells.map(|cell| format!(" {cell} ")).collect::<Vec<_>>().join("|"))
        };
        let mut out = line(&mut self.head.iter().map(ToString::to_string));
        let rule = |column: usize| if column < self.numbers { "---" } else { "---:" };
        out += &line(&mut (0..self.head.len()).map(|column| rule(column).to_string()));
        for row in &self.rows {
            out += &line(&mut row.iter().map(|cell| cell.replace('|', "\\|")));
        }
        out
    }
}

/// The head of the rows of [`csv`].
const COLUMNS: &str = "trial,workload,label,table,place,what,cause_or_task,layer,requests,bytes,seeks,\
    time_ns,seek_ns,instructions,calls,ops";

fn csv(it: &Explained) -> String {
    let mut out = format!("{COLUMNS}\n");
    let quoted = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    };
    let first = [&it.trial_id, &it.workload, &it.label].map(|text| quoted(text)).join(",");
    for row in it.rows() {
        let Row { place, structure, cause, sum } = row;
        let what = structure.map_or("unattributed", |structure| structure.name());
        let _ = writeln!(
            out,
            "{first},requests,{},{what},{},,{},{},{},{},{},,,",
            quoted(&place),
            cause.name(),
            sum.requests,
            sum.bytes.0,
            sum.seeks,
            sum.time_ns.0,
            sum.seek_ns.0
        );
    }
    for row in it.functions() {
        let ops = it.phases.iter().find(|phase| phase.name == row.phase).map_or(0, |it| it.ops);
        let FunctionRow { phase, task, function, layer, instructions, calls, .. } = row;
        let _ = writeln!(
            out,
            "{first},functions,{},{},{},{},,,,,,{instructions},{calls},{ops}",
            quoted(&phase),
            quoted(&function),
            task.name(),
            quoted(&layer)
        );
    }
    out
}

fn json(it: &Explained, other: Option<&Explained>) -> Value {
    let attributed = it.account.as_ref().map(|account| account.attributed());
    let mut value = json!({
        "trial_id": it.trial_id, "workload": it.workload, "label": it.label, "seed": it.seed,
        "sentences": sentences(it, other),
        "log": it.log,
        "attributed": attributed.map(|(requests, time)| json!({"requests": requests, "time": time})),
        "requests": it.rows(),
        "phases": it.phases,
        "functions": it.functions(),
        "notes": it.notes,
        "host": {"first_pass_ns": it.host_ns.0, "second_pass_ns": it.host_ns.1},
    });
    if let Some(other) = other {
        let row = |phase: &Phase, it: Difference| {
            json!({"phase": phase.name, "function": it.function, "layer": it.layer,
                   "here_per_op": it.here, "there_per_op": it.there})
        };
        let mut rows = Vec::new();
        for phase in &it.phases {
            if let Some(there) = other.phases.iter().find(|there| there.name == phase.name) {
                rows.extend(differences(phase, there).into_iter().map(|it| row(phase, it)));
            }
        }
        value["against"] = json!({"trial_id": other.trial_id, "label": other.label,
                                  "requests": other.rows(), "differences": rows});
    }
    value
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;
    use fsdyno_record::mailbox::Stage;

    use super::*;
    use crate::account::{Account, Key};
    use crate::kernel::Frame;
    use crate::map::Structure;

    fn explained() -> Explained {
        let mut account = Account::default();
        let key = |structure, cause| Key { place: (Stage::Running, 0), structure, cause };
        let sum = |requests, time| Sum {
            requests,
            bytes: Bytes(requests * 4096),
            time_ns: Nanos(time),
            ..Sum::default()
        };
        account.rows.insert(key(Some(Structure::InodeTable), Cause::Work), sum(999, 750));
        account.rows.insert(key(None, Cause::WriteBack), sum(1, 250));
        account.rows.insert(key(Some(Structure::Data), Cause::Untimed), sum(7, 0));
        let leaf = Frame { own: 300, calls: 20, layer: "ext4".into(), ..Frame::default() };
        let below = BTreeMap::from([("ext4_find_entry".to_string(), leaf)]);
        let executed = BTreeMap::from([(Task::Ops, Frame { below, ..Frame::default() })]);
        Explained {
            label: "a, b".into(),
            workload: "dirops".into(),
            trial_id: "t-1".into(),
            phases: vec![Phase { name: "unlink".into(), ops: 10, cpu_ns: Nanos(300), executed }],
            account: Some(account),
            notes: vec!["something is odd".into()],
            ..Explained::default()
        }
    }

    #[test]
    fn people_see_rows_sums_and_what_could_not_be_told() {
        let text = write(&explained(), None, Format::Text);
        assert!(text.contains("unlink   inode table         work             999"), "{text}");
        assert!(text.contains("75.0 %") && text.contains("unattributed"), "{text}");
        assert!(text.contains("untimed  mkfs, verification"), "{text}");
        assert!(text.contains("All rows: 1007 requests"), "{text}");
        assert!(text.contains("99.90 % of the requests, 75.00 % of the time"), "{text}");
        assert!(text.contains("ext4_find_entry  ext4"), "{text}");
        assert!(text.ends_with("Note: something is odd.\n"), "{text}");
        let markdown = write(&explained(), None, Format::Markdown);
        assert!(markdown.contains("| phase | structure | cause | requests |"), "{markdown}");
        assert!(
            markdown.contains("| ext4_find_entry | ext4 | 30.0 | 2.00 | 100.0 % |"),
            "{markdown}"
        );
    }

    #[test]
    fn programs_get_every_row() {
        let csv = write(&explained(), None, Format::Csv);
        let columns = |line: &str| line.replace("\"a, b\"", "").split(',').count();
        assert!(csv.lines().all(|line| columns(line) == 16), "{csv}");
        assert!(csv.contains("requests,unlink,inode table,work,,999,4091904,0,750,0,,,"), "{csv}");
        assert!(csv.contains("functions,unlink,ext4_find_entry,ops,ext4,,,,,,300,20,10"), "{csv}");
        let json: Value = serde_json::from_str(&write(&explained(), None, Format::Json)).unwrap();
        assert_eq!(json["requests"].as_array().unwrap().len(), 3);
        assert_eq!(json["requests"][0]["structure"], "inode_table");
        assert_eq!(json["functions"][0]["per_op"], 30.0);
        let other = explained();
        let json: Value =
            serde_json::from_str(&write(&explained(), Some(&other), Format::Json)).unwrap();
        assert_eq!(json["against"]["differences"], json!([]));
    }
}
