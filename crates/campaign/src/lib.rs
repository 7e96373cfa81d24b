//! An experiment from its request to stored trials: plans a matrix of trials, orders them, runs them in a venue, and
//! stores them.

mod ages;
mod config;
mod device_rows;
pub mod input;
pub mod lab_rows;
mod logs;
pub mod matrix;
pub mod merge;
mod model_rows;
pub mod question;
mod refused;
pub mod run;
mod same;
pub mod schedule;
pub mod settings;
pub mod share;
pub mod side_file;
pub mod store;
pub mod sysctl;
pub mod two_stage;

pub use input::read_inputs;
pub use matrix::matrix;
pub use merge::{MergeError, Merged, merge};
pub use model_rows::BLOCK_SIZES as MODEL_BLOCK_SIZES;
pub use question::{
    Cell, DevicePlace, HostDevice, LabPlace, MatrixError, ModelPlace, Place, Question, Size,
    USUAL_DEADLINE, USUAL_RAM,
};
pub use run::{Observer, RunError, Runner, Summary, is_there, run, todo};
pub use same::{may_join, others};
pub use schedule::{Shard, Slot, schedule, stage};
pub use share::{Share, ShareError};
pub use store::{Store, StoreError, drop_superseded, without_superseded};
