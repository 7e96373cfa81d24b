//! `fsdyno report OUT --archive DIR`: the folder of a study as it can be committed or sent on. Whoever has it can
//! judge again: `fsdyno report` reads it like the folder itself.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_record::shell::quote;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Bytes, Trial};
use fsdyno_report::compressed;
use fsdyno_study::file::{StudyFile, Variant};

use super::stored;
use crate::commands::report;
use crate::exit::Failure;
use crate::output::say;

/// The page and the text of an archive.
const PAGE: &str = "report.html";
const README: &str = "README.md";

/// Refuses a place where anything is already: an archive is one thing, and nothing is written over.
///
/// # Errors
/// That there is something.
pub fn check(into: &Path) -> Result<(), Failure> {
    let taken = into.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    match taken || into.is_file() {
        true => Err(Failure::wrong(format!(
            "'{}' is not empty; give --archive a new folder",
            into.display()
        ))),
        false => Ok(()),
    }
}

/// The end of a study, as it is kept.
pub struct Kept<'a> {
    /// The study's title.
    pub title: &'a str,
    /// What became of it, as Markdown.
    pub told: String,
    /// Its page.
    pub page: String,
}

/// Writes the archive of a study's folder, and says how large it is.
///
/// # Errors
/// What cannot be read or written.
pub fn write(
    (folder, into): (&Path, &Path),
    file: &StudyFile,
    kept: &Kept<'_>,
) -> Result<(), Failure> {
    let mut sizes = Vec::new();
    let mut keep = |name: &Path, bytes: &[u8]| -> Result<(), Failure> {
        sizes.push(bytes.len() as u64);
        put(&into.join(name), bytes)
    };
    let mut runs = Vec::new();
    for (run, variant, path) in stored::folders(folder, file) {
        let inside = Path::new(variant.name()).join(&run.name);
        for name in [TRIALS, fsdyno_why::stored::FILE] {
            if let Some(bytes) = packed(&path.join(name))? {
                keep(&compressed::name(&inside.join(name)), &bytes)?;
            }
        }
        runs.push(Ran::of(&run.name, variant, &fsdyno_report::load(&[path])?.trials));
    }
    for path in stored::crashes(folder) {
        let inside = path.strip_prefix(folder).unwrap_or(&path);
        if let Some(bytes) = packed(&path.join(fsdyno_crash::FILE))? {
            keep(&compressed::name(&inside.join(fsdyno_crash::FILE)), &bytes)?;
        }
    }
    keep(Path::new(stored::FILE), stored::read(folder)?.0.as_bytes())?;
    keep(Path::new(README), readme(kept, &runs).as_bytes())?;
    keep(Path::new(PAGE), kept.page.as_bytes())?;
    let all = Bytes(sizes.iter().sum());
    say(&format!("archive: {} ({all} in {} files)", into.display(), sizes.len()));
    Ok(())
}

/// A file of the folder, compressed; none where there is none.
fn packed(file: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if compressed::find(file).is_none() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let read = compressed::open(file).and_then(|mut source| source.read_to_end(&mut bytes));
    let packed = read.and_then(|_| compressed::packed(&bytes));
    let failed = |error| Failure::wrong(format!("failed to read '{}': {error}", file.display()));
    packed.map(Some).map_err(failed)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::wrong(format!("failed to make '{}': {error}", folder.display()))
    })?;
    report::write_file(path, bytes)
}

/// What is told of a run in one variant.
struct Ran {
    run: String,
    variant: Variant,
    /// As `--kernel` takes them.
    kernels: BTreeSet<String>,
    seeds: BTreeSet<u64>,
    labs: BTreeSet<String>,
    versions: BTreeSet<String>,
    /// The first and the last day.
    days: BTreeSet<String>,
    ok: usize,
    /// Of which some failed or were skipped.
    trials: usize,
}

impl Ran {
    fn of(run: &str, variant: Variant, trials: &[Trial]) -> Ran {
        let kernel = |trial: &Trial| {
            let kernel = &trial.plan.lab()?.kernel;
            Some(kernel.split_once('@').map_or(kernel.as_str(), |(_, typed)| typed).to_string())
        };
        let short = |id: &String| -> String { id.chars().take(12).collect() };
        Ran {
            run: run.to_string(),
            variant,
            kernels: trials.iter().filter_map(kernel).collect(),
            seeds: trials.iter().map(|trial| trial.seed).collect(),
            labs: trials.iter().filter_map(|trial| trial.lab_id.as_ref().map(short)).collect(),
            versions: trials.iter().map(|trial| trial.version.clone()).collect(),
            days: trials
                .iter()
                .filter_map(|t| t.host.started.get(..10))
                .map(String::from)
                .collect(),
            ok: trials.iter().filter(|trial| trial.outcome == Outcome::Ok).count(),
            trials: trials.len(),
        }
    }

    /// The first seed, and how many there are from it on.
    fn repeats(&self) -> (u64, u64) {
        let (first, last) = (self.seeds.first().copied(), self.seeds.last().copied());
        first.zip(last).map_or((1, 1), |(first, last)| (first, last - first + 1))
    }
}

/// One command where all runs have the same seeds, else one for each.
fn commands(runs: &[Ran]) -> Vec<String> {
    let kernels: BTreeSet<&String> = runs.iter().flat_map(|run| &run.kernels).collect();
    let kernels: String =
        kernels.iter().map(|kernel| format!(" --kernel {}", quote(kernel))).collect();
    let command = |only: &str, kernels: &str, (first, count): (u64, u64)| {
        format!(
            "fsdyno study ./{}{only}{kernels} --seed {first} --repeat {count} --out again",
            stored::FILE
        )
    };
    let mut all: Vec<(u64, u64)> = runs.iter().map(Ran::repeats).collect();
    all.dedup();
    if let [one] = all.as_slice() {
        return vec![command("", &kernels, *one)];
    }
    let own = |run: &Ran| {
        let both = matches!(run.variant, Variant::AsItStands);
        let variant = if both { String::new() } else { format!(" --as {}", run.variant.name()) };
        // A run outside the lab alone has no kernel to be told of.
        let kernels = if run.kernels.is_empty() { "" } else { kernels.as_str() };
        command(&format!(" --only {}{variant}", quote(&run.run)), kernels, run.repeats())
    };
    runs.iter().map(own).collect()
}

/// What was run, and what came of it.
fn readme(kept: &Kept<'_>, runs: &[Ran]) -> String {
    let listed = |all: BTreeSet<&String>| {
        let all: Vec<&str> = all.into_iter().map(String::as_str).collect();
        if all.is_empty() { "-".to_string() } else { all.join(", ") }
    };
    let days: BTreeSet<&String> = runs.iter().flat_map(|run| &run.days).collect();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).clone(),
        _ => "an unknown day".into(),
    };
    let versions = listed(runs.iter().flat_map(|run| &run.versions).collect());
    let mut out = format!(
        "# {}\n\nRun on {days} by fsdyno {versions}. `{}` has all conditions. Again:\n\n```sh\n{}\n```\n\n\
         | run | as | seeds | trials | kernels | lab |\n| --- | --- | --- | --- | --- | --- |\n",
        kept.title,
        stored::FILE,
        commands(runs).join("\n"),
    );
    for run in runs {
        let (first, count) = run.repeats();
        let seeds = if count == 1 {
            first.to_string()
        } else {
            format!("{first} to {}", first + count - 1)
        };
        let trials = match run.trials - run.ok {
            0 => run.trials.to_string(),
            other => format!("{}, {other} of them failed or skipped", run.trials),
        };
        out.push_str(&format!(
            "| {} | {} | {seeds} | {trials} | {} | {} |\n",
            run.run,
            run.variant.words(),
            listed(run.kernels.iter().collect()),
            listed(run.labs.iter().collect()),
        ));
    }
    out.push_str(&format!(
        "\n`fsdyno report` of this folder judges again and shows what follows; `{PAGE}` is the page. Records are compressed \
         (`zstd -d` makes them plain). What was recorded over time within phases is drawn in the page and not kept here, nor \
         are logs of requests.\n\n## What became of it\n\n{}",
        kept.told
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(run: &str, variant: Variant, seeds: &[u64], kernels: &[&str]) -> Ran {
        let kernels = kernels.iter().map(ToString::to_string).collect();
        let seeds = seeds.iter().copied().collect();
        Ran { kernels, seeds, ..Ran::of(run, variant, &[]) }
    }

    #[test]
    fn one_command_repeats_all_runs_and_one_each_where_seeds_differ() {
        let then = |seeds| ran("a", Variant::Then, seeds, &["6.1"]);
        let both = ran("b", Variant::AsItStands, &[1, 2], &[]);
        assert_eq!(
            commands(&[then(&[1, 2]), both]),
            ["fsdyno study ./study.toml --kernel 6.1 --seed 1 --repeat 2 --out again"]
        );
        let model = ran("b", Variant::AsItStands, &[7], &[]);
        assert_eq!(
            commands(&[then(&[1, 3]), model]),
            [
                "fsdyno study ./study.toml --only a --as then --kernel 6.1 --seed 1 --repeat 3 --out again",
                "fsdyno study ./study.toml --only b --seed 7 --repeat 1 --out again",
            ]
        );
    }
}
