//! Tests of the disk models, the store, the request log and the fitting, through the public interface.

mod any_requests;
mod cache_and_store;
mod card;
mod fit;
mod hard_disk;
mod load;
mod log;
mod network;
mod nvme;
mod shingled;
mod solid_state;
mod spec;
mod store;
