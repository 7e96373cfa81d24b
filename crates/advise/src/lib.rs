//! Turns at most five answers into the fsdyno commands to run, with the time that each takes; also chooses the command
//! of the demo, which asks nothing.

pub mod answers;
mod ask;
mod demo;
mod given;
mod power_cuts;
pub mod purpose;
mod step;
mod steps;

pub use ask::Asker;
pub use demo::Demo;
pub use given::{Given, check, from_options, from_questions};
pub use step::Step;
pub use steps::{Steps, steps};
