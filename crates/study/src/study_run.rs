//! A study run: one workload of a study under one set of conditions; one `fsdyno run` with its own folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsdyno_campaign::{Experiment, Failure, RunSpec};
use fsdyno_record::suggest;

use crate::file::{self, Argument, FileName, InvalidValue, Planned, Spot, StudyFile, Variant};
use crate::request::StudyRequest;

/// One run in one variant.
pub struct StudyRun {
    /// The run's name.
    pub name: String,
    /// The variant.
    pub variant: Variant,
    /// The request, resolved.
    pub experiment: Experiment,
    /// The labels of the selected configurations, or empty for all.
    pub rows: Vec<String>,
    /// The result folder.
    pub folder: PathBuf,
    /// The target, if it is not the lab.
    pub non_lab_target: Option<String>,
    origin: Origin,
}

/// Returns true if the configuration with this label is selected.
pub fn selects(rows: &[String], label: &str) -> bool {
    rows.is_empty() || rows.iter().any(|row| row == label)
}

/// The positions of a run and its parts in the study file.
struct Origin {
    file: FileName,
    run: Spot,
    workload: Spot,
    arguments: Vec<Argument>,
}

impl StudyRun {
    /// Returns the name with the conditions.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.variant.words())
    }

    /// Adds the position in the study file to a failure.
    pub fn locate(&self, failure: Failure) -> Failure {
        self.origin.locate(&self.title(), failure)
    }

    /// Returns the number of trials.
    pub fn trials(&self) -> usize {
        self.experiment.cells.len() * self.experiment.spec.repeat as usize
    }
}

/// Resolves a study to its selected runs and checks all of them; historical conditions come first.
///
/// # Errors
/// The first request that is invalid, with its position in the file.
pub fn resolve(
    study: &StudyRequest,
    file: &StudyFile,
    folder: &Path,
) -> Result<Vec<StudyRun>, Failure> {
    let mut runs = Vec::new();
    for variant in Variant::ALL {
        // A run without historical or current conditions belongs to both.
        let is_selected = study
            .variant
            .is_none_or(|requested| variant == requested || variant == Variant::AsItStands);
        for run in file.runs.iter().filter(|run| is_selected && run.has(variant)) {
            if study.only.is_empty() || study.only.contains(&run.name) {
                runs.push(resolve_run(study, file, (run, variant), folder)?);
            }
        }
    }
    let planned: Vec<Planned<'_>> = runs
        .iter()
        .map(|run| Planned { run: &run.name, variant: run.variant, cells: &run.experiment.cells })
        .collect();
    file::check_planned(file, &planned)?;
    let runs = select_rows(&study.fs, runs)?;
    check_lab(&runs, "--kernel", study.kernels.first())?;
    check_lab(&runs, "--cpu", study.cpu.as_ref())?;
    Ok(runs)
}

/// Keeps only the configurations with the selected labels.
fn select_rows(selected: &[String], mut runs: Vec<StudyRun>) -> Result<Vec<StudyRun>, Failure> {
    if selected.is_empty() {
        return Ok(runs);
    }
    let cells = runs.iter().flat_map(|run| &run.experiment.cells);
    let labels: BTreeSet<&str> = cells.map(|cell| cell.plan.label.as_str()).collect();
    for (index, label) in selected.iter().enumerate() {
        if !labels.contains(label.as_str()) {
            let hint = suggest::hint(label, labels);
            return Err(Failure::invalid_use(format!(
                "--fs {label}: no selected run has this configuration; {hint}"
            )));
        }
        if selected[..index].contains(label) {
            return Err(Failure::invalid_use(format!("--fs {label} is given twice")));
        }
    }
    for run in &mut runs {
        run.rows = selected.to_vec();
        run.experiment.cells.retain(|cell| selected.contains(&cell.plan.label));
    }
    runs.retain(|run| !run.experiment.cells.is_empty());
    Ok(runs)
}

/// Refuses an option of the lab if no run is in the lab.
fn check_lab(runs: &[StudyRun], option: &str, value: Option<&String>) -> Result<(), Failure> {
    let Some(value) = value.filter(|_| !runs.is_empty()) else { return Ok(()) };
    if runs.iter().any(|run| run.non_lab_target.is_none()) {
        return Ok(());
    }
    Err(Failure::invalid_use(format!(
        "{option} {value} applies only to the lab, and no selected run is in the lab ({}); remove {option}",
        outside_lab(runs).join(", ")
    )))
}

/// Returns the runs outside the lab, each with its target.
pub fn outside_lab(runs: &[StudyRun]) -> Vec<String> {
    let with_target =
        |run: &StudyRun| Some(format!("{} on {}", run.title(), run.non_lab_target.as_ref()?));
    runs.iter().filter_map(with_target).collect()
}

fn resolve_run(
    study: &StudyRequest,
    file: &StudyFile,
    (run, variant): (&file::Run, Variant),
    folder: &Path,
) -> Result<StudyRun, Failure> {
    let mut conditions = run.conditions(variant).unwrap_or_default();
    let on = conditions.option("on").and_then(|on| on.value.clone());
    let non_lab_target = on.filter(|on| on != "lab");
    if let Some(stated) = conditions.option("kernel").filter(|_| !study.kernels.is_empty()) {
        return Err(Failure::invalid_use(format!(
            "{}: run {} {} has its own kernel, which --kernel would replace; remove one of the two, or select other \
             runs with --only",
            file.file.at(stated.spot),
            run.name,
            variant.words()
        )));
    }
    // Options of the command override those of the file.
    let number = |number: Option<u64>| number.iter().map(ToString::to_string).collect::<Vec<_>>();
    conditions.replace("repeat", &number(study.repeat.map(u64::from)), run.spot);
    conditions.replace("seed", &number(study.seed), run.spot);
    if non_lab_target.is_none() {
        conditions.replace("kernel", &study.kernels, run.spot);
        conditions.replace("cpu", study.cpu.as_slice(), run.spot);
    }
    let origin = Origin {
        file: file.file.clone(),
        run: run.spot,
        workload: run.workload_spot,
        arguments: conditions.arguments(),
    };
    let title = format!("{} {}", run.name, variant.words());
    let locate = |failure: Failure| origin.locate(&title, failure);
    let request = conditions.request(&run.workload).map_err(|InvalidValue { spot, message }| {
        Failure::invalid_use(format!("{}: run {title}: {message}", file.file.at(spot)))
    })?;
    let request = RunSpec { jobs: study.jobs, ..request };
    let experiment = Experiment::resolve(request).map_err(locate)?;
    let folder = folder.join(variant.name()).join(&run.name);
    let (name, rows) = (run.name.clone(), Vec::new());
    Ok(StudyRun { name, variant, experiment, rows, folder, non_lab_target, origin })
}

impl Origin {
    fn locate(&self, title: &str, failure: Failure) -> Failure {
        let position = self.file.at(self.spot(&failure.message));
        let message = format!("{position}: run {title}: {}", failure.message);
        Failure { message, ..failure }
    }

    /// Returns the position of the subject of a message: a value, a setting, the first option, the workload, or else
    /// the run.
    fn spot(&self, message: &str) -> Spot {
        let is_named = |argument: &&Argument| {
            let Some((option, value)) = argument.text.split_once('=') else { return false };
            let key = value.split('=').next().unwrap_or(value);
            let is_key = ["--set", "--sysctl"].contains(&option)
                && (message.contains(&format!("'{key}'")) || message.contains(&format!("{key}=")));
            is_key || message.contains(&format!("'{value}'"))
        };
        let option = |argument: &Argument| {
            let option = argument.text.split('=').next().unwrap_or(&argument.text);
            position_of(message, option).map(|position| (position, argument.spot))
        };
        let first =
            || self.arguments.iter().filter_map(option).min_by_key(|(position, _)| *position);
        match self.arguments.iter().find(is_named) {
            Some(argument) => argument.spot,
            None => match first() {
                Some((_, spot)) => spot,
                None if message.contains("workload '") => self.workload,
                None => self.run,
            },
        }
    }
}

/// Finds an option as a whole word in a message.
fn position_of(message: &str, option: &str) -> Option<usize> {
    let is_word_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let found = message.match_indices(option).find(|(position, _)| {
        let preceding = message[..*position].chars().next_back();
        let following = message[position + option.len()..].chars().next();
        !preceding.is_some_and(is_word_part) && !following.is_some_and(is_word_part)
    });
    found.map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::catalog;
    use crate::named::built_in;

    #[test]
    fn every_built_in_study_can_be_planned_in_all_its_variants() {
        for name in catalog::names() {
            let file = built_in(name).unwrap();
            let runs = resolve(&StudyRequest::of(name), &file, Path::new("out"));
            let runs = runs.unwrap_or_else(|failure| panic!("{failure}"));
            for variant in file.variants() {
                assert!(runs.iter().any(|run| run.variant == variant), "{name}");
            }
            assert!(runs.iter().all(|run| run.trials() > 0), "{name}");
        }
    }

    /// Returns the error for a study with one run that consists of these lines, or else the number of its runs.
    fn resolve_message(run: &str) -> String {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\nsource = \"s\"\nyear = 2026\nabout = \"a\"\n[[run]]\nname = \"r\"\n{run}\n"
        );
        let file = StudyFile::parse("s.toml", &text).unwrap();
        match resolve(&StudyRequest::of("s.toml"), &file, Path::new("out")) {
            Ok(runs) => format!("{} runs", runs.len()),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn a_study_file_cannot_name_commands_or_modules_outside_the_lab() {
        let fuse = "fs = { x = \"fuse: sh -c 'id > x' {device} ; fuse2fs {device} {mount}\" }";
        let modules = "fs = { x = \"fuse2fs @ modules=x/evil\" }";
        for on in ["loop:64M", "ram:64M"] {
            let error_with =
                |fs: &str| resolve_message(&format!("workload = \"dirops\"\non = \"{on}\"\n{fs}"));
            let error = error_with(fuse);
            let is_located = error.starts_with("s.toml:");
            assert!(is_located && error.contains("'fuse:' is a command"), "{error}");
            let error = error_with(modules);
            assert!(error.contains("'mount modules' is not allowed in a file"), "{error}");
        }
        let error = resolve_message("workload = \"dirops\"\non = \"/dev/no-such-drive\"");
        assert!(error.contains("is a drive, and a study file cannot name one"), "{error}");
        // Commands and modules are harmless in a guest of the lab.
        for fs in [fuse, modules] {
            assert_eq!(resolve_message(&format!("workload = \"dirops\"\n{fs}")), "1 runs");
        }
    }

    #[test]
    fn the_workload_of_a_file_is_never_an_option() {
        let error = resolve_message("workload = \"--help\"");
        assert!(error.contains("workload '--help'"), "{error}");
    }

    #[test]
    fn an_option_is_found_in_a_message_as_a_whole_word() {
        assert_eq!(position_of("take --size or --disk", "--disk"), Some(15));
        assert_eq!(position_of("take --journal-size", "--journal"), None);
        assert_eq!(position_of("leave --disk", "--disk"), Some(6));
    }
}
