//! Tests of study files, schemas and merged shards, through the public interface.

mod merge;
mod published;
mod refused;
mod schema;
