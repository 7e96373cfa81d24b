//! One phase in one trial.

use fsdyno_record::Trial;
use fsdyno_record::trial::Phase;

/// One phase in one trial.
pub type Run<'a> = (&'a Trial, &'a Phase);

/// Returns true if one of these trials replayed a recorded program.
pub fn replayed(runs: &[Run<'_>]) -> bool {
    runs.iter().any(|(trial, _)| trial.conditions.replay.is_some())
}
