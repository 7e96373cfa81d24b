//! Run one trial: prepare, phases, verify, tear down; PID 1 of the lab's guest; serve the modelled disk.
