//! The `fsdyno` command.

fn main() {}
