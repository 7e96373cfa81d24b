//! Implementation of the workload `bonnie`: one large file, a set of small ones, and their names.

pub mod alnum_names;
pub mod big_file;
pub mod file_set;
