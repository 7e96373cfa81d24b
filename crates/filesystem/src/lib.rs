//! The catalog of file systems: mkfs, mount, check, versions, modules, spec grammar.
