//! Plan a matrix of trials, order them, run them through a venue, store them.
