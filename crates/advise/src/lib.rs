//! At most five answers, and from them the commands of fsdyno to run, with their times.

pub mod answers;
mod ask;
mod given;
mod power_cuts;
pub mod purpose;
mod step;
mod steps;

pub use ask::Asker;
pub use given::{Given, check, from_options, from_questions};
pub use step::Step;
pub use steps::{Steps, of};
