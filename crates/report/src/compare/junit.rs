//! A comparison as JUnit XML, which CI systems display: a test case for each cell and phase.
//!
//! A slower phase is a `failure`, a failed trial of NEW an `error`; an undecided or unmatched phase is `skipped`,
//! because it is not a pass, or a `failure` if [`FailOn::Undecided`](super::FailOn::Undecided) is requested.

use fsdyno_stats::compare::Verdict;

use super::{Compared, FailOn, Row, Side, words};
use crate::markup::escape;

/// The XML; the time of a test case is the new result's time in seconds.
pub fn junit(compared: &Compared) -> String {
    let fail_on = compared.fail_on;
    let mut cases: Vec<String> = compared.rows.iter().map(|row| case(row, fail_on)).collect();
    let mut failures = compared.rows.iter().filter(|row| fail_on.of_row(row).is_some()).count();
    let is_open = |row: &&Row| matches!(row.verdict(), Verdict::Undecided | Verdict::WithinError);
    let is_skipped = |row: &&Row| is_open(row) && fail_on.of_row(row).is_none();
    let (mut errors, mut skipped) = (0, compared.rows.iter().filter(is_skipped).count());
    for item in &compared.unmatched {
        let message = words::unmatched_item(compared, item);
        let (tag, count) = match fail_on.is_failure(item) {
            true => ("failure", &mut failures),
            false => ("skipped", &mut skipped),
        };
        *count += 1;
        cases.push(unmeasured_case("unmatched", &item.name, tag, &message, &message));
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
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"",
        cases.len(),
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fsdyno compare\" {counts}>\n  \
         <testsuite name=\"fsdyno compare\" {counts}>\n{properties}{}  </testsuite>\n</testsuites>\n",
        cases.concat()
    )
}

fn case(row: &Row, fail_on: FailOn) -> String {
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
    let result = match (row.verdict(), fail_on.of_row(row)) {
        (verdict, Some(failure)) => {
            let message = escape(&format!("{}: {line}", words::verdict(verdict)));
            let text = escape(&text);
            format!("<failure message=\"{message}\" type=\"{failure}\">{text}</failure>")
        }
        (verdict @ (Verdict::Undecided | Verdict::WithinError), None) => {
            let text = format!("{}: {text}", words::verdict(verdict));
            format!("<skipped message=\"{}\"/>", escape(&text))
        }
        (verdict, None) => {
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
