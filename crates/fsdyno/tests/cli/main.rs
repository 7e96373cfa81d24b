//! Tests of the command line that run no guest: input, results, studies, documents.

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod bad_files;
mod bad_input;
mod bad_results;
mod bounds;
mod comfort;
mod command;
mod docs;
mod dry_run;
mod links;
mod machines;
mod model;
mod network;
mod record;
mod repeats;
mod replay;
mod study;
mod study_folder;
mod terminal;
mod tune;
mod words;
