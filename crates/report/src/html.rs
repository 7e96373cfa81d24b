//! The page: one self-contained report.html with every number, chart and condition.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Device, Gap, Outcome, Phase};
use fsdyno_record::{Bytes, Nanos, Trial};
use fsdyno_stats::Summary;
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use crate::colour::Looks;
use crate::columns::{columns, moved};
use crate::curve::{self, Curve};
use crate::error::ReportError;
use crate::view::{self, Row, Section};
use crate::{
    answer, books, calls, command, described, disks, instrument, legend, number, promise, subject,
    svg,
};

/// The page, with ratios to the label of the baseline or to the best. It needs no network, no
/// script and no font of its own; all foreign text is escaped.
///
/// # Errors
/// Only [`ReportError::Template`], for a fault in the page's own template.
pub fn html(trials: &[Trial], baseline: Option<&str>) -> Result<String, ReportError> {
    let sections = view::sections(trials, baseline);
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_template("report", include_str!("report.html"))?;
    let curves = curve::curves(trials);
    let on_curves =
        || curves.iter().flat_map(|c| &c.lines).flat_map(|line| line.rows.iter().flatten());
    let rows = || {
        sections
            .iter()
            .flat_map(|section| section.rows.iter().map(|row| (section.workload.as_str(), row)))
    };
    let points = || on_curves().map(|place| (place.workload.as_str(), &place.row));
    let looks = Looks::of(rows().chain(points()).map(|(_, row)| row));
    let page = environment.get_template("report")?.render(context! {
        title => title(rows().chain(on_curves().map(|place| (place.of.as_str(), &place.row)))),
        style => Value::from_safe_string(include_str!("report.css").into()),
        version => trials.first().map(|t| t.version.as_str()),
        compared => compared(trials, &sections, &curves),
        broken => promise::broken(trials),
        answer => answers(&sections, &curves, baseline),
        subject => subject::lines(trials),
        sections => sections.iter().enumerate().map(|of| section(of, &looks)).collect::<Vec<_>>(),
        curves => curves.iter().enumerate().map(|of| curve_view(of, &looks)).collect::<Vec<_>>(),
        legend => meanings(&sections),
        flags => view::flags(&sections, &curves).iter().map(|f| [f.name(), f.meaning()]).collect::<Vec<_>>(),
        instrument => instrument::view(&sections),
        gaps => gaps(&sections),
        unfinished => unfinished(trials),
        conditions => conditions(rows().chain(points())),
        labs => labs(trials),
        command => command::of(trials, baseline),
    })?;
    Ok(page)
}

/// What the columns mean, those of the page's own among them.
fn meanings(sections: &[Section<'_>]) -> Vec<(String, String)> {
    let tables: Vec<_> = sections.iter().map(columns).collect();
    let heads: Vec<&str> = tables.iter().flatten().map(|column| column.head.as_str()).collect();
    let mut entries = legend::legend(sections, &heads);
    if !entries.is_empty() {
        let own = |name: &str, meaning: &str| (name.to_string(), meaning.to_string());
        entries
            .insert(1, own("synced", "until syncfs(2) came back, which writes out what is dirty"));
    }
    entries
}

/// `dirops and tarball: ext4, xfs`.
fn title<'r, 't: 'r>(rows: impl Iterator<Item = (&'r str, &'r Row<'t>)>) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (workload, row) in rows {
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    if names.is_empty() {
        return "No trial succeeded".into();
    }
    format!("{} on {}", workloads.join(" and "), names.join(", "))
}

/// What was compared, in a sentence.
fn compared(trials: &[Trial], sections: &[Section<'_>], curves: &[Curve<'_>]) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let count = |outcome| trials.iter().filter(|t| t.outcome == outcome).count();
    let (ok, skipped) = (count(Outcome::Ok), count(Outcome::Skipped));
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    let rows = sections.iter().map(|s| s.rows.len()).chain(curves.iter().map(|c| c.lines.len()));
    let rows = rows.max().unwrap_or(0);
    let phases = plural(sections.len() + curves.len(), "phase");
    format!(
        "{} of {} succeeded{skipped}: {} in {phases}, on {}.",
        ok,
        plural(trials.len(), "trial"),
        plural(rows, "file system"),
        subject::media(trials).join(" and ")
    )
}

#[derive(Serialize)]
struct SectionView {
    id: String,
    title: String,
    head: String,
    versus: String,
    latency_of: Option<&'static str>,
    calls: Vec<Vec<String>>,
    chart: Value,
    rows: Vec<RowView>,
    books: Vec<String>,
    device: bool,
    moved: bool,
    space: bool,
    repeated: bool,
}

/// Who wins, and how times grow.
fn answers(sections: &[Section<'_>], curves: &[Curve<'_>], baseline: Option<&str>) -> Vec<String> {
    let mut sentences = Vec::new();
    if !sections.is_empty() {
        sentences.extend(answer::sentences(sections, baseline));
    }
    sentences.extend(curves.iter().filter_map(curve::answer));
    sentences
}

#[derive(Serialize)]
struct CurveView {
    id: String,
    title: String,
    chart: Value,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    sentences: Vec<String>,
}

fn curve_view((index, curve): (usize, &Curve<'_>), looks: &Looks) -> CurveView {
    let id = format!("c{index}");
    let (heads, rows) = curve::table(curve);
    CurveView {
        title: format!("{} by number of files", curve.title),
        chart: Value::from_safe_string(svg::curve(curve, looks, &id)),
        heads,
        rows,
        sentences: curve::sentences(curve),
        id,
    }
}

#[derive(Serialize)]
struct RowView {
    name: String,
    colour: &'static str,
    hatch: usize,
    n: usize,
    best: bool,
    returned: String,
    returned_spread: String,
    synced: String,
    durable: String,
    durable_spread: String,
    cpu: String,
    kernel_cpu: String,
    rate: String,
    moved: String,
    ratio: String,
    flags: Vec<&'static str>,
    latency: Vec<String>,
    device: Vec<String>,
    used: String,
}

fn section((index, section): (usize, &Section<'_>), looks: &Looks) -> SectionView {
    let id = format!("s{index}");
    SectionView {
        title: section.title(),
        head: section.rate_head(),
        versus: section.ratio_head(),
        latency_of: section.latency_op.map(|op| op.name()),
        calls: section.rows.iter().flat_map(calls_view).collect(),
        chart: Value::from_safe_string(svg::bars(section, looks, &id)),
        device: section.rows.iter().flat_map(|r| &r.trials).any(|(_, p)| p.device.is_some()),
        repeated: section.rows.iter().any(|row| row.returned.n > 1),
        space: section.rows.iter().any(|row| used(row).is_some()),
        moved: section.rows.iter().any(|row| moved(row).is_some()),
        rows: section.rows.iter().map(|row| row_view(row, looks)).collect(),
        books: books::lines(section)
            .into_iter()
            .chain(disks::lines(section))
            .chain(described::lines(section))
            .collect(),
        id,
    }
}

/// File system, call, how many, share of the time, p50, p99, longest.
fn calls_view(row: &Row<'_>) -> Vec<Vec<String>> {
    let line = |calls: calls::Calls| {
        vec![
            row.name.clone(),
            calls.kind.to_string(),
            number::count(calls.count),
            number::percent(calls.share),
            calls.p50.to_string(),
            calls.p99.to_string(),
            calls.max.to_string(),
        ]
    };
    calls::of(row).into_iter().map(line).collect()
}

fn row_view(row: &Row<'_>, looks: &Looks) -> RowView {
    let mean = |summary: &Summary| number::seconds(summary.mean);
    let spread = |summary: &Summary| {
        summary
            .relative_half_width()
            .map_or(String::new(), |half| format!("± {}", number::percent(half)))
    };
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let kernel =
        |phase: &Phase| Some(phase.kernel_cpu_ns.values().map(|ns| ns.seconds()).sum::<f64>());
    let latency = [50.0, 90.0, 99.0, 99.9, 100.0]
        .map(|p| dash(row.latency.as_ref().map(|h| Nanos(h.percentile(p)).to_string())));
    let look = looks.get(row);
    RowView {
        name: row.name.clone(),
        colour: look.colour,
        hatch: look.hatch,
        n: row.returned.n,
        best: row.best,
        returned: mean(&row.returned),
        returned_spread: spread(&row.returned),
        synced: dash(row.mean(|phase| phase.synced_ns.map(Nanos::seconds)).map(number::seconds)),
        durable: dash(row.durable.as_ref().map(mean)),
        durable_spread: row.durable.as_ref().map(spread).unwrap_or_default(),
        cpu: mean(&row.cpu),
        kernel_cpu: dash(row.mean(kernel).map(number::seconds)),
        rate: dash(row.rate.map(|rate| number::short(rate.mean))),
        moved: dash(moved(row)),
        ratio: dash(row.ratio.map(number::ratio)),
        flags: row.flags.iter().map(|flag| flag.name()).collect(),
        latency: latency.into(),
        device: device(row),
        used: dash(used(row).map(|bytes| bytes.to_string())),
    }
}

/// Space in use at the end of the phase; none for a directory, where it is that of a whole file
/// system with all that others keep there.
fn used(row: &Row<'_>) -> Option<Bytes> {
    let own = row.trials.iter().all(|(trial, _)| trial.plan.filesystem.is_some());
    let mean = row.mean(|phase| Some(phase.space_used.0 as f64));
    mean.filter(|_| own).map(|bytes| Bytes(bytes as u64))
}

/// Reads, writes, flushes, bytes read, bytes written, seeks: means over the seeds.
fn device(row: &Row<'_>) -> Vec<String> {
    let mean = |of: &dyn Fn(&Device) -> Option<u64>| {
        row.mean(|phase| phase.device.as_ref().and_then(of).map(|n| n as f64))
    };
    let count = |value: Option<f64>| value.map_or("–".into(), |n| number::count(n.round() as u64));
    let bytes = |value: Option<f64>| value.map_or("–".into(), |n| Bytes(n as u64).to_string());
    vec![
        count(mean(&|d| Some(d.reads))),
        count(mean(&|d| Some(d.writes))),
        count(mean(&|d| Some(d.flushes))),
        bytes(mean(&|d| Some(d.bytes_read.0))),
        bytes(mean(&|d| Some(d.bytes_written.0))),
        count(mean(&|d| d.seeks)),
    ]
}

/// Workload, row, the phase that follows, what was wanted and done, and how long it took.
fn gaps(sections: &[Section<'_>]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for section in sections {
        for row in &section.rows {
            let mut times: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
            for (trial, phase) in &row.trials {
                let phases = &trial.measured.phases;
                let last = phases.last().is_some_and(|p| p.name == phase.name);
                // Where nothing was wanted and nothing done, there is nothing to pay.
                let idle = |gap: &&Gap| gap.wanted == "none" && gap.done == "none";
                for gap in trial.measured.gaps.iter().filter(|gap| !idle(gap)) {
                    if gap.before == phase.name || (last && gap.before.is_empty()) {
                        let key = (gap.before.as_str(), gap.done.as_str());
                        times.entry(key).or_default().push(gap.elapsed_ns.seconds());
                        // What could not be done as wanted is said in the conditions' notes too.
                    }
                }
            }
            for ((before, done), times) in times.into_iter().rev() {
                let Some(mean) = Summary::of(&times).map(|summary| summary.mean) else { continue };
                let place = match before {
                    "" => "after the last phase".to_string(),
                    name => format!("before {name}"),
                };
                let workload = section.workload.clone();
                lines.push(vec![
                    workload,
                    row.name.clone(),
                    place,
                    done.into(),
                    number::seconds(mean),
                ]);
            }
        }
    }
    lines
}

fn unfinished(trials: &[Trial]) -> Vec<[String; 3]> {
    view::unfinished(trials).into_iter().map(|t| [t.outcome.into(), t.what, t.reason]).collect()
}

#[derive(Serialize)]
struct ConditionsView {
    name: String,
    seed: u64,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    trials: Vec<[String; 4]>,
}

/// One block for each plan: what its first seed found in effect, and the list of its seeds.
fn conditions<'r, 't: 'r>(
    rows: impl Iterator<Item = (&'r str, &'r Row<'t>)>,
) -> Vec<ConditionsView> {
    let mut seen: Vec<(&str, Option<&str>, &str)> = Vec::new();
    let mut blocks = Vec::new();
    for (workload, row) in rows {
        let Some((trial, _)) = row.trials.first() else { continue };
        let key = (trial.plan.hash.as_str(), trial.lab_id.as_deref(), row.name.as_str());
        if !seen.contains(&key) {
            seen.push(key);
            blocks.push(block(workload, row, trial));
        }
    }
    blocks
}

fn block(workload: &str, row: &Row<'_>, trial: &Trial) -> ConditionsView {
    let trials = row.trials.iter().map(|(trial, _)| {
        let host = &trial.host;
        let id = trial.trial_id.clone();
        [trial.seed.to_string(), id, host.started.clone(), host.elapsed_ns.to_string()]
    });
    ConditionsView {
        name: format!("{workload} on {}", row.name),
        seed: trial.seed,
        facts: facts(trial),
        notes: trial.conditions.notes.clone(),
        trials: trials.collect(),
    }
}

/// Everything in effect, as name and value; what is unknown is left out.
fn facts(trial: &Trial) -> Vec<(String, String)> {
    let (plan, found) = (&trial.plan, &trial.conditions);
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((name.into(), value));
        }
    };
    fact("parameters", pairs(&plan.workload.params));
    fact("asked for", plan.filesystem.as_ref().map(|fs| fs.spec.clone()).unwrap_or_default());
    fact("mkfs", found.mkfs.join(" "));
    fact("mount", found.mount.clone());
    fact("features", lines(&found.features));
    fact("tools", lines(&found.tools));
    fact("kernel", found.kernel.clone());
    fact("CPU", found.cpu.clone());
    fact("threads", plan.threads.to_string());
    fact("issuer", plan.issuer.to_string());
    if let Some(lab) = plan.lab() {
        let raid = lab.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default();
        fact("disk", format!("{raid}{}\n{}", lab.disk.name, parameters(&lab.disk.spec)));
        let journal = lab.journal.as_ref();
        fact("journal on", journal.map(|disk| disk.name.clone()).unwrap_or_default());
        fact("memory of the guest", lab.ram.to_string());
        fact("CPU speed", format!("{} instructions a nanosecond", lab.cpu));
        fact("boot", lab.boot.name().to_string());
    }
    if let Some(model) = plan.model() {
        fact("disk", format!("{}\n{}", model.disk.name, parameters(&model.disk.spec)));
        fact("block size", model.block_size.to_string());
    }
    if let fsdyno_record::plan::MediumPlan::Directory { path } = &plan.medium {
        fact("directory", path.clone());
    }
    if let Some(device) = plan.device() {
        let raid = device.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default();
        fact("medium", format!("{raid}{}: {}", device.on, found.device));
        fact("journal on", device.journal_size.map(|size| size.to_string()).unwrap_or_default());
    }
    fact("device", found.device_size.map(|size| size.to_string()).unwrap_or_default());
    let start = found.partition_start.map(|start| format!("at {start}"));
    fact("partition", start.unwrap_or_default());
    fact("cacheable memory", found.cacheable_memory.to_string());
    fact("queue", lines(&found.queue));
    fact("sysctls", lines(&found.sysctls));
    let verify = &trial.measured.verify;
    let verified = format!(
        "{:?}: {} files, {} directories, {} compared, {} problems",
        verify.mode, verify.files, verify.directories, verify.bytes, verify.problems
    );
    fact("verified", verified.to_lowercase());
    fact("kernel threads' CPU", kernel_threads(trial));
    if let Some(check) = &trial.measured.check {
        let verdict = if check.clean { "clean" } else { "not clean" };
        fact("check", format!("{}: {verdict}", check.argv.join(" ")));
    }
    facts
}

/// CPU time of kernel threads by work, a line for each phase. The kernel lends its pooled workers
/// to whoever has work for them, and their time is not told apart by whose it was.
fn kernel_threads(trial: &Trial) -> String {
    let name = |work: &str| match work {
        "kworker" => "kworker (pooled, unattributed)".to_string(),
        other => other.to_string(),
    };
    let line = |phase: &Phase| {
        let works = phase.kernel_cpu_ns.iter();
        let works: Vec<String> = works.map(|(work, ns)| format!("{} {ns}", name(work))).collect();
        (!works.is_empty()).then(|| format!("{}: {}", phase.name, works.join(", ")))
    };
    trial.measured.phases.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The parameters of a disk, a line for each. What it is and where each value comes from is told
/// by `fsdyno show disk`, at a length that would bury the values here.
fn parameters(spec: &serde_json::Value) -> String {
    let words = |key: &str| matches!(key, "about" | "source");
    let mut lines = Vec::new();
    for (key, value) in spec.as_object().into_iter().flatten().filter(|(key, _)| !words(key)) {
        match value.as_object() {
            Some(fields) => {
                lines.extend(fields.iter().map(|(name, value)| format!("{key}.{name}: {value}")));
            }
            None => lines.push(format!("{key}: {value}")),
        }
    }
    lines.join("\n")
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn lines(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
struct LabView {
    id: String,
    labels: String,
    parts: BTreeMap<String, String>,
}

/// Each lab identity with who ran in it and, after the first, only those parts that differ from
/// the first: labs of one study share most of what they are.
fn labs(trials: &[Trial]) -> Vec<LabView> {
    let parts = |id: &str| {
        let trial = trials.iter().find(|trial| trial.lab_id.as_deref() == Some(id));
        trial.map(|trial| trial.lab.clone()).unwrap_or_default()
    };
    let labs = view::labs(trials);
    let first = labs.first().map(|lab| parts(lab.0)).unwrap_or_default();
    let view = |(index, (id, labels)): (usize, (&str, Vec<String>))| {
        let mut own = parts(id);
        own.retain(|name, value| index == 0 || first.get(name) != Some(value));
        LabView { id: id.into(), labels: labels.join(", "), parts: own }
    };
    labs.into_iter().enumerate().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn page(trials: &[Trial]) -> String {
        html(trials, None).unwrap()
    }

    #[test]
    fn the_page_is_as_it_was_looked_at() {
        // A file of its own, so that a reader can open the sample in a browser.
        insta::assert_binary_snapshot!("report.html", page(&fixture::with_failures()).into_bytes());
    }

    #[test]
    fn the_page_needs_nothing_from_the_network() {
        let page = page(&fixture::trials());
        for outside in ["http:", "https:", "<script", "<link", "<img", "@import"] {
            assert!(!page.contains(outside), "{outside} is in the page");
        }
        assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    }

    #[test]
    fn hostile_text_is_shown_and_not_obeyed() {
        let hostile = "</title><script>alert('x')</script>\"><b>";
        let mut trials = fixture::with_failures();
        for trial in &mut trials {
            trial.plan.label = format!("{hostile}{}", trial.plan.label);
            trial.plan.workload.name.push_str(hostile);
            trial.plan.hash.push_str(hostile);
            trial.trial_id.push_str(hostile);
            trial.lab_id = Some(hostile.into());
            trial.lab = [(hostile.to_string(), hostile.to_string())].into();
            trial.conditions.notes.push(hostile.into());
            trial.conditions.mount.push_str(hostile);
            trial.conditions.mkfs.push(hostile.into());
            trial.conditions.features = [(hostile.to_string(), hostile.to_string())].into();
            trial.reason = Some(hostile.into());
            trial.host.started.push_str(hostile);
            trial.measured.phases.iter_mut().for_each(|phase| phase.name.push_str(hostile));
            trial.measured.gaps.iter_mut().for_each(|gap| gap.done.push_str(hostile));
        }
        let page = html(&trials, Some(hostile)).unwrap();
        assert!(!page.contains("<script") && !page.contains("<b>"));
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn tables_and_charts_can_be_heard() {
        let page = page(&fixture::trials());
        assert!(page.contains("<html lang=\"en\">") && page.contains("class=\"skip\""));
        assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"").count());
        assert_eq!(
            page.matches("<th").count() - page.matches("<thead").count(),
            page.matches("scope=").count()
        );
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    }

    #[test]
    fn two_hundred_trials_stay_under_one_and_a_half_megabytes() {
        let mut trials = Vec::new();
        for copy in 0..12 {
            for mut trial in fixture::trials() {
                fixture::set_disk(&mut trial, &format!("disk-{copy}"));
                trials.push(trial);
            }
        }
        assert!(trials.len() >= 200);
        assert!(page(&trials).len() < 1_500_000);
    }

    #[test]
    fn trials_that_all_failed_still_have_a_page() {
        let failed: Vec<Trial> = fixture::with_failures()
            .into_iter()
            .filter(|trial| trial.outcome != Outcome::Ok)
            .collect();
        let page = page(&failed);
        assert!(page.contains("No trial succeeded") && page.contains("bad block bitmap"));
    }

    #[test]
    fn pooled_kernel_workers_are_named_as_what_they_are() {
        let page = page(&fixture::trials());
        assert!(page.contains("kworker (pooled, unattributed) "), "no kworker in the conditions");
    }

    #[test]
    fn gaps_in_which_nothing_was_to_be_done_are_left_out() {
        let mut trials = fixture::single();
        assert!(page(&trials).contains("Between the phases"));
        for gap in trials.iter_mut().flat_map(|trial| &mut trial.measured.gaps) {
            (gap.wanted, gap.done) = ("none".into(), "none".into());
        }
        assert!(!page(&trials).contains("Between the phases"));
    }

    #[test]
    fn a_host_has_a_page_without_device_tables() {
        let page = page(&fixture::on_a_host());
        assert!(page.contains("NOT DURABLE") && !page.contains("flushes"));
        assert!(!page.contains("space used"), "a directory's space is the whole file system's");
    }

    #[test]
    fn the_command_to_repeat_it_stands_before_the_results_and_the_conditions_after_them() {
        let page = page(&fixture::trials());
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("class=\"answer\"") < at("id=\"repeat\""));
        assert!(at("id=\"repeat\"") < at("id=\"s0\"") && at("id=\"s0\"") < at("id=\"conditions\""));
        assert!(page.contains("synced") && page.contains("what the empty file system takes"));
    }
}
