//! Tests of the model of ext2 directories, through the public interface.

mod common;
mod counts;
mod oracle;
