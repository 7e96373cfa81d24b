//! The section of a study, at the front of the page: claims with their verdicts, and each published table
//! with the measured one.

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::figure::Figure;
use super::part::grid;
use super::why::View;
use super::{budget, factors, published as pairs};
use crate::crash;
use crate::error::ReportError;
use crate::number::sanitize;
use crate::study::Table as Published;
use crate::study::{
    CHANGES_MEAN, Claim, Factors, Judged, Timeline, Variant, Verdict, changes, claim_facts,
    claim_notes, count, digits, grids, notes_of_table, published, subject, timelines,
};
use crate::table::Table;

/// The style that only this section needs.
pub const STYLE: &str = include_str!("study.css");

/// The section in HTML, all untrusted text escaped.
pub fn section(
    judged: &Judged,
    leads: Leads,
    environment: &mut Environment<'_>,
) -> Result<String, ReportError> {
    environment.add_template("study", include_str!("study.html"))?;
    let found = |verdict: &Verdict| {
        judged.variants.iter().flat_map(|v| &v.claims).any(|claim| claim.verdict == *verdict)
    };
    let meanings: Vec<(VerdictView, &str)> =
        Verdict::ALL.into_iter().filter(found).map(|v| (VerdictView::of(v), v.meaning())).collect();
    Ok(environment.get_template("study")?.render(context! {
        question => sanitize(&judged.question),
        source => published(judged).map(|source| sanitize(&source)),
        timelines => timelines(judged).iter().map(TimelineView::of).collect::<Vec<_>>(),
        changes_mean => CHANGES_MEAN,
        variants => judged.variants.iter().enumerate().map(VariantView::of).collect::<Vec<_>>(),
        leads,
        meanings,
    })?)
}

/// Links to the sections on explanations and on the cost of power cuts.
#[derive(Default, Serialize)]
pub struct Leads {
    /// Anchor, title and first sentence of each explanation.
    why: Vec<[String; 3]>,
    /// The cost of power cuts, in sentences.
    cost: Vec<String>,
    /// The anchor of the section that shows it, if the page has space for it.
    cost_at: Option<String>,
}

impl Leads {
    /// Links to explained trials, and to power cuts with their anchor.
    pub fn of(explained: &[View], crashed: &[fsdyno_crash::Row], cost_at: Option<String>) -> Leads {
        let lead = |view: &View| {
            let (id, title, sentence) = view.lead();
            [id, title, sentence.unwrap_or_default()].map(String::from)
        };
        Leads {
            why: explained.iter().map(lead).collect(),
            cost: budget::lines(crash::sentences(&crash::with_unique_names(crashed))),
            cost_at,
        }
    }
}

/// A verdict as it is displayed: a sign, a word, and a class whose colour only repeats them.
#[derive(Serialize)]
struct VerdictView {
    class: &'static str,
    sign: &'static str,
    text: String,
}

impl VerdictView {
    /// The display of a claim's verdict: muted if the experiment differs from the study's.
    fn of_claim(claim: &Claim) -> VerdictView {
        let word = VerdictView::of(claim.verdict);
        let class = if claim.is_full() { word.class } else { "scaled" };
        VerdictView { class, text: claim.verdict_text(), ..word }
    }

    fn of(verdict: Verdict) -> VerdictView {
        let (class, sign) = match verdict {
            Verdict::Reproduced | Verdict::StillHolds => ("holds", "✓"),
            Verdict::NoLongerHolds => ("fails", "✗"),
            Verdict::Reversed => ("turned", "⇄"),
            Verdict::Undecided => ("open", "~"),
            Verdict::NotTestable | Verdict::NotRun => ("untested", "–"),
        };
        VerdictView { class, sign, text: verdict.word().into() }
    }
}

/// The results on several kernels, in one table.
#[derive(Serialize)]
struct TimelineView {
    title: String,
    kernels: Vec<String>,
    claims: Vec<ClaimStates>,
    tables: Vec<(String, Vec<Vec<Vec<String>>>)>,
}

/// A claim on all kernels.
#[derive(Serialize)]
struct ClaimStates {
    id: String,
    text: String,
    changes: bool,
    /// The verdict, the measured number and the reason on each kernel.
    at: Vec<(VerdictView, String, String)>,
}

impl TimelineView {
    fn of(timeline: &Timeline<'_>) -> TimelineView {
        let point = |claim: &&Claim| {
            let value = claim.measured.map_or_else(String::new, |number| digits(number.value));
            (VerdictView::of_claim(claim), value, budget::text(sanitize(&claim.why)))
        };
        let claims = timeline.claims().into_iter().map(|(claim, states)| ClaimStates {
            id: sanitize(&claim.id),
            text: budget::text(sanitize(&claim.text)),
            changes: changes(&states),
            at: states.iter().map(point).collect(),
        });
        TimelineView {
            title: timeline.title(),
            kernels: timeline.kernels(),
            claims: claims.collect(),
            tables: timeline.tables().into_iter().map(|(title, grid)| (title, grid.rows)).collect(),
        }
    }
}

#[derive(Serialize)]
struct VariantView {
    subject: String,
    count: String,
    claims: Vec<ClaimView>,
    /// The chart of published and measured numbers, or `None` if no claim has both.
    pairs: Option<PairsView>,
    /// The drawing of the tables of factors.
    picture: Option<Value>,
    factors: Vec<FactorsView>,
    tables: Vec<TableView>,
    /// The subject of verdicts at a reduced scale.
    scale: Option<String>,
    /// The number of claims and tables that are not shown.
    not_shown: Option<String>,
}

/// A table of factors.
#[derive(Serialize)]
struct FactorsView {
    title: String,
    table: Value,
    notes: Vec<String>,
}

impl FactorsView {
    fn of(factors: &Factors) -> FactorsView {
        let caption = "Each row over the best of its column".to_string();
        let table = Table { title: String::new(), caption, details: Vec::new(), ..factors.table() };
        FactorsView {
            title: factors.title(),
            table: grid(&table),
            notes: budget::lines(factors.notes()),
        }
    }
}

/// The chart of published and measured numbers.
#[derive(Serialize)]
struct PairsView {
    title: String,
    note: String,
    chart: Value,
    table: Value,
}

impl PairsView {
    fn of(figure: Figure, index: usize) -> PairsView {
        PairsView {
            chart: Value::from_safe_string(figure.chart.inline(&format!("published-{index}"))),
            table: grid(&figure.table),
            title: figure.title,
            note: figure.note,
        }
    }
}

impl VariantView {
    fn of((index, variant): (usize, &Variant)) -> VariantView {
        let picture = factors::chart(&variant.factors);
        VariantView {
            subject: subject(variant),
            count: count(variant),
            claims: variant.run_claims().into_iter().map(ClaimView::of).collect(),
            pairs: pairs::figure(variant).map(|figure| PairsView::of(figure, index)),
            picture: picture
                .map(|figure| Value::from_safe_string(figure.inline(&format!("factors-{index}")))),
            factors: variant.factors.iter().map(FactorsView::of).collect(),
            tables: variant
                .measured_tables()
                .into_iter()
                .map(|table| TableView::of(table, variant))
                .collect(),
            scale: variant.scale_note(),
            not_shown: variant.not_shown(),
        }
    }
}

#[derive(Serialize)]
struct ClaimView {
    id: String,
    text: String,
    verdict: VerdictView,
    /// Measured, 95 % interval, n, published.
    numbers: [String; 4],
    lines: Vec<String>,
}

impl ClaimView {
    fn of(claim: &Claim) -> ClaimView {
        let facts = claim_facts(claim);
        let fact = |key: &str| {
            let found = facts.iter().find(|(name, _)| *name == key);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let notes = claim_notes(claim);
        let lines = claim.check.iter().chain([&claim.why]).chain(&notes);
        ClaimView {
            id: sanitize(&claim.id),
            text: budget::text(sanitize(&claim.text)),
            verdict: VerdictView::of_claim(claim),
            numbers: ["measured", "95 % interval", "n", "published"].map(fact),
            lines: lines.map(|line| budget::text(sanitize(line))).collect(),
        }
    }
}

#[derive(Serialize)]
struct TableView {
    name: String,
    caption: String,
    source: String,
    heads: Vec<String>,
    rows: Vec<Vec<Vec<String>>>,
    notes: Vec<String>,
}

impl TableView {
    fn of(table: &Published, variant: &Variant) -> TableView {
        let grid = grids(table);
        TableView {
            name: sanitize(&table.name),
            caption: sanitize(&table.caption),
            source: sanitize(&table.source),
            heads: grid.heads.into_iter().skip(2).collect(),
            rows: grid.rows,
            notes: budget::lines(notes_of_table(table, variant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::study::{Extras, sample};
    use crate::{fixture, page};

    #[test]
    fn verdicts_precede_all_charts_with_a_sign_and_a_word() {
        let html = page::study_page(&sample::judged(), &fixture::trials(), Extras::default(), None)
            .unwrap();
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(
            position("id=\"study\"") < position("id=\"overview\"")
                && position("id=\"overview\"") < position("id=\"s0\"")
        );
        for word in [
            "✓ still holds",
            "✗ no longer holds",
            "⇄ reversed",
            "~ undecided",
            "– not testable here",
        ] {
            position(word);
        }
        assert!(
            position("as then: 6 claims: ") < position("id=\"study\""),
            "the counts are the first lines"
        );
        assert!(html.contains("<title>ext3 or ext4 for unlink? | fsdyno</title>"));
    }

    #[test]
    fn hostile_text_of_a_study_is_escaped() {
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
        let html = page::study_page(&judged, &fixture::trials(), Extras::default(), None).unwrap();
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
    }

    #[test]
    fn an_unpublished_study_has_its_factors_as_a_picture_and_as_tables() {
        let html =
            page::study_page(&sample::factors(), &fixture::trials(), Extras::default(), None)
                .unwrap();
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(position("id=\"factors-0-t\"") < position("all: 10,000 files in one directory"));
        assert!(position("dirops: 10,000 files in one directory") < position("id=\"overview\""));
        position("446 ms");
        position("TOO SHORT: xfs");
        assert!(!html.contains("Published:") && html.contains("1 table of factors, no claims"));
    }

    #[test]
    fn the_cost_of_power_cuts_links_only_to_an_existing_section() {
        let crashed = crate::crash_fixture::crashed();
        let section = |cost_at: Option<&str>| {
            let leads = super::Leads::of(&[], &crashed, cost_at.map(String::from));
            super::section(&sample::judged(), leads, &mut super::Environment::new()).unwrap()
        };
        let (linked, plain) = (section(Some("crash")), section(None));
        assert!(linked.contains("<a href=\"#crash\">What a power cut costs</a>"), "{linked}");
        assert!(plain.contains("What a power cut costs") && !plain.contains("#crash"), "{plain}");
    }

    #[test]
    fn a_timeline_has_a_table_of_all_kernels_before_the_tables_of_each_kernel() {
        let judged = sample::on_kernels();
        let html = page::study_page(&judged, &fixture::trials(), Extras::default(), None).unwrap();
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        let own = "as then, kernel 5.10.0-32-amd64</h";
        assert!(position("as then, kernel by kernel") < position(own));
        let head = "<th scope=\"col\" class=\"left\">5.10.0-32-amd64</th>\
                    <th scope=\"col\" class=\"left\">6.12.38-amd64</th>";
        assert!(position(head) < position("<td>402.1 ±1.0 %</td><td>300 ±1.0 %</td>"));
        assert!(!html.contains("as today, kernel by kernel"));
    }

    #[test]
    fn the_tables_of_a_study_are_accessible() {
        let html =
            page::study_page(&sample::on_kernels(), &fixture::trials(), Extras::default(), None)
                .unwrap();
        assert_eq!(html.matches("<table>").count(), html.matches("<caption>").count());
        assert_eq!(
            html.matches("<th").count() - html.matches("<thead").count(),
            html.matches("scope=").count()
        );
    }
}
