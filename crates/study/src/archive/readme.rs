//! The README of an archive: the trials that ran, and the commands that repeat them.

use std::collections::BTreeSet;

use fsdyno_record::shell::quote;

use super::{ArchivedRun, Output, PAGE, Part};
use crate::file::Variant;
use crate::stored;

/// Returns the ranges of consecutive seeds, each as its first seed and the number of seeds.
fn ranges(seeds: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seed in seeds {
        match ranges.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(*seed) => *count += 1,
            _ => ranges.push((*seed, 1)),
        }
    }
    ranges
}

/// Returns the commands that repeat exactly the stored trials (except that a row of a curve gets all its points): a
/// single command if the study is complete and all rows have the same kernels and seeds, and otherwise one per run.
/// Each range of seeds has its own command.
pub(super) fn commands(runs: &[ArchivedRun], is_complete: bool) -> Vec<String> {
    let command = |only: &str, part: &Part<'_>| -> Vec<String> {
        let kernel_option = |kernel: &&String| format!(" --kernel {}", quote(kernel));
        let kernels: String = part.kernels.iter().map(kernel_option).collect();
        let cpu: String = part.cpu.iter().map(|cpu| format!(" --cpu {}", quote(cpu))).collect();
        let row_option = |label: &&String| format!(" --fs={}", quote(label));
        let rows: String = part.rows.iter().flatten().map(row_option).collect();
        let range_command = |(first, count)| {
            format!(
                "fsdyno study ./{}{only}{rows}{kernels}{cpu} --seed {first} --repeat {count} --out again",
                stored::FILE
            )
        };
        ranges(part.seeds).into_iter().map(range_command).collect()
    };
    if let Some(part) = common(runs).filter(|_| is_complete) {
        return command("", &part);
    }
    let run_commands = |run: &ArchivedRun| -> Vec<String> {
        let has_one_variant = matches!(run.variant, Variant::AsItStands);
        let variant =
            if has_one_variant { String::new() } else { format!(" --as {}", run.variant.name()) };
        let only = format!(" --only {}{variant}", quote(&run.run));
        run.parts().iter().flat_map(|part| command(&only, part)).collect()
    };
    runs.iter().flat_map(run_commands).collect()
}

/// Returns the seeds, kernels and CPU that all runs share; `None` if they differ.
fn common(runs: &[ArchivedRun]) -> Option<Part<'_>> {
    let mut parts: Vec<Part<'_>> = runs.iter().flat_map(ArchivedRun::parts).collect();
    // Kernel and CPU do not matter to a run outside the lab.
    parts.sort_by_key(|part| part.kernels.is_empty());
    let first = parts.first()?;
    let is_same = |part: &Part<'_>| {
        part.rows.is_none()
            && part.seeds == first.seeds
            && (part.kernels.is_empty() || (&part.kernels, part.cpu) == (&first.kernels, first.cpu))
    };
    let is_uniform = parts.iter().all(is_same) && parts.len() == runs.len();
    is_uniform.then(|| parts.swap_remove(0))
}

/// Returns the README: commands, runs and verdicts.
pub(super) fn text(output: &Output<'_>, runs: &[ArchivedRun], is_complete: bool) -> String {
    let listed = |items: BTreeSet<&String>| {
        let items: Vec<&str> = items.into_iter().map(String::as_str).collect();
        if items.is_empty() { "-".to_string() } else { items.join(", ") }
    };
    let shown = |(first, count): (u64, u64)| match count {
        1 => first.to_string(),
        _ => format!("{first} to {}", first + (count - 1)),
    };
    let days: BTreeSet<&String> = runs.iter().flat_map(|run| &run.days).collect();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).clone(),
        _ => "an unknown day".into(),
    };
    let programs = listed(runs.iter().flat_map(|run| &run.programs).collect());
    let mut out = format!(
        "# {}\n\nRun on {days} by fsdyno {programs}. `{}` has all conditions. To repeat:\n\n```sh\n{}\n```\n\n\
         | run | as | seeds | trials | kernels | lab |\n| --- | --- | --- | --- | --- | --- |\n",
        output.title,
        stored::FILE,
        commands(runs, is_complete).join("\n"),
    );
    for run in runs {
        let seeds = seeds_by_row(run, &|seeds| {
            let ranges: Vec<String> = ranges(seeds).into_iter().map(shown).collect();
            ranges.join(", ")
        });
        let trials = match run.trials - run.ok {
            0 => run.trials.to_string(),
            unfinished => format!("{}, {unfinished} of them failed or skipped", run.trials),
        };
        out.push_str(&format!(
            "| {} | {} | {seeds} | {trials} | {} | {} |\n",
            run.run,
            run.variant.words(),
            listed(run.kernels()),
            listed(run.labs.iter().collect()),
        ));
    }
    out.push_str(&format!(
        "\n`fsdyno report` of this folder judges the claims anew and prints the text below; `{PAGE}` is the report. \
         Records are compressed (`zstd -d` unpacks them); each finding of `fsdyno crash`, if any, is a file in \
         `findings` next to its rows. Series over time are drawn in the report and not stored here; nor are \
         request logs.\n\n## Verdicts\n\n{}",
        output.text
    ));
    out
}

/// Returns the seeds of a run, listed by row and kernel if they differ.
pub(super) fn seeds_by_row(run: &ArchivedRun, shown: &dyn Fn(&BTreeSet<u64>) -> String) -> String {
    let parts = run.parts();
    if let [Part { rows: None, seeds, .. }] = parts[..] {
        return shown(seeds);
    }
    let has_several_kernels = run.kernels().len() > 1;
    let text = |part: &Part<'_>| {
        let list = |items: &BTreeSet<&String>| {
            items.iter().map(|item| item.as_str()).collect::<Vec<_>>().join(", ")
        };
        let rows =
            part.rows.as_ref().map_or_else(String::new, |rows| format!(" of {}", list(rows)));
        let on = match has_several_kernels {
            true => format!(" on {}", list(&part.kernels)),
            false => String::new(),
        };
        format!("{}{rows}{on}", shown(part.seeds))
    };
    parts.iter().map(text).collect::<Vec<_>>().join("; ")
}
