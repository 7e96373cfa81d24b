//! Venues: what executes trials (this host, the lab, or the model).

pub mod agent;
mod array;
mod check;
pub mod clock;
pub mod commands;
pub mod cut;
mod device;
pub mod error;
pub mod fingerprint;
pub mod here;
pub mod host;
pub mod input;
pub mod lab;
pub mod logged;
pub mod md;
pub mod model;
mod parts;
mod prepared;
pub mod prerequisites;
mod profile;
pub mod recover;
pub mod region;
pub mod request_log;
pub mod tools;
pub mod venue;

pub use agent::Agent;
pub use commands::Commands;
pub use error::VenueError;
pub use host::HostVenue;
pub use input::{InputFile, Inputs};
pub use lab::LabVenue;
pub use logged::LoggedTrial;
pub use model::ModelVenue;
pub use prepared::SetupHooks;
pub use profile::{ProfiledRun, StageStart};
pub use venue::{FinishedTrial, Identity, Venue, Watch};
