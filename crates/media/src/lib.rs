//! What a file system lies on: directory, later loop file, block device, RAM.
