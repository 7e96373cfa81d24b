//! The folder of a study: the study file, and a folder for each run in each variant.

use std::path::{Path, PathBuf};

use crate::file::{Run, StudyFile, Variant, with_scale};
use crate::judge::RunResult;
use fsdyno_record::Trial;
use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_record::shell::quote;
use fsdyno_report::compressed;

use fsdyno_campaign::Failure;
use fsdyno_campaign::notes::say;
use fsdyno_campaign::{files, results};

/// Name of the study file in the folder.
pub const FILE: &str = "study.toml";

/// Creates the folder of a study, or resumes an existing one.
///
/// # Errors
/// A folder with other results, or a file that cannot be written.
pub fn create_or_resume(folder: &Path, text: &str, study: &StudyFile) -> Result<(), Failure> {
    let path = folder.join(FILE);
    check(folder, text, study)?;
    files::make_folder(folder)?;
    let text = with_scale(text, study.scale);
    // An unchanged file is not rewritten: a command with other runs of the study may be reading it.
    match bounded::read_to_string(&path, &WRITTEN).is_ok_and(|stored| stored == text) {
        true => Ok(()),
        false => files::write_file(&path, &text),
    }
}

/// Checks that a folder can be used for a study: it is new, or has the same runs at the same scale.
///
/// # Errors
/// The reason why it cannot be used.
pub fn check(folder: &Path, text: &str, study: &StudyFile) -> Result<(), Failure> {
    let shown = folder.display();
    if !folder.join(FILE).exists() {
        let has_entries = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        return match has_entries || folder.is_file() {
            true => Err(Failure::invalid_use(format!(
                "'{shown}' is not empty and not the folder of a study; give a new folder with --out"
            ))),
            false => Ok(()),
        };
    }
    let (stored_text, stored) = read(folder)?;
    let new = "; give a new folder with --out";
    if folders(folder, &stored).iter().any(|(_, _, path)| !path.join(TRIALS).exists()) {
        return Err(Failure::invalid_use(format!(
            "'{shown}' is an archive (report --archive), which is read-only{new}"
        )));
    }
    if stored.scale != study.scale {
        return Err(Failure::invalid_use(format!(
            "'{shown}' has scale {}, and this command has scale {}{new}",
            stored.scale, study.scale
        )));
    }
    // In a folder without results, the study file may be the only copy of the user's own file.
    let results = stored.runs.iter().any(|run| has_trials(folder, run));
    if !results && stored_text != with_scale(text, study.scale) {
        return Err(Failure::invalid_use(format!(
            "'{shown}' has a different {FILE} and no results, so that file may be your own{new}"
        )));
    }
    for (run, variant, path) in folders(folder, &stored) {
        let loaded = fsdyno_report::load(std::slice::from_ref(&path))?;
        check_records(&loaded.trials, run, variant, &path)?;
    }
    for run in &stored.runs {
        let current = study.run(&run.name);
        if current.is_none_or(|current| run_conditions(current) != run_conditions(run))
            && has_trials(folder, run)
        {
            let (name, title) = (&run.name, &stored.title);
            return Err(Failure::invalid_use(format!(
                "'{shown}' has results of run '{name}' of an earlier version of '{title}', and the run has changed\
                 {new}"
            )));
        }
    }
    Ok(())
}

/// Returns the study's folder if the results consist of one; `None` if they include no study's folder.
///
/// # Errors
/// A study's folder among other results, or one without its study file.
pub fn folder_of(results: &[PathBuf]) -> Result<Option<&Path>, Failure> {
    let found = results.iter().find(|path| path.join(FILE).is_file());
    match (found, results.len()) {
        (Some(folder), 1) => Ok(Some(folder)),
        (Some(folder), _) => Err(Failure::invalid_use(format!(
            "'{}' is the folder of a study; report it alone: fsdyno report {}",
            folder.display(),
            quote(&folder.to_string_lossy())
        ))),
        (None, _) => {
            match results.iter().find_map(|path| Some((path, run_without_study_file(path)?))) {
                Some((folder, run)) => Err(Failure::invalid_use(format!(
                    "'{}' looks like the folder of a study, and its {} is missing; restore it, or report one run: fsdyno \
                     report {}",
                    folder.display(),
                    FILE,
                    quote(&run.to_string_lossy())
                ))),
                None => Ok(None),
            }
        }
    }
}

/// Reads the study of a folder, at the scale of its runs, and the file's text.
///
/// # Errors
/// A file that is unreadable or invalid.
pub fn read(folder: &Path) -> Result<(String, StudyFile), Failure> {
    let path = folder.join(FILE);
    let text = bounded::read_to_string(&path, &WRITTEN).map_err(|error| {
        Failure::invalid_use(format!("failed to read '{}': {error}", path.display()))
    })?;
    let study = StudyFile::parse(&path.display().to_string(), &text)?.as_run();
    Ok((text, study))
}

/// Returns all result folders below a study's folder, with their run and variant.
pub fn folders<'a>(folder: &Path, study: &'a StudyFile) -> Vec<(&'a Run, Variant, PathBuf)> {
    let mut found = Vec::new();
    for variant in Variant::ALL {
        for run in study.runs.iter().filter(|run| run.has(variant)) {
            let path = folder.join(variant.name()).join(&run.name);
            if compressed::find(&path.join(TRIALS)).is_some() {
                found.push((run, variant, path));
            }
        }
    }
    found
}

/// Returns the first run's folder in a folder that has the structure of a study's but lacks the study file.
pub fn run_without_study_file(folder: &Path) -> Option<PathBuf> {
    let is_stored = |path: &Path| compressed::find(&path.join(TRIALS)).is_some();
    if folder.join(FILE).exists() || is_stored(folder) {
        return None;
    }
    Variant::ALL.into_iter().find_map(|variant| {
        let entries = folder.join(variant.name()).read_dir().ok()?;
        entries.flatten().map(|entry| entry.path()).filter(|path| is_stored(path)).min()
    })
}

/// Returns all result folders of `fsdyno crash` below a study's folder: `crash` itself, and the folders in it.
pub fn crashes(folder: &Path) -> Vec<PathBuf> {
    let parent = folder.join("crash");
    let inside = parent.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = inside.chain([parent.clone()]).collect();
    found.retain(|path| compressed::find(&path.join(fsdyno_crash::ROWS_FILE)).is_some());
    found.sort();
    found
}

/// Loads the trials of each run, split by kernel if there are several kernels.
///
/// # Errors
/// A file of trials that is unreadable.
pub fn results(folder: &Path, study: &StudyFile) -> Result<Vec<RunResult>, Failure> {
    results_with(folder, study, &say)
}

/// Loads the trials of each run as [`results`] does, and passes notes on incomplete files to a function.
pub(crate) fn results_with(
    folder: &Path,
    study: &StudyFile,
    note: &dyn Fn(&str),
) -> Result<Vec<RunResult>, Failure> {
    let mut results: Vec<RunResult> = Vec::new();
    for (run, variant, path) in folders(folder, study) {
        let loaded = fsdyno_report::load(std::slice::from_ref(&path))?;
        check_records(&loaded.trials, run, variant, &path)?;
        if let Some(torn) = &loaded.torn {
            note(&format!("fsdyno: {torn}"));
        }
        let mut trials = loaded.trials;
        fsdyno_campaign::drop_superseded(&mut trials, &loaded.ends);
        results::in_order(&mut trials);
        // The study file decides the order of rows, not the records.
        let rows = run.rows(variant).unwrap_or_default();
        trials.sort_by_key(|trial| rows.iter().position(|row| *row == trial.plan.label));
        for trial in trials {
            let kernel = kernel(&trial);
            let has_this_key = |result: &&mut RunResult| {
                (&result.run, result.variant, &result.kernel) == (&run.name, variant, &kernel)
            };
            match results.iter_mut().find(has_this_key) {
                Some(result) => result.trials.push(trial),
                None => results.push(RunResult {
                    run: run.name.clone(),
                    variant,
                    kernel,
                    scale: study.scale.divisor(),
                    trials: vec![trial],
                }),
            }
        }
    }
    let mut kernels: Vec<String> =
        results.iter().filter_map(|result| result.kernel.clone()).collect();
    kernels.sort();
    kernels.dedup();
    if kernels.len() < 2 {
        // One kernel is not a timeline.
        results.iter_mut().for_each(|result| result.kernel = None);
    }
    // A timeline begins with the oldest kernel.
    results.sort_by_key(|result| result.kernel.as_deref().map(release_numbers));
    Ok(results)
}

/// Loads the trials of a result, or of all runs of a study.
///
/// # Errors
/// A file that is unreadable.
pub fn trials(path: &Path) -> Result<Vec<Trial>, Failure> {
    if !path.join(FILE).is_file() {
        return results::load(&[path]);
    }
    let (_, file) = read(path)?;
    let results = results(path, &file)?;
    Ok(results.into_iter().flat_map(|result| result.trials).collect())
}

/// Refuses records of a different run, which would be judged as records of this one.
fn check_records(
    trials: &[Trial],
    run: &Run,
    variant: Variant,
    path: &Path,
) -> Result<(), Failure> {
    let rows = run.rows(variant);
    let is_foreign = |trial: &&Trial| {
        let label = &trial.plan.label;
        trial.plan.workload.name != run.workload
            || rows.as_ref().is_some_and(|rows| !rows.contains(label))
    };
    let Some(Trial { plan, .. }) = trials.iter().find(is_foreign) else { return Ok(()) };
    let on_rows = rows.map_or_else(String::new, |rows| format!(" on {}", rows.join(", ")));
    Err(Failure::invalid_use(format!(
        "'{}' has a record of {} on {}, and run {} {} is of {}{on_rows}; move the records to the folder of their run",
        path.display(),
        plan.workload.name,
        plan.label,
        run.name,
        variant.words(),
        run.workload
    )))
}

/// Returns the kernel that a trial of the lab was planned for.
fn kernel(trial: &Trial) -> Option<String> {
    Some(trial.plan.lab()?.kernel.to_string())
}

/// Returns the numbers in a kernel's release, so that 5.10 sorts before 6.1.
fn release_numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Returns the conditions that determine a run's trials.
fn run_conditions(run: &Run) -> Vec<String> {
    let mut texts = vec![run.workload.clone()];
    for variant in run.variants() {
        texts.push(variant.name().to_string());
        let conditions = run.conditions(variant).unwrap_or_default();
        // The number of trials, their seeds and the baseline do not change a trial.
        let args = conditions.arguments().into_iter().map(|argument| argument.text);
        let is_condition = |arg: &String| {
            !["--repeat=", "--seed=", "--baseline="].iter().any(|option| arg.starts_with(option))
        };
        texts.extend(args.filter(is_condition));
    }
    texts
}

fn has_trials(folder: &Path, run: &Run) -> bool {
    run.variants()
        .into_iter()
        .map(|variant| folder.join(variant.name()).join(&run.name).join(TRIALS))
        .any(|trials| compressed::find(&trials).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_folder_without_its_file_is_recognized_by_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(run_without_study_file(folder.path()), None);
        for run in ["today/b", "today/a", "then/empty"] {
            std::fs::create_dir_all(path(run)).unwrap();
        }
        for run in ["today/b", "today/a"] {
            std::fs::write(compressed::name(&path(run).join(TRIALS)), "").unwrap();
        }
        assert_eq!(run_without_study_file(folder.path()), Some(path("today/a")));
        assert_eq!(run_without_study_file(&path("today/a")), None);
        std::fs::write(path(FILE), "").unwrap();
        assert_eq!(run_without_study_file(folder.path()), None);
    }

    #[test]
    fn kernels_are_sorted_by_their_numbers() {
        let mut releases = ["6.12.117+deb12-amd64", "5.10.0-32-amd64", "6.1.0-56-amd64"];
        releases.sort_by_key(|release| release_numbers(release));
        assert_eq!(releases.map(|release| &release[..4]), ["5.10", "6.1.", "6.12"]);
    }
}
