//! The identities of nodes, open files and threads in a trace.

use crate::error::Problem;
use crate::wire::{Sink, Source, Wire};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Wire for $name {
            fn put(&self, out: &mut Sink) {
                self.0.put(out);
            }

            fn get(from: &mut Source<'_>) -> Result<$name, Problem> {
                u32::get(from).map($name)
            }
        }
    };
}

id! {
    /// A file, directory, symbolic link or special file: anything with an inode. An identity is assigned once, and
    /// never reused for another node.
    NodeId
}
id! {
    /// An open file (an "open file description" of POSIX): made by open, shared by dup and fork.
    FileId
}
id! {
    /// A thread of the recorded program, numbered in order of their start; 0 is the first thread of the command.
    ThreadId
}
