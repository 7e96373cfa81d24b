//! Plan a matrix of trials, order them, run them through a venue, store them.

mod config;
pub mod input;
pub mod matrix;
pub mod run;
pub mod schedule;
pub mod settings;
pub mod store;

pub use input::read_inputs;
pub use matrix::{Cell, LabPlace, MatrixError, Place, Question, Size, USUAL_DEADLINE, matrix};
pub use run::{Observer, RunError, Summary, is_there, run, todo};
pub use schedule::{Shard, Slot, schedule};
pub use store::{Store, StoreError, without_superseded};
