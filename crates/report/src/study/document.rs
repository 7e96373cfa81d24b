//! The results of a study as a document.

use super::lines::{
    Grid, claim_facts, claim_notes, counts, grids, notes_of_table, published, subject,
};
use super::timeline::{CHANGES_MEAN, Timeline, timelines};
use super::{Claim, Judged, Variant, Verdict};
use crate::number::sanitize;
use crate::table::{Block, Column, Document, Fit, Kind, Table, Tone};

/// The counts of verdicts, then each variant: its claims, and each published table with the measured numbers.
pub fn document(judged: &Judged) -> Document {
    let judged = &judged.merged();
    let mut out = Document::default();
    out.items(counts(judged));
    let source = published(judged);
    let lead = [Some(&judged.title), Some(&judged.question), source.as_ref()];
    out.0.push(Block::Lead(lead.into_iter().flatten().map(|text| sanitize(text)).collect()));
    timelines(judged).iter().for_each(|shown| timeline(shown, &mut out));
    for variant in &judged.variants {
        out.0.push(Block::Title(subject(variant)));
        out.0.extend(variant.scale_note().map(Block::Paragraph));
        if !variant.run_claims().is_empty() {
            out.0.push(Block::Table(claims(variant)));
        }
        out.0.extend(variant.factors.iter().map(|factors| Block::Table(factors.table())));
        for table in variant.measured_tables() {
            let title = format!("{}: {} ({})", table.name, table.caption, table.source);
            let details = notes_of_table(table, variant);
            out.0.push(Block::Table(Table { details, ..grids(table).table(sanitize(&title)) }));
        }
        out.0.extend(variant.not_shown().map(Block::Paragraph));
    }
    out
}

fn timeline(timeline: &Timeline<'_>, out: &mut Document) {
    out.0.push(Block::Title(timeline.title()));
    if let Some(claims) = timeline.claims_grid() {
        let details = vec![CHANGES_MEAN.to_string()];
        out.0.push(Block::Table(Table { details, ..claims.table(String::new()) }));
    }
    let tables = timeline.tables().into_iter();
    out.0.extend(tables.map(|(title, grid)| Block::Table(grid.table(title))));
}

impl Grid {
    fn table(self, title: String) -> Table {
        let rows = self.rows.into_iter().flatten().collect();
        let fit = Fit::Blocks { labels: 2, indent: 2 };
        Table { title, fit, ..Table::grid(self.heads, 2, rows) }
    }
}

/// The claims whose study runs have trials, each with its verdict and the reason for it.
fn claims(variant: &Variant) -> Table {
    let facts = |claim: &&Claim| {
        let facts = claim_facts(claim).into_iter().map(|(name, value)| format!("{name} {value}"));
        facts.collect::<Vec<_>>().join(", ")
    };
    let columns = vec![
        Column::words("claim", |claim: &&Claim| sanitize(&claim.id)),
        Column::words("statement", |claim: &&Claim| sanitize(&claim.text)),
        Column::new(Kind::Verdict, "verdict", |claim: &&Claim| claim.verdict_text()),
        Column::new(Kind::Detail, "check", |claim: &&Claim| {
            sanitize(claim.check.as_deref().unwrap_or_default())
        }),
        Column::words("numbers", facts),
        Column::words("why", |claim: &&Claim| {
            format!("{}\n{}", sanitize(&claim.why), claim_notes(claim).join(" ")).trim_end().into()
        }),
    ];
    let claims = variant.run_claims();
    let mut table = Table::of(columns, &claims);
    table.rows.iter_mut().zip(claims).for_each(|(row, claim)| row.tone = tone(claim));
    Table { fit: Fit::Records, ..table }
}

fn tone(claim: &Claim) -> Tone {
    match claim.verdict {
        // The verdict of a different experiment must not look like the study's.
        _ if !claim.is_full() => Tone::Faint,
        Verdict::Reproduced | Verdict::StillHolds => Tone::Good,
        Verdict::NoLongerHolds | Verdict::Reversed => Tone::Bad,
        Verdict::Undecided => Tone::Doubtful,
        Verdict::NotTestable | Verdict::NotRun => Tone::Faint,
    }
}
