//! Tests of merged shards and of refused rows, through the public interface.

mod merge;
mod refused;
