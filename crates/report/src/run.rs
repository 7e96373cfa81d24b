//! One phase in one trial.

use fsdyno_record::Trial;
use fsdyno_record::trial::Phase;

/// One phase in one trial.
pub type Run<'a> = (&'a Trial, &'a Phase);
