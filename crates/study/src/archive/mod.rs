//! `fsdyno report OUT --archive DIR`: archives the folder of a study, to be committed or shared. `fsdyno report` reads
//! an archive like the folder itself and judges the claims again.

mod readme;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::file::{Run, StudyFile, Variant};
use fsdyno_record::bounded::{self, Limit, RECORDS, RESULTS};
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Bytes, Trial};
use fsdyno_report::{compressed, counted};

use crate::stored;
use fsdyno_campaign::Failure;
use fsdyno_campaign::crash::folder::findings_in;
use fsdyno_campaign::files;
use fsdyno_campaign::notes::say;

/// File names of the report and the README in an archive.
const PAGE: &str = fsdyno_campaign::store::PAGE;
const README: &str = "README.md";

/// Checks the path of an archive, so that nothing is overwritten.
///
/// # Errors
/// A path that is a file or a nonempty folder, that has no name (`.`), or that is in the study's own folder.
pub fn check(folder: &Path, into: &Path) -> Result<(), Failure> {
    if into.file_name().is_none() {
        let shown = into.display();
        return Err(Failure::invalid_use(format!(
            "'{shown}' does not name a folder; give a new folder with --archive"
        )));
    }
    let existing = into.ancestors().skip(1).find_map(|above| match above.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => above.canonicalize().ok(),
    });
    let study_folder = folder.canonicalize().ok();
    if let (Some(existing), Some(study_folder)) = (existing, study_folder)
        && existing.starts_with(&study_folder)
    {
        return Err(Failure::invalid_use(format!(
            "'{}' is in the study's own folder '{}'; give a folder outside it with --archive",
            into.display(),
            folder.display()
        )));
    }
    let has_entries = into.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    match has_entries || into.is_file() {
        true => Err(Failure::invalid_use(format!(
            "'{}' is not empty; give a new folder with --archive",
            into.display()
        ))),
        false => Ok(()),
    }
}

/// The output of a study for its archive.
pub struct Output<'a> {
    /// The study's title.
    pub title: &'a str,
    /// Verdicts and tables as Markdown.
    pub text: String,
    /// The report as HTML.
    pub page: String,
}

/// Writes the archive of a study's folder atomically, and reports its size.
///
/// # Errors
/// A file that is unreadable or unwritable; then no archive is left.
pub fn write(
    (folder, into): (&Path, &Path),
    file: &StudyFile,
    output: &Output<'_>,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::invalid_use(format!("failed to create '{}': {error}", into.display()))
    };
    // Written under a name unique to this process, then renamed.
    let mut temporary_name = into.file_name().unwrap_or_default().to_os_string();
    temporary_name.push(format!(".{}.new", std::process::id()));
    let temporary = into.with_file_name(temporary_name);
    files::make_folder(temporary.parent().unwrap_or(&temporary))?;
    std::fs::create_dir(&temporary).map_err(failed)?;
    let written = fill((folder, &temporary), file, output).and_then(|sizes| {
        // Also replaces an empty folder.
        std::fs::rename(&temporary, into).map_err(failed)?;
        Ok(sizes)
    });
    let sizes = written.inspect_err(|_| {
        // The first error is the one that matters.
        let _ = std::fs::remove_dir_all(&temporary);
    })?;
    let total = Bytes(sizes.iter().sum());
    say(&format!("archive: {} ({total} in {})", into.display(), counted(sizes.len(), "file")));
    Ok(())
}

/// Writes all files of an archive to a new folder. Returns their sizes.
fn fill(
    (folder, into): (&Path, &Path),
    file: &StudyFile,
    output: &Output<'_>,
) -> Result<Vec<u64>, Failure> {
    let mut sizes = Vec::new();
    let mut add = |name: &Path, bytes: &[u8]| -> Result<(), Failure> {
        sizes.push(bytes.len() as u64);
        write_file(&into.join(name), bytes)
    };
    let mut runs = Vec::new();
    for (run, variant, path) in stored::folders(folder, file) {
        let inside = Path::new(variant.name()).join(&run.name);
        for name in [TRIALS, fsdyno_why::stored::FILE] {
            if let Some(bytes) = read_compressed(&path.join(name), &RECORDS)? {
                add(&compressed::name(&inside.join(name)), &bytes)?;
            }
        }
        let loaded = fsdyno_report::load(&[path])?;
        let mut trials = loaded.trials;
        fsdyno_campaign::drop_superseded(&mut trials, &loaded.ends);
        runs.push(ArchivedRun::of(run, variant, &trials));
    }
    for path in stored::crashes(folder) {
        let inside = path.strip_prefix(folder).unwrap_or(&path);
        if let Some(bytes) = read_compressed(&path.join(fsdyno_crash::ROWS_FILE), &RESULTS)? {
            add(&compressed::name(&inside.join(fsdyno_crash::ROWS_FILE)), &bytes)?;
        }
        // Not compressed, because `fsdyno crash --replay` reads them.
        for finding in findings_in(&path)? {
            let bytes = bounded::read(&finding, &RESULTS).map_err(|error| {
                Failure::invalid_use(format!("failed to read '{}': {error}", finding.display()))
            })?;
            add(finding.strip_prefix(folder).unwrap_or(&finding), &bytes)?;
        }
    }
    add(Path::new(stored::FILE), stored::read(folder)?.0.as_bytes())?;
    add(Path::new(README), readme::text(output, &runs, is_complete(file, &runs)).as_bytes())?;
    add(Path::new(PAGE), output.page.as_bytes())?;
    Ok(sizes)
}

/// Reads and compresses a file of the folder, if it exists.
fn read_compressed(file: &Path, limit: &Limit) -> Result<Option<Vec<u8>>, Failure> {
    let Some(found) = compressed::find(file) else { return Ok(None) };
    let packed = compressed::open(file, limit).and_then(compressed::compress);
    let failed =
        |error| Failure::invalid_use(format!("failed to read '{}': {error}", found.display()));
    packed.map(Some).map_err(failed)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    files::make_folder(&folder)?;
    files::write_file(path, bytes)
}

/// A summary of a run in one variant.
struct ArchivedRun {
    run: String,
    variant: Variant,
    /// All rows of the run, or the stored ones if the file does not list any.
    rows: BTreeSet<String>,
    /// The seeds of each row on each kernel; a kernel is named as for `--kernel`, and is `None` outside the lab.
    seeds: BTreeMap<Option<String>, BTreeMap<String, BTreeSet<u64>>>,
    /// The CPU of its guests, named as for `--cpu`, if it is not the one in the file.
    cpu: Option<String>,
    labs: BTreeSet<String>,
    /// Version and commit of each fsdyno build that ran it.
    programs: BTreeSet<String>,
    /// The days on which its trials started.
    days: BTreeSet<String>,
    ok: usize,
    /// All trials, including failed and skipped ones.
    trials: usize,
}

impl ArchivedRun {
    fn of(run: &Run, variant: Variant, trials: &[Trial]) -> ArchivedRun {
        let kernel = |trial: &Trial| trial.plan.lab().map(|lab| lab.kernel.request().to_string());
        let mut seeds: BTreeMap<_, BTreeMap<String, BTreeSet<u64>>> = BTreeMap::new();
        for trial in trials {
            let rows = seeds.entry(kernel(trial)).or_default();
            rows.entry(trial.plan.label.clone()).or_default().insert(trial.seed);
        }
        let short = |id: &String| -> String { id.chars().take(12).collect() };
        let rows = run.rows(variant).map(|rows| rows.into_iter().collect());
        let conditions = run.conditions(variant).unwrap_or_default();
        let cpu = conditions.option("cpu").and_then(|cpu| cpu.value.as_deref());
        let profile = fsdyno_processor::parse(cpu.unwrap_or_default()).unwrap_or_default();
        let mut cpus = trials.iter().filter_map(|trial| Some(trial.plan.lab()?.cpu.to_string()));
        let stored = || seeds.values().flat_map(BTreeMap::keys).cloned().collect();
        ArchivedRun {
            run: run.name.clone(),
            variant,
            rows: rows.unwrap_or_else(stored),
            seeds,
            cpu: cpus.find(|cpu| *cpu != profile.to_string()),
            labs: trials.iter().filter_map(|trial| trial.lab_id.as_ref().map(short)).collect(),
            programs: trials.iter().map(Trial::program).collect(),
            days: trials
                .iter()
                .filter_map(|t| t.host.started.get(..10))
                .map(String::from)
                .collect(),
            ok: trials.iter().filter(|trial| trial.outcome == Outcome::Ok).count(),
            trials: trials.len(),
        }
    }

    fn kernels(&self) -> BTreeSet<&String> {
        self.seeds.keys().flatten().collect()
    }

    /// Groups rows and kernels that have the same seeds.
    fn parts(&self) -> Vec<Part<'_>> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (kernel, rows) in &self.seeds {
            let distinct: BTreeSet<&BTreeSet<u64>> = rows.values().collect();
            for seeds in &distinct {
                let same_seeds = rows.iter().filter(|(_, row_seeds)| row_seeds == seeds);
                let labels: BTreeSet<&String> = same_seeds.map(|(label, _)| label).collect();
                let rows = Some(labels).filter(|labels| !labels.iter().copied().eq(&self.rows));
                match parts.iter_mut().find(|part| part.seeds == *seeds && part.rows == rows) {
                    Some(part) => part.kernels.extend(kernel),
                    None => {
                        let (kernels, cpu) = (kernel.iter().collect(), self.cpu.as_ref());
                        parts.push(Part { kernels, cpu, rows, seeds });
                    }
                }
            }
        }
        parts
    }
}

/// A part of a run that one command can repeat, except for gaps between seeds.
#[derive(PartialEq)]
struct Part<'a> {
    kernels: BTreeSet<&'a String>,
    cpu: Option<&'a String>,
    /// The rows, if they are not all rows of the run.
    rows: Option<BTreeSet<&'a String>>,
    seeds: &'a BTreeSet<u64>,
}

/// Returns true if every run of the file is stored in each of its variants.
fn is_complete(file: &StudyFile, runs: &[ArchivedRun]) -> bool {
    file.runs.iter().all(|run| {
        let is_stored =
            |variant| runs.iter().any(|result| result.run == run.name && result.variant == variant);
        run.variants().into_iter().all(is_stored)
    })
}

#[cfg(test)]
mod tests {
    use super::readme::{commands, seeds_by_row};
    use super::*;

    fn archived_run(run: &str, variant: Variant, seeds: &[u64], kernels: &[&str]) -> ArchivedRun {
        let all: BTreeSet<u64> = seeds.iter().copied().collect();
        let all = BTreeMap::from(["ext4", "xfs"].map(|label| (label.to_string(), all.clone())));
        let seeds_on = |kernel: &&str| (Some(kernel.to_string()), all.clone());
        let mut seeds: BTreeMap<_, _> = kernels.iter().map(seeds_on).collect();
        if kernels.is_empty() {
            seeds.insert(None, all);
        }
        let variants = match variant {
            Variant::AsItStands => "",
            _ => "[run.then]\n[run.today]\n",
        };
        let text = format!(
            "title = 't'\nquestion = 'q'\nsource = 's'\n[[run]]\nname = '{run}'\nworkload = 'dirops'\n\
             fs = {{ ext4 = 'ext4', xfs = 'xfs' }}\n{variants}"
        );
        let file = StudyFile::parse("s.toml", &text).unwrap();
        ArchivedRun { seeds, ..ArchivedRun::of(&file.runs[0], variant, &[]) }
    }

    #[test]
    fn one_command_repeats_uniform_runs_and_others_get_their_own_command() {
        let historical = |seeds, kernels| archived_run("a", Variant::Historical, seeds, kernels);
        let as_it_stands = || archived_run("b", Variant::AsItStands, &[1, 2], &[]);
        let only_a = "fsdyno study ./study.toml --only a --as then";
        let only_b = "fsdyno study ./study.toml --only b --seed 1 --repeat 2 --out again";
        let all = [historical(&[1, 2], &["6.1"]), as_it_stands()];
        assert_eq!(
            commands(&all, true),
            ["fsdyno study ./study.toml --kernel 6.1 --seed 1 --repeat 2 --out again"]
        );
        let with_cpu = |run: ArchivedRun| ArchivedRun { cpu: Some("pc-2001".into()), ..run };
        assert_eq!(
            commands(&[with_cpu(historical(&[1, 2], &["6.1"])), as_it_stands()], true),
            [
                "fsdyno study ./study.toml --kernel 6.1 --cpu pc-2001 --seed 1 --repeat 2 --out again"
            ]
        );
        let mixed = [
            with_cpu(historical(&[1], &["6.1"])),
            archived_run("b", Variant::AsItStands, &[1], &["6.1"]),
        ];
        assert_eq!(commands(&mixed, true).len(), 2);
        // The commands run nothing else: no other run or variant, no seed in a gap, no kernel of a different run.
        let each =
            [format!("{only_a} --kernel 6.1 --seed 1 --repeat 2 --out again"), only_b.into()];
        assert_eq!(commands(&all, false), each);
        assert_eq!(
            commands(&[historical(&[1, 3, 4], &["6.1"])], true),
            [
                "fsdyno study ./study.toml --kernel 6.1 --seed 1 --repeat 1 --out again",
                "fsdyno study ./study.toml --kernel 6.1 --seed 3 --repeat 2 --out again",
            ]
        );
        let other = archived_run("b", Variant::AsItStands, &[1, 2], &["6.12"]);
        assert_eq!(
            commands(&[historical(&[1, 2], &["6.1"]), other], true)[1],
            "fsdyno study ./study.toml --only b --kernel 6.12 --seed 1 --repeat 2 --out again"
        );
        let mut uneven = historical(&[1, 2], &["6.1", "6.12"]);
        let one = historical(&[1], &["6.12"]);
        uneven.seeds.extend(one.seeds);
        assert_eq!(
            commands(&[uneven], true),
            [
                format!("{only_a} --kernel 6.1 --seed 1 --repeat 2 --out again"),
                format!("{only_a} --kernel 6.12 --seed 1 --repeat 1 --out again"),
            ]
        );
    }

    #[test]
    fn rows_with_more_seeds_than_others_get_their_own_command() {
        let mut run = archived_run("a", Variant::Historical, &[1], &["6.1"]);
        let more = archived_run("a", Variant::Historical, &[1, 2, 3], &["6.1"]);
        let ext4 = more.seeds[&Some("6.1".to_string())]["ext4"].clone();
        run.seeds.get_mut(&Some("6.1".to_string())).unwrap().insert("ext4".into(), ext4);
        let study = "fsdyno study ./study.toml --only a --as then";
        assert_eq!(
            commands(std::slice::from_ref(&run), true),
            [
                format!("{study} --fs=xfs --kernel 6.1 --seed 1 --repeat 1 --out again"),
                format!("{study} --fs=ext4 --kernel 6.1 --seed 1 --repeat 3 --out again"),
            ]
        );
        let shown = |seeds: &BTreeSet<u64>| format!("{}", seeds.len());
        assert_eq!(seeds_by_row(&run, &shown), "1 of xfs; 3 of ext4");
        assert_eq!(seeds_by_row(&more, &shown), "3");
        // A single row, on one of two kernels.
        run.seeds.values_mut().for_each(|rows| drop(rows.remove("xfs")));
        assert_eq!(
            commands(std::slice::from_ref(&run), true),
            [format!("{study} --fs=ext4 --kernel 6.1 --seed 1 --repeat 3 --out again")]
        );
        run.seeds.extend(archived_run("a", Variant::Historical, &[1, 2, 3], &["6.12"]).seeds);
        assert_eq!(
            commands(std::slice::from_ref(&run), true),
            [
                format!("{study} --fs=ext4 --kernel 6.1 --seed 1 --repeat 3 --out again"),
                format!("{study} --kernel 6.12 --seed 1 --repeat 3 --out again"),
            ]
        );
        assert_eq!(seeds_by_row(&run, &shown), "3 of ext4 on 6.1; 3 on 6.12");
    }

    #[test]
    fn an_archive_that_fails_leaves_no_files() {
        let root = tempfile::tempdir().unwrap();
        let (folder, into) = (root.path().join("out"), root.path().join("kept"));
        let text = "title = \"t\"\nquestion = \"q\"\nsource = \"s\"\n\
                    [[run]]\nname = \"a\"\nworkload = \"dirops\"\n";
        let file = StudyFile::parse("s.toml", text).unwrap();
        let output = || Output { title: "t", text: String::new(), page: String::new() };
        assert!(write((&folder, &into), &file, &output()).is_err(), "there is no study.toml");
        assert_eq!(root.path().read_dir().unwrap().count(), 0);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(stored::FILE), text).unwrap();
        check(&folder, &into).unwrap();
        write((&folder, &into), &file, &output()).unwrap();
        assert!(into.join(README).exists() && check(&folder, &into).is_err());
        assert_eq!(root.path().read_dir().unwrap().count(), 2);
        assert!(check(&folder, Path::new(".")).is_err());
        assert!(check(&folder, &folder.join("kept/it")).is_err());
    }
}
