//! A leg: one run of a study in one variant, which is one `fsdyno run` with a folder of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::Author;
use fsdyno_record::suggest;
use fsdyno_study::Cell;
use fsdyno_study::file::{self, FileName, Planned, Spot, StudyFile, Variant, Word};

use super::Study;
use crate::cli;
use crate::commands::run;
use crate::exit::Failure;
use crate::place::Asked;
use crate::words::as_run;

/// One run in one variant.
pub struct Leg {
    /// The run's name.
    pub name: String,
    /// The variant.
    pub variant: Variant,
    /// As the command line has it.
    pub run: cli::Run,
    /// What is asked of which place.
    pub asked: Vec<Asked>,
    /// What comes of it.
    pub cells: Vec<Cell>,
    /// The labels of its rows that are asked for; all where there are none.
    rows: Vec<String>,
    /// The folder of its results.
    pub folder: PathBuf,
    /// Where it runs, if that is not the lab.
    pub outside: Option<String>,
    origin: Origin,
}

/// Where in the file a leg comes from.
struct Origin {
    file: FileName,
    run: Spot,
    workload: Spot,
    words: Vec<Word>,
}

impl Leg {
    /// In words: `tarball as then`.
    pub fn called(&self) -> String {
        format!("{} {}", self.name, self.variant.words())
    }

    /// A failure with the place in the file that it comes from.
    pub fn told(&self, failure: Failure) -> Failure {
        self.origin.told(&self.called(), failure)
    }

    /// Whether a row of this label is asked for.
    pub fn takes(&self, label: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| row == label)
    }

    /// How many trials it has.
    pub fn trials(&self) -> usize {
        self.cells.len() * self.run.repeat as usize
    }
}

/// The legs that are asked for, all that is written of them checked: as then first.
///
/// # Errors
/// The first thing that cannot be meant, with its place in the file.
pub fn legs(study: &Study, file: &StudyFile, folder: &Path) -> Result<Vec<Leg>, Failure> {
    let mut legs = Vec::new();
    for variant in Variant::ALL {
        // What stands as it is belongs to both.
        let wanted = study.variant.is_none_or(|it| variant == it || variant == Variant::AsItStands);
        for run in file.runs.iter().filter(|run| wanted && run.has(variant)) {
            if study.only.is_empty() || study.only.contains(&run.name) {
                legs.push(leg(study, file, (run, variant), folder)?);
            }
        }
    }
    let planned: Vec<Planned<'_>> = legs
        .iter()
        .map(|leg| Planned { run: &leg.name, variant: leg.variant, cells: &leg.cells })
        .collect();
    file::check_planned(file, &planned).map_err(|error| Failure::wrong(error.to_string()))?;
    let legs = only_rows(&study.fs, legs)?;
    check_kernels(study, &legs)?;
    Ok(legs)
}

/// What is left of legs where only some rows are asked for, each by its label.
fn only_rows(asked: &[String], mut legs: Vec<Leg>) -> Result<Vec<Leg>, Failure> {
    if asked.is_empty() {
        return Ok(legs);
    }
    let cells = legs.iter().flat_map(|leg| &leg.cells);
    let labels: BTreeSet<&str> = cells.map(|cell| cell.plan.label.as_str()).collect();
    for (at, label) in asked.iter().enumerate() {
        if !labels.contains(label.as_str()) {
            let hint = suggest::hint(label, labels);
            return Err(Failure::wrong(format!(
                "--fs {label}: no run that is asked for has such a row; {hint}"
            )));
        }
        if asked[..at].contains(label) {
            return Err(Failure::wrong(format!("--fs names {label} twice")));
        }
    }
    for leg in &mut legs {
        leg.rows = asked.to_vec();
        leg.cells.retain(|cell| asked.contains(&cell.plan.label));
    }
    legs.retain(|leg| !leg.cells.is_empty());
    Ok(legs)
}

/// Refuses `--kernel` where no run is in the lab, which alone has kernels to choose from.
fn check_kernels(study: &Study, legs: &[Leg]) -> Result<(), Failure> {
    let Some(kernel) = study.kernels.first().filter(|_| !legs.is_empty()) else { return Ok(()) };
    if legs.iter().any(|leg| leg.outside.is_none()) {
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "--kernel {kernel} is for the lab, and no run that is asked for is in it ({}); leave it out",
        outside(legs).join(", ")
    )))
}

/// The legs that run outside of the lab, each with its place.
pub fn outside(legs: &[Leg]) -> Vec<String> {
    let told = |leg: &Leg| Some(format!("{} on {}", leg.called(), leg.outside.as_ref()?));
    legs.iter().filter_map(told).collect()
}

fn leg(
    study: &Study,
    file: &StudyFile,
    (run, variant): (&file::Run, Variant),
    folder: &Path,
) -> Result<Leg, Failure> {
    let conditions = run.conditions(variant).unwrap_or_default();
    let on = conditions.option("on").and_then(|on| on.value.clone());
    let outside = on.filter(|on| on != "lab");
    if let Some(own) = conditions.option("kernel").filter(|_| !study.kernels.is_empty()) {
        return Err(Failure::wrong(format!(
            "{}: run {} {} names its own kernel, which --kernel would replace; leave one of the \
             two out, or this run with --only",
            file.file.at(own.spot),
            run.name,
            variant.words()
        )));
    }
    let mut words = conditions.words();
    let mut typed = |option: &str, values: Vec<String>| {
        if values.is_empty() {
            return;
        }
        let option = format!("--{option}=");
        words.retain(|word| !word.text.starts_with(&option));
        let word = |value: String| Word { text: format!("{option}{value}"), spot: run.spot };
        words.extend(values.into_iter().map(word));
    };
    // What is typed for all runs wins over what the file says of one.
    typed("repeat", study.repeat.iter().map(ToString::to_string).collect());
    typed("seed", study.seed.iter().map(ToString::to_string).collect());
    typed("jobs", vec![study.jobs.to_string()]);
    if outside.is_none() {
        typed("kernel", study.kernels.clone());
    }
    let origin = Origin {
        file: file.file.clone(),
        run: run.spot,
        workload: run.workload_spot,
        words: words.clone(),
    };
    let called = format!("{} {}", run.name, variant.words());
    let told = |failure: Failure| origin.told(&called, failure);
    let all = words.into_iter().map(|word| word.text);
    // Whatever the file calls its workload is no option.
    let workload = ["--".to_string(), run.workload.clone()];
    let typed = as_run(all.chain(workload), Author::File).map_err(told)?;
    let (asked, cells) = run::meant(&typed).map_err(told)?;
    let folder = folder.join(variant.name()).join(&run.name);
    let (name, rows) = (run.name.clone(), Vec::new());
    Ok(Leg { name, variant, run: typed, asked, cells, rows, folder, outside, origin })
}

impl Origin {
    fn told(&self, called: &str, failure: Failure) -> Failure {
        let place = self.file.at(self.spot(&failure.message));
        let message = format!("{place}: run {called}: {}", failure.message);
        Failure { message, ..failure }
    }

    /// The place of what a message speaks of: a value, a setting, the first option, the workload; else the run.
    fn spot(&self, message: &str) -> Spot {
        let named = |word: &&Word| {
            let Some((option, value)) = word.text.split_once('=') else { return false };
            let key = value.split('=').next().unwrap_or(value);
            let is_key = ["--set", "--sysctl"].contains(&option)
                && (message.contains(&format!("'{key}'")) || message.contains(&format!("{key}=")));
            is_key || message.contains(&format!("'{value}'"))
        };
        let option = |word: &Word| {
            let option = word.text.split('=').next().unwrap_or(&word.text);
            place_of(message, option).map(|at| (at, word.spot))
        };
        let first = || self.words.iter().filter_map(option).min_by_key(|(at, _)| *at);
        match self.words.iter().find(named) {
            Some(word) => word.spot,
            None => match first() {
                Some((_, spot)) => spot,
                None if message.contains("workload '") => self.workload,
                None => self.run,
            },
        }
    }
}

/// Where a message has an option as a whole word.
fn place_of(message: &str, option: &str) -> Option<usize> {
    let part_of_one = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let found = message.match_indices(option).find(|(at, _)| {
        let before = message[..*at].chars().next_back();
        let behind = message[at + option.len()..].chars().next();
        !before.is_some_and(part_of_one) && !behind.is_some_and(part_of_one)
    });
    found.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fsdyno_study::file::catalog;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn every_study_that_comes_with_it_can_be_planned_as_then_and_as_today() {
        for name in catalog::names() {
            let Ok(Command::Study(study)) =
                Cli::try_parse_from(["fsdyno", "study", name]).map(|cli| cli.command)
            else {
                panic!("{name}")
            };
            let file = super::super::built_in(name).unwrap();
            let legs = legs(&study, &file, Path::new("out"));
            let legs = legs.unwrap_or_else(|failure| panic!("{failure}"));
            for variant in file.variants() {
                assert!(legs.iter().any(|leg| leg.variant == variant), "{name}");
            }
            assert!(legs.iter().all(|leg| leg.trials() > 0), "{name}");
        }
    }

    /// What is said of a study with one run of these lines.
    fn refused(run: &str) -> String {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\nsource = \"s\"\nyear = 2026\nabout = \"a\"\n[[run]]\nname = \"r\"\n{run}\n"
        );
        let file = StudyFile::parse("s.toml", &text).unwrap();
        let Ok(Command::Study(study)) =
            Cli::try_parse_from(["fsdyno", "study", "s.toml"]).map(|cli| cli.command)
        else {
            panic!("no fsdyno study")
        };
        match legs(&study, &file, Path::new("out")) {
            Ok(legs) => format!("{} legs", legs.len()),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn a_file_names_no_command_and_no_code_outside_of_the_lab() {
        let fuse = "fs = { x = \"fuse: sh -c 'id > x' {device} ; fuse2fs {device} {mount}\" }";
        let modules = "fs = { x = \"fuse2fs @ modules=x/evil\" }";
        for on in ["loop:64M", "ram:64M"] {
            let on = |fs: &str| refused(&format!("workload = \"dirops\"\non = \"{on}\"\n{fs}"));
            let said = on(fuse);
            assert!(said.starts_with("s.toml:") && said.contains("'fuse:' is a command"), "{said}");
            let said = on(modules);
            assert!(said.contains("'mount modules' is not allowed in a file"), "{said}");
        }
        let said = refused("workload = \"dirops\"\non = \"/dev/null-of-nobody\"");
        assert!(said.contains("is a drive, and a file names none"), "{said}");
        // In a guest of the lab they do no harm.
        for fs in [fuse, modules] {
            assert_eq!(refused(&format!("workload = \"dirops\"\n{fs}")), "1 legs");
        }
    }

    #[test]
    fn what_a_file_calls_its_workload_is_no_option() {
        let said = refused("workload = \"--help\"");
        assert!(said.contains("workload '--help'"), "{said}");
    }

    #[test]
    fn an_option_is_found_in_a_message_as_a_whole_word() {
        assert_eq!(place_of("take --size or --disk", "--disk"), Some(15));
        assert_eq!(place_of("take --journal-size", "--journal"), None);
        assert_eq!(place_of("leave --disk", "--disk"), Some(6));
    }
}
