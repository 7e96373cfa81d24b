//! Text, HTML, CSV and Markdown from stored trials.
//!
//! Everything starts from [`load`] and uses one view of the trials ([`view`]), so a table, an email and
//! the page show the same numbers. Every command's output is a [`table::Output`], printed in every [`Format`].

mod ages;
mod answer;
mod baseline;
mod calls;
mod capacity;
mod clients;
mod columns;
mod command;
pub mod compare;
pub mod compressed;
mod crash;
#[cfg(test)]
mod crash_fixture;
mod curve;
mod described;
mod device;
mod disks;
mod error;
mod exports;
mod fidelity;
#[cfg(test)]
mod fixture;
mod instrument;
mod labs;
mod load;
mod machines;
mod markup;
mod matrix;
mod measure;
mod model;
mod number;
mod original;
mod page;
mod pairing;
mod part;
mod preliminary;
mod processor;
mod ranks;
mod records;
mod repeatability;
mod repeats;
mod run;
mod scaling;
pub mod schemas;
pub mod seconds;
mod series;
mod sort;
mod spreadsheet;
mod statistics;
pub mod study;
mod subject;
pub mod table;
mod timeline;
mod trace;
mod trees;
mod trials;
pub mod tune;
mod unfinished;
#[cfg(test)]
mod unsafe_tests;
pub mod validity;
mod view;
pub mod why;
mod work_units;
mod wrap;

pub use baseline::{Basis, DEFAULT_LEAST_DIFFERENCE};
pub use clients::Clients;
pub use columns::COLUMN_NAMES;
pub use crash::CrashReport;
pub use device::{flags, risks};
pub use error::ReportError;
pub use load::{LoadError, Loaded, Torn, is_result, load, results_below};
pub use number::{counted, percent, sanitize};
pub use page::{
    ChartFile, charts, crash_html, drawn_trials, factor_charts, html, html_with, is_chart,
    published_charts, study_page, tune_html, why_charts,
};
pub use pairing::{Matching, Pairing};
pub use part::Part;
pub use preliminary::preliminary;
pub use processor::of_figure as processor_error;
pub use ranks::Ranks;
pub use run::Run;
pub use series::{OverTime, load_series};
pub use sort::Sort;
pub use table::{Format, Output, SpecialFormat, Style};
pub use trace::Summary as TraceSummary;
pub use trials::{Trials, table};
pub use tune::Tuned;
pub use view::{distinct, flags_and_failures, main_op};
pub use why::load_why;
