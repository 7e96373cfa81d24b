//! An experiment from its request to stored trials: plans a matrix of trials, orders them, runs them in a venue, and
//! stores them.

pub mod again;
mod ages;
pub mod charts;
mod config;
pub mod crash;
mod device_rows;
pub mod drive;
pub mod dry_run;
pub mod experiment;
pub mod explain;
pub mod failure;
pub mod files;
pub mod input;
pub mod lab_rows;
pub mod leftovers;
mod logs;
mod machine;
pub mod matrix;
pub mod merge;
mod model_rows;
pub mod notes;
pub mod points;
pub mod question;
pub mod ranks;
mod refused;
pub mod repeats;
pub mod results;
pub mod run;
mod same;
pub mod schedule;
pub mod server;
pub mod settings;
pub mod share;
pub mod side_file;
pub mod spec;
pub mod speed;
pub mod store;
pub mod sysctl;
pub mod target;
mod tool_sets;
pub mod two_stage;
mod venues;

pub use experiment::{Experiment, Progress, Session};
pub use failure::{Exit, Failure};
pub use input::read_inputs;
pub use matrix::matrix;
pub use merge::{MergeError, Merged, merge};
pub use model_rows::BLOCK_SIZES as MODEL_BLOCK_SIZES;
pub use points::{PointSettings, Points};
pub use question::{
    Cell, DevicePlace, HostDevice, LabPlace, MatrixError, ModelPlace, Place, Question, Size,
    USUAL_DEADLINE, USUAL_RAM,
};
pub use ranks::RanksRequest;
pub use run::{Observer, RunError, Runner, Summary, is_there, run, todo};
pub use same::{may_join, others};
pub use schedule::{Shard, Slot, schedule, stage};
pub use share::{Share, ShareError};
pub use spec::RunSpec;
pub use store::{Store, StoreError, drop_superseded, without_superseded};
pub use venues::Venues;
