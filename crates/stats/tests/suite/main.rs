//! Tests of the consistency checks with published tables, through the public interface.

mod layton;
mod published_tables;
