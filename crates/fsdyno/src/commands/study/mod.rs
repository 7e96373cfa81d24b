//! `fsdyno study`: carries out the study runs one by one, and judges the claims.

mod args;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_campaign::labs;
use fsdyno_report::{Basis, Format};
use fsdyno_study::{Runs, StudyResult, archive, check, stored};

pub use args::Study;

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::{session, version};
use fsdyno_campaign::stop;

/// Runs the command.
pub fn run(study: &Study) -> Result<Exit, Failure> {
    let mut request = study.request();
    if let Some(count) = study.check {
        if study.format != Format::Text {
            return Err(Failure::invalid_use("--check supports only --format text"));
        }
        let print = &mut output::write_data;
        return check::run(&request, count as usize, version::build(), print);
    }
    if let Some(kernels) = labs::expand_kernels(&request.kernels)? {
        request.kernels = kernels;
    }
    let mut runs = Runs::resolve(request)?;
    if study.dry_run {
        return print_plan(&mut runs, study.format);
    }
    runs.check_permission()?;
    let (stop, command) = (stop::flag()?, session::command());
    let (summary, failed) = runs.measure(&session::create(&stop, &command))?;
    // The stored trials are shown even after a failure; the failure's error is returned first.
    let show_result = show(&runs, study.format);
    if let Some(failure) = failed {
        return Err(failure);
    }
    show_result?;
    Ok(session::exit(&stop, &summary, &runs.folder))
}

/// Prints what would run, and finally any requirement that this host lacks.
fn print_plan(runs: &mut Runs, format: Format) -> Result<Exit, Failure> {
    let as_json = output::plan_as_json(format)?;
    let (stop, command) = (Arc::new(AtomicBool::new(false)), session::command());
    let planned = runs.plan(&session::create(&stop, &command))?;
    match as_json {
        true => output::write_json(&planned.values)?,
        false => output::write_data(&planned.text)?,
    }
    planned.missing.map_or(Ok(Exit::Success), Err)
}

/// Prints the verdicts on the stored trials, and writes the report; does nothing without trials.
fn show(runs: &Runs, format: Format) -> Result<(), Failure> {
    let result = StudyResult::of(&runs.folder, &runs.file)?;
    if result.is_empty() {
        return Ok(());
    }
    let written = result.write_page(&runs.folder);
    print(&result, format, None.into())?;
    written
}

fn print(result: &StudyResult, format: Format, basis: Basis<'_>) -> Result<(), Failure> {
    output::write_data(&result.render(format, output::style(), basis)?)?;
    result.say_flags(format);
    Ok(())
}

/// Runs `fsdyno report` for a study's folder.
///
/// # Errors
/// A file that is unreadable or unwritable.
pub fn report(args: &Report, folder: &Path) -> Result<Exit, Failure> {
    let (_, file) = stored::read(folder)?;
    args.archive.as_deref().map_or(Ok(()), |target| archive::check(folder, target))?;
    let result = StudyResult::of(folder, &file)?;
    if result.is_empty() {
        let folder = folder.display();
        return Err(Failure::invalid_use(format!("'{folder}' has no trials; run the study first")));
    }
    let baseline = args.baseline.as_deref();
    result.check_baseline(baseline)?;
    let basis = args.comparison.basis(baseline);
    if let Some(target) = &args.charts {
        result.charts(target, args.png, basis)?;
    }
    if let Some(target) = &args.archive {
        result.archive((folder, target), &file, basis)?;
    }
    if let Some(path) = &args.html
        && write_page(path, &result.html(basis)?)?
    {
        return Ok(Exit::Success);
    }
    print(&result, args.format, basis)?;
    Ok(Exit::Success)
}
