//! Issue ops, time them, record latencies: the only place that loops over system calls.
