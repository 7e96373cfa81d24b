//! A comparison as an email of at most 20 lines: summary, largest changes and other differences, without hashes.

use fsdyno_stats::compare::Verdict;

use super::{Compared, Difference, Row, words};
use crate::number;
use crate::table::{Block, Column, Document, Fit, Kind, MAIL_WIDTH, Table, truncate};

/// Maximum numbers of changes and of other differences that are listed.
const MAX_CHANGES: usize = 6;
const MAX_DIFFERENCES: usize = 3;

/// Minimum number of consecutive hexadecimal digits that count as a hash.
const MIN_HASH: usize = 12;

/// Returns the email.
pub fn document(compared: &Compared) -> Document {
    let mut out = vec![Block::Paragraph(words::summary(compared))];
    let is_changed = |row: &&Row| matches!(row.verdict(), Verdict::Slower | Verdict::Faster);
    let mut changed: Vec<&Row> = compared.rows.iter().filter(is_changed).collect();
    let distance = |row: &Row| row.comparison.map_or(0.0, |comparison| comparison.ratio.ln().abs());
    changed.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    let hidden = changed.len().saturating_sub(MAX_CHANGES);
    changed.truncate(MAX_CHANGES);
    if !changed.is_empty() {
        out.push(Block::Table(table(&changed)));
    }
    let (hashes, others): (Vec<&Difference>, Vec<&Difference>) = compared
        .differences
        .iter()
        .partition(|difference| is_hash(&difference.base) || is_hash(&difference.new));
    let lines =
        others.iter().take(MAX_DIFFERENCES).map(|difference| line(&words::difference(difference)));
    out.push(Block::List("Other differences:", lines.collect()));
    let all = [
        (hidden, "further change"),
        (others.len().saturating_sub(MAX_DIFFERENCES), "further difference"),
        (hashes.len(), "other hash"),
        (compared.unmatched.len(), "unmatched cell"),
        (compared.unfinished.len(), "failed or skipped trial"),
    ];
    let counted = |(n, what): &(usize, &str)| match *what {
        "other hash" if *n > 1 => format!("{n} other hashes"),
        what => number::counted(*n, what),
    };
    let more: Vec<String> = all.iter().filter(|(n, _)| *n > 0).map(counted).collect();
    if !more.is_empty() {
        out.push(Block::Paragraph(format!("Not listed: {}; see --verbose.", more.join(", "))));
    }
    Document(out)
}

/// Truncates a text to one line of the email.
fn line(text: &str) -> String {
    truncate(text, MAIL_WIDTH - 4, "..")
}

/// Returns true if a value contains a hash, which no reader of an email compares.
fn is_hash(value: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let has_letter = |run: &str| run.contains(|c: char| c.is_ascii_alphabetic());
    let long = |run: &str| run.len() >= MIN_HASH && has_letter(run);
    value.split(|c| !is_hex(c)).any(long)
}

fn table(rows: &[&Row]) -> Table {
    let columns = vec![
        Column::words("phase", |row: &&Row| {
            truncate(&format!("{}: {}", row.phase, row.group()), 36, "..")
        }),
        Column::number("effect %", |row: &&Row| words::effect(row).replace(" %", "")),
        Column::number("95 % interval", |row: &&Row| words::interval(row).replace(" %", "")),
        Column::new(Kind::Verdict, "verdict", |row: &&Row| words::verdict(row.verdict()).into()),
    ];
    Table { fit: Fit::Tight, ..Table::of(columns, rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_a_long_run_of_hexadecimal_digits() {
        for hash in ["7d0c5b1e9a44f3c2", "sha256 of bzImage: 00ff00ff00ff"] {
            assert!(is_hash(hash), "{hash}");
        }
        for other in ["6.1.0-56-amd64 #1 SMP", "1073741824000", "none", "deadbeef", "ext4 @ facade"]
        {
            assert!(!is_hash(other), "{other}");
        }
    }
}
