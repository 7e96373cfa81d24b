//! `fsdyno why`: a second pass of stored trials, looked at, says where their time went.

mod chosen;
mod keep;
mod look;
mod show;

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::{SCHEMA, Trial, naming};
use fsdyno_why::{Explained, Told};

use crate::cli::Why;
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::stop;
use chosen::{check_phase, chosen, pairs};
use keep::Kept;
use look::Looker;

/// Explains what is in a result, against another where one is named.
pub fn run(why: &Why) -> Result<Exit, Failure> {
    let trials = chosen(&why.result, &why.fs, why.seed)?;
    let rows: Vec<String> = why.against_fs.iter().cloned().collect();
    let others =
        why.against.as_deref().map(|folder| chosen(folder, &rows, why.seed)).transpose()?;
    let pairs = pairs(&trials, others.as_deref())?;
    check_phase(why.phase.as_deref(), &trials)?;
    let all = fsdyno_report::load([&why.result])?.trials;
    report::check_baseline(why.baseline.as_deref(), all.iter().map(|it| it.plan.label.as_str()))?;
    let mut kept = Kept::of(&why.result)?;
    let stop = stop::flag()?;
    let all = trials.iter().chain(others.iter().flatten());
    let looker = Looker::new(all, &why.kernels, &stop)?;
    // What stands in one sentence is told apart in it: a kernel, a disk, a parameter.
    let names = naming::Names::of(trials.iter().chain(others.iter().flatten()));
    let mut explained: BTreeMap<(bool, usize), Explained> = BTreeMap::new();
    let mut written = BTreeSet::new();
    let mut one = |(at, other): (usize, Option<usize>)| -> Result<(), Failure> {
        let mut of = |is_other: bool, at: usize, trial: &Trial| -> Result<Explained, Failure> {
            if let Some(known) = explained.get(&(is_other, at)) {
                return Ok(known.clone());
            }
            let mut new = looker.explain(trial)?;
            (new.workload, new.label) = (names.workload(trial), names.row(trial));
            explained.insert((is_other, at), new.clone());
            Ok(new)
        };
        let mut here = of(false, at, &trials[at])?;
        let other = other.zip(others.as_ref());
        let mut there = other.map(|(at, others)| of(true, at, &others[at])).transpose()?;
        if let Some(kept) = &mut kept {
            kept.add(Told { schema: SCHEMA, it: here.clone(), against: there.clone() })?;
        }
        if let Some(phase) = &why.phase {
            here = here.only(phase);
            there = there.map(|there| there.only(phase));
        }
        show::show(why, &here, there.as_ref(), &mut written)
    };
    let done = pairs.into_iter().try_for_each(&mut one);
    // Those before one that failed stand in the page too; why it ended is what is told.
    let page = kept.map_or(Ok(()), |kept| kept.page(why));
    done.and(page).map(|()| Exit::Good)
}
