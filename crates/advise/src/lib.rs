//! At most five answers, and from them the commands of fsdyno to run, with their times.

pub mod answers;
mod ask;
mod given;
mod power_cuts;
pub mod purpose;
mod steps;

pub use ask::Asker;
pub use given::{Given, check, from_options, from_questions};
pub use steps::{Step, Steps, of};
