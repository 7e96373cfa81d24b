//! Disk models, write cache, queue and store: pure, in virtual time, no I/O.
