//! The results of a study as Markdown, for an issue tracker or a page of docs.

use super::lines::{Grid, claim_facts, claim_notes, counts, grids, notes_of_table, subject};
use super::timeline::{CHANGES_MEAN, timelines};
use super::{Judged, Verdict};
use crate::markdown::escape;
use crate::number::clean;

/// The counts, then each variant: its claims in one table, and each published table with the measured numbers.
pub fn markdown(judged: &Judged) -> String {
    let mut out = String::new();
    for line in counts(judged) {
        out.push_str(&format!("- {}\n", escape(&line)));
    }
    let [title, question, source] =
        [&judged.title, &judged.question, &judged.source].map(|text| escape(&clean(text)));
    out.push_str(&format!("\n**{title}** {question}\n\nPublished: {source}\n"));
    for timeline in timelines(judged) {
        out.push_str(&format!("\n### {}\n", escape(&timeline.title())));
        if let Some(claims) = timeline.claims_grid() {
            out.push_str(&format!("\n{}\n{}\n", pipes(&claims), escape(CHANGES_MEAN)));
        }
        for (title, grid) in timeline.tables() {
            out.push_str(&format!("\n**{}**\n\n{}", escape(&title), pipes(&grid)));
        }
    }
    for variant in &judged.variants {
        out.push_str(&format!("\n### {}\n", escape(&subject(variant))));
        if !variant.claims.is_empty() {
            out.push_str(
                "\n| claim | | verdict | numbers | why |\n| --- | --- | --- | --- | --- |\n",
            );
        }
        for claim in &variant.claims {
            let facts =
                claim_facts(claim).into_iter().map(|(name, value)| format!("{name} {value}"));
            let facts: Vec<String> = facts.collect();
            let word = claim.verdict_text();
            let turned = matches!(claim.verdict, Verdict::NoLongerHolds | Verdict::Reversed);
            let verdict = if turned && claim.is_full() { format!("**{word}**") } else { word };
            let why: Vec<String> =
                std::iter::once(claim.why.clone()).chain(claim_notes(claim)).collect();
            let [id, text, facts, why] =
                [claim.id.clone(), claim.text.clone(), facts.join(", "), why.join(" ")]
                    .map(|text| escape(&clean(&text)));
            out.push_str(&format!("| {id} | {text} | {verdict} | {facts} | {why} |\n"));
        }
        for table in &variant.tables {
            let [name, caption, source] =
                [&table.name, &table.caption, &table.source].map(|text| escape(&clean(text)));
            out.push_str(&format!("\n**{name}**: {caption} ({source})\n\n"));
            out.push_str(&pipes(&grids(table)));
            out.push('\n');
            for note in notes_of_table(table, variant) {
                out.push_str(&format!("- {}\n", escape(note.trim_start_matches("- "))));
            }
        }
    }
    out
}

/// A grid as a pipe table.
fn pipes(grid: &Grid) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: Vec<&str> =
        (0..grid.heads.len()).map(|at| if at < 2 { "---" } else { "---:" }).collect();
    let mut out = format!("{}| {} |\n", line(&grid.heads), rule.join(" | "));
    grid.rows.iter().flatten().for_each(|cells| out.push_str(&line(cells)));
    out
}
