//! The section of a study, at the front of the page: claims with their verdicts, and each published table
//! beside the measured one.

use minijinja::{Environment, context};
use serde::Serialize;

use super::room;
use crate::error::ReportError;
use crate::number::clean;
use crate::study::{
    Claim, Judged, Table, Variant, Verdict, claim_facts, count, grids, notes_of_table, subject,
};

/// What only this section needs of style.
pub const STYLE: &str = include_str!("study.css");

/// The section in HTML, all foreign text escaped.
pub fn section(judged: &Judged, environment: &mut Environment<'_>) -> Result<String, ReportError> {
    environment.add_template("study", include_str!("study.html"))?;
    let found = |verdict: &Verdict| {
        judged.variants.iter().flat_map(|v| &v.claims).any(|claim| claim.verdict == *verdict)
    };
    let meanings: Vec<(Word, &str)> =
        Verdict::ALL.into_iter().filter(found).map(|v| (Word::of(v), v.meaning())).collect();
    Ok(environment.get_template("study")?.render(context! {
        question => clean(&judged.question),
        source => clean(&judged.source),
        variants => judged.variants.iter().map(Shown::of).collect::<Vec<_>>(),
        meanings,
    })?)
}

/// A verdict as it is shown: a sign and a word, and a class for the colour that only repeats them.
#[derive(Serialize)]
struct Word {
    class: &'static str,
    sign: &'static str,
    text: &'static str,
}

impl Word {
    fn of(verdict: Verdict) -> Word {
        let (class, sign) = match verdict {
            Verdict::Reproduced | Verdict::StillHolds => ("holds", "✓"),
            Verdict::NoLongerHolds => ("fails", "✗"),
            Verdict::Reversed => ("turned", "⇄"),
            Verdict::Undecided => ("open", "~"),
            Verdict::NotTestable => ("untested", "–"),
        };
        Word { class, sign, text: verdict.word() }
    }
}

#[derive(Serialize)]
struct Shown {
    subject: String,
    count: String,
    claims: Vec<ShownClaim>,
    tables: Vec<ShownTable>,
}

impl Shown {
    fn of(variant: &Variant) -> Shown {
        Shown {
            subject: subject(variant),
            count: count(variant),
            claims: variant.claims.iter().map(ShownClaim::of).collect(),
            tables: variant.tables.iter().map(|table| ShownTable::of(table, variant)).collect(),
        }
    }
}

#[derive(Serialize)]
struct ShownClaim {
    id: String,
    text: String,
    verdict: Word,
    /// Measured, 95 % interval, n, published.
    numbers: [String; 4],
    lines: Vec<String>,
}

impl ShownClaim {
    fn of(claim: &Claim) -> ShownClaim {
        let facts = claim_facts(claim);
        let fact = |wanted: &str| {
            let found = facts.iter().find(|(name, _)| *name == wanted);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let lines = claim.check.iter().chain([&claim.why]).chain(&claim.notes);
        ShownClaim {
            id: clean(&claim.id),
            text: room::text(clean(&claim.text)),
            verdict: Word::of(claim.verdict),
            numbers: ["measured", "95 % interval", "n", "published"].map(fact),
            lines: lines.map(|line| room::text(clean(line))).collect(),
        }
    }
}

#[derive(Serialize)]
struct ShownTable {
    name: String,
    caption: String,
    source: String,
    heads: Vec<String>,
    rows: Vec<Vec<Vec<String>>>,
    notes: Vec<String>,
}

impl ShownTable {
    fn of(table: &Table, variant: &Variant) -> ShownTable {
        let grid = grids(table);
        ShownTable {
            name: clean(&table.name),
            caption: clean(&table.caption),
            source: clean(&table.source),
            heads: grid.heads.into_iter().skip(2).collect(),
            rows: grid.rows,
            notes: room::lines(notes_of_table(table, variant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::study::sample;
    use crate::{fixture, page};

    #[test]
    fn verdicts_stand_in_front_of_all_charts_with_a_sign_and_a_word() {
        let html = page::study_page(&sample::judged(), &fixture::trials(), &[], None).unwrap();
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is not there"));
        assert!(
            at("id=\"study\"") < at("id=\"overview\"") && at("id=\"overview\"") < at("id=\"s0\"")
        );
        for word in [
            "✓ still holds",
            "✗ no longer holds",
            "⇄ reversed",
            "~ undecided",
            "– not testable here",
        ] {
            at(word);
        }
        assert!(at("as then: 6 claims: ") < at("id=\"study\""), "the counts are the first lines");
        assert!(html.contains("<title>ext3 or ext4 for unlink? | fsdyno</title>"));
    }

    #[test]
    fn hostile_text_of_a_study_is_shown_and_not_obeyed() {
        let hostile = "<script>alert(1)</script>";
        let mut judged = sample::judged();
        judged.title.push_str(hostile);
        judged.question.push_str(hostile);
        judged.source.push_str(hostile);
        for variant in &mut judged.variants {
            variant.name.push_str(hostile);
            variant.claims.iter_mut().for_each(|claim| {
                claim.text.push_str(hostile);
                claim.why.push_str(hostile);
            });
            variant.tables.iter_mut().for_each(|table| {
                table.caption.push_str(hostile);
                table.rows.iter_mut().for_each(|row| row.label.push_str(hostile));
            });
        }
        let html = page::study_page(&judged, &fixture::trials(), &[], None).unwrap();
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
    }

    #[test]
    fn the_tables_of_a_study_can_be_heard() {
        let html = page::study_page(&sample::judged(), &fixture::trials(), &[], None).unwrap();
        assert_eq!(html.matches("<table>").count(), html.matches("<caption>").count());
        assert_eq!(
            html.matches("<th").count() - html.matches("<thead").count(),
            html.matches("scope=").count()
        );
    }
}
