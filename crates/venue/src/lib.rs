//! Where trials run: this host, the lab.

mod array;
mod check;
pub mod clock;
pub mod cut;
pub mod error;
pub mod ground;
pub mod host;
pub mod input;
pub mod lab;
mod made;
mod region;
pub mod request_log;
pub mod tools;
pub mod venue;

pub use error::VenueError;
pub use host::HostVenue;
pub use input::{InputFile, Inputs};
pub use lab::LabVenue;
pub use made::Attention;
pub use venue::{Identity, Ran, Venue, Watch};
