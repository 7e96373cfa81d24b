//! Runs experiments, from the request to the stored trials: plans a matrix of trials, orders them, runs them in a
//! venue, and stores them.

pub mod about;
pub mod boots;
pub mod charts;
mod compatibility;
mod config;
pub mod crash;
pub mod drive;
pub mod dry_run;
pub mod experiment;
pub mod explain;
pub mod failure;
pub mod files;
mod first_look;
pub mod first_round;
pub mod input;
pub mod labs;
pub mod leftovers;
mod load;
mod machine;
pub mod matrix;
pub mod matrix_request;
pub mod merge;
pub mod notes;
mod pace;
pub mod phase_name;
mod png;
pub mod points;
pub mod ranks;
pub mod recording;
mod refused;
pub mod repeats;
pub mod rerun;
pub mod results;
pub mod rows;
pub mod run;
mod run_error;
pub mod schedule;
pub mod server_defaults;
pub mod settings;
pub mod share;
pub mod spec;
pub mod speed;
pub mod stop;
pub mod store;
pub mod sysctl;
pub mod target;
pub mod time_left;
mod tool_sets;
pub mod tune;
pub mod two_stage;
mod unsupported;
pub mod user_request;
mod venues;

pub use compatibility::{check_compatible, unrequested_trials};
pub use experiment::{Experiment, Progress, Session};
pub use failure::{Exit, Failure};
pub use input::read_inputs;
pub use matrix::matrix;
pub use matrix_request::{
    Cell, DEFAULT_DEADLINE, DEFAULT_RAM, DevicePlace, HostDevice, LabPlace, MatrixError,
    MatrixRequest, ModelPlace, Place, Size,
};
pub use merge::{MergeError, Merged, merge};
pub use points::{PointSettings, Points};
pub use ranks::RanksRequest;
pub use rows::model::BLOCK_SIZES as MODEL_BLOCK_SIZES;
pub use run::{Observer, Runner, Summary, is_stored, run, todo};
pub use run_error::RunError;
pub use schedule::{Shard, Slot, schedule, stage};
pub use share::{ShareError, ShareFile};
pub use spec::RunSpec;
pub use store::{Store, StoreError, drop_superseded, without_superseded};
pub use venues::Venues;
