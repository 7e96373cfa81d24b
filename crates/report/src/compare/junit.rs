//! A comparison as JUnit XML, which CI systems display: a test case for each cell and phase.
//!
//! A slower phase is a `failure`, a failed trial of NEW an `error`; an undecided or unmatched phase is `skipped`,
//! because it is not a pass.

use fsdyno_stats::compare::Verdict;

use super::{Compared, Row, Side, words};
use crate::markup::escape;

/// The XML; the time of a test case is the new result's time in seconds.
pub fn junit(compared: &Compared) -> String {
    let mut cases: Vec<String> = compared.rows.iter().map(case).collect();
    let (mut errors, mut skipped) =
        (0, compared.count(Verdict::Undecided) + compared.count(Verdict::WithinError));
    for item in &compared.unmatched {
        let message = words::unmatched_item(compared, item);
        cases.push(unmeasured_case("unmatched", &item.name, "skipped", &message, &message));
        skipped += 1;
    }
    for trial in &compared.unfinished {
        let value = trial.value.as_ref().map(|value| format!(", {value}")).unwrap_or_default();
        let name = format!("{}{value}, seed {}", trial.cell, trial.seed);
        let error = trial.failed && trial.side == Side::New;
        let outcome = if trial.failed { "failed" } else { "skipped" };
        let message = words::outcome(compared, trial);
        let tag = if error { "error" } else { "skipped" };
        cases.push(unmeasured_case(outcome, &name, tag, &message, &trial.reason));
        if error {
            errors += 1;
        } else {
            skipped += 1;
        }
    }
    let mut properties = String::new();
    for difference in &compared.differences {
        let (name, value) =
            (&difference.what, format!("{} -> {}", difference.base, difference.new));
        properties.push_str(&format!(
            "    <property name=\"differs: {}\" value=\"{}\"/>\n",
            escape(name),
            escape(&value)
        ));
    }
    if !properties.is_empty() {
        properties = format!("    <properties>\n{properties}    </properties>\n");
    }
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{skipped}\"",
        cases.len(),
        compared.count(Verdict::Slower)
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fsdyno compare\" {counts}>\n  \
         <testsuite name=\"fsdyno compare\" {counts}>\n{properties}{}  </testsuite>\n</testsuites>\n",
        cases.concat()
    )
}

fn case(row: &Row) -> String {
    let line = format!(
        "{} -> {}, {} (95 % interval {}), p {}, n {}",
        words::value(row, Side::Base),
        words::value(row, Side::New),
        words::effect(row),
        words::interval(row),
        words::p(row),
        words::n(row),
    );
    let explained = row.explained.as_ref().map(words::explained).unwrap_or_default();
    let parts = [line.clone(), words::marks(row), explained];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join("; ");
    let result = match row.verdict() {
        Verdict::Slower => {
            let message = escape(&format!("slower: {line}"));
            format!("<failure message=\"{message}\" type=\"slower\">{}</failure>", escape(&text))
        }
        verdict @ (Verdict::Undecided | Verdict::WithinError) => {
            let text = format!("{}: {text}", words::verdict(verdict));
            format!("<skipped message=\"{}\"/>", escape(&text))
        }
        verdict => {
            let text = format!("{}: {text}", words::verdict(verdict));
            format!("<system-out>{}</system-out>", escape(&text))
        }
    };
    let seconds = row.new.1.filter(|_| row.measure.unit() == "seconds");
    format!(
        "    <testcase classname=\"{}\" name=\"{}\"{}>{result}</testcase>\n",
        escape(&row.group()),
        escape(&row.phase),
        seconds.map_or(String::new(), |seconds| format!(" time=\"{seconds:.9}\""))
    )
}

/// The test case for an item without a row: an unmatched cell or phase, or an unfinished trial.
fn unmeasured_case(class: &str, name: &str, tag: &str, message: &str, text: &str) -> String {
    format!(
        "    <testcase classname=\"{}\" name=\"{}\"><{tag} message=\"{}\">{}</{tag}></testcase>\n",
        escape(class),
        escape(name),
        escape(message),
        escape(text)
    )
}
