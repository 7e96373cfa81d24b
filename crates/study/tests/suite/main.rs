//! Tests of study files and schemas, through the public interface.

mod published;
mod schema;
