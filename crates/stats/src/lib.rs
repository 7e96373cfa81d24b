//! Pure statistics of trials, every constant with its source.
