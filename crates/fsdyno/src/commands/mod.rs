//! The commands, one file each.

pub mod advise;
mod compare;
pub mod crash;
mod demo;
mod doctor;
mod fit;
mod generate;
pub mod import;
pub mod kernel;
mod list;
mod merge;
mod named;
mod note;
mod page;
pub mod record;
mod report;
mod run;
mod show;
pub mod study;
pub mod tune;
mod why;

use crate::cli::Command;
use crate::exit::{Exit, Failure};
use crate::version;

/// Runs a command.
pub fn run(command: Command) -> Result<Exit, Failure> {
    match named::with_paths(command)? {
        Command::Demo(demo) => demo::run(&demo),
        Command::Advise(advise) => advise::run(&advise),
        Command::Run(run) => run::run(&run),
        Command::Merge(merge) => merge::run(&merge),
        Command::Report(report) => report::run(&report),
        Command::Compare(compare) => compare::run(&compare),
        Command::Crash(crash) => crash::run(&crash),
        Command::Study(study) => study::run(&study),
        Command::Tune(tune) => tune::run(&tune),
        Command::Note(note) => note::run(&note),
        Command::Why(why) => why::run(&why),
        Command::Record(record) => record::run(&record),
        Command::Import(import) => import::run(&import),
        Command::Mark(mark) => record::mark(&mark),
        Command::List(list) => list::run(&list),
        Command::Show(show) => show::run(&show),
        Command::Fit(fit) => fit::run(&fit),
        Command::Kernel(kernel) => kernel::run(&kernel),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions(completions) => generate::completions(&completions),
        Command::Man(man) => generate::man_pages(&man),
        Command::RankWorker => fsdyno_campaign::ranks::work(version::description()),
    }
}
