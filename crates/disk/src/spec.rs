//! Disk profiles: the model of a disk, its block-queue settings, and the sources of its numbers.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

use crate::models::Model;

/// A disk profile. It contains only integers, booleans and strings, since it is part of a plan's hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// One-sentence description.
    pub about: String,
    /// Size in bytes.
    pub capacity: Bytes,
    /// The method of attaching the disk to the kernel.
    pub attach: Attach,
    /// Settings of the kernel's block queue.
    pub queue: Queue,
    /// Model of service times.
    pub model: Model,
    /// Source of each number.
    pub source: Vec<Source>,
}

/// A method of attaching a disk to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// A network block device, served by the agent with the disk model.
    Nbd,
    /// An NVDIMM, which the kernel drives without a server, so only model `instant` is possible.
    Pmem,
}

/// Settings of the block queue, named as in /sys/block/*/queue.
///
/// A device without a request queue (pmem) has no maximum request size, scheduler, throttling or scheduler
/// requests: its profile omits them, and they are read as 0 and `none`. NBD needs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// True for a rotating disk.
    pub rotational: bool,
    /// Queue depth of the device itself.
    pub depth: u32,
    /// Maximum size of a request, in KiB.
    #[serde(default)]
    pub max_sectors_kb: u32,
    /// Read-ahead of the page cache, in KiB.
    pub read_ahead_kb: u32,
    /// The I/O scheduler.
    #[serde(default = "no_scheduler")]
    pub scheduler: String,
    /// Target latency of write-back throttling, in microseconds; 0 disables it.
    #[serde(default)]
    pub wbt_lat_usec: u64,
    /// Type of the device's write cache.
    pub write_cache: WriteCache,
    /// True if the device supports writes with FUA; if not, the kernel issues a flush instead.
    pub fua: bool,
    /// Smallest addressable unit, in bytes.
    pub logical_block_size: u32,
    /// Unit in which the medium is written, in bytes.
    pub physical_block_size: u32,
    /// True if the device supports TRIM.
    pub discard: bool,
    /// Number of requests of the scheduler.
    #[serde(default)]
    pub nr_requests: u32,
}

/// Block schedulers of Linux since 5.0.
pub const SCHEDULERS: &[&str] = &["none", "mq-deadline", "bfq", "kyber"];

fn no_scheduler() -> String {
    "none".into()
}

/// The type of a write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteCache {
    /// A completed write can be lost until the next flush.
    #[serde(rename = "write back")]
    WriteBack,
    /// A completed write is persisted.
    #[serde(rename = "write through")]
    WriteThrough,
}

impl WriteCache {
    /// Returns the name of the type in /sys/block/*/queue/write_cache.
    pub fn name(self) -> &'static str {
        match self {
            WriteCache::WriteBack => "write back",
            WriteCache::WriteThrough => "write through",
        }
    }
}

/// The source of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name of the parameter, or several names separated by commas.
    pub what: String,
    /// The value as in the source.
    pub value: String,
    /// The source, or the reasoning of an estimate.
    pub from: String,
}

/// An error in a disk profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Text that is not the TOML or JSON of a disk; the message contains the line.
    #[error("read the disk in {file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The parser's message.
        message: String,
    },
    /// A parameter out of its range.
    #[error("invalid disk profile {file}: {name} is {value}, but must be {range}")]
    Parameter {
        /// The file.
        file: String,
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
        /// Valid values.
        range: String,
    },
}

impl DiskSpec {
    /// Parses and validates a disk profile.
    ///
    /// # Errors
    /// [`SpecError`], with the file's name.
    pub fn from_toml(file: &str, text: &str) -> Result<DiskSpec, SpecError> {
        let syntax = |error: toml::de::Error| SpecError::Syntax {
            file: file.to_string(),
            message: one_line(text, &error),
        };
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let check = Check { file, inside: None };
        check_numbers(&check, "", &table, None)?;
        let spec: DiskSpec = match toml::from_str(text) {
            Ok(spec) => spec,
            Err(error) => {
                check_numbers(&check, "", &table, Some(error.message()))?;
                return Err(syntax(error));
            }
        };
        spec.check(file)?;
        Ok(spec)
    }

    /// Parses and validates the disk of a plan.
    ///
    /// # Errors
    /// [`SpecError`], with `the plan` as the file.
    pub fn from_json(value: &serde_json::Value) -> Result<DiskSpec, SpecError> {
        let spec: DiskSpec = DiskSpec::deserialize(value).map_err(|error| SpecError::Syntax {
            file: "the plan".into(),
            message: error.to_string(),
        })?;
        spec.check("the plan")?;
        Ok(spec)
    }

    /// Checks that all parameters are in range.
    ///
    /// # Errors
    /// [`SpecError::Parameter`] for the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), SpecError> {
        self.check("this plan")
    }

    fn check(&self, file: &str) -> Result<(), SpecError> {
        let check = Check { file, inside: None };
        self.check_strings(&check)?;
        // 1 MiB holds a partition table; 64 TiB is beyond any single drive.
        check.within("capacity", self.capacity.0, 1 << 20, 64 << 40)?;
        check.require(
            "capacity",
            self.capacity,
            self.capacity.0 % 4096 == 0,
            "a multiple of 4096",
        )?;
        self.check_queue(&check)?;
        let can_attach = self.attach == Attach::Nbd || !self.model.takes_time();
        check.require(
            "attach",
            "pmem",
            can_attach,
            "\"nbd\" for every model except \"instant\"",
        )?;
        self.model.check(self, &check)
    }

    /// Checks the strings, which are shown in terminals.
    fn check_strings(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let is_plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
        let sources = self.source.iter().flat_map(|source| {
            [
                ("source.what", &source.what),
                ("source.value", &source.value),
                ("source.from", &source.from),
            ]
        });
        for (name, text) in std::iter::once(("about", &self.about)).chain(sources) {
            check.require(
                name,
                text.escape_debug(),
                is_plain(text),
                "text without control characters",
            )?;
        }
        Ok(())
    }

    fn check_queue(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let queue = &self.queue;
        check.within("queue.depth", queue.depth.into(), 1, 1024)?;
        check.within("queue.read_ahead_kb", queue.read_ahead_kb.into(), 0, 1 << 20)?;
        check.within("queue.wbt_lat_usec", queue.wbt_lat_usec, 0, 10_000_000)?;
        for (name, size) in [
            ("queue.logical_block_size", queue.logical_block_size),
            ("queue.physical_block_size", queue.physical_block_size),
        ] {
            let in_range = size.is_power_of_two() && (512..=4096).contains(&size);
            check.require(name, size, in_range, "512, 1024, 2048 or 4096")?;
        }
        let minimum = queue.logical_block_size;
        let in_range = queue.physical_block_size >= minimum;
        let range = format!("at least the logical block size, {minimum}");
        check.require("queue.physical_block_size", queue.physical_block_size, in_range, &range)?;
        if self.attach == Attach::Nbd {
            let is_known = SCHEDULERS.contains(&queue.scheduler.as_str());
            check.require("queue.scheduler", &queue.scheduler, is_known, &SCHEDULERS.join(", "))?;
            check.within("queue.max_sectors_kb", queue.max_sectors_kb.into(), 4, 32 << 10)?;
            check.within("queue.nr_requests", queue.nr_requests.into(), 1, 4096)?;
        }
        Ok(())
    }
}

/// Rejects numbers that no parameter can have. The parser rejects most of them too, but does not name
/// the parameter if it is below `[model]`. `parser_message` is its error, if any.
fn check_numbers(
    check: &Check<'_>,
    path: &str,
    table: &toml::Table,
    parser_message: Option<&str>,
) -> Result<(), SpecError> {
    for (key, value) in table {
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(part) => check_numbers(check, &name, part, parser_message)?,
            toml::Value::Float(number) => {
                check.require(&name, number, false, "a whole number, 0 or more")?;
            }
            toml::Value::Integer(number) => {
                check.require(&name, number, *number >= 0, "a whole number, 0 or more")?;
                let is_rejected =
                    parser_message.is_some_and(|text| text.contains(&format!("`{number}`")));
                let maximum = u32::MAX;
                check.require(
                    &name,
                    number,
                    !is_rejected,
                    &format!("a whole number, at most {maximum}"),
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the parser's message on one line, with its position. The text at that position is not shown, since
/// the file may be any file that the user named.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let offset = error.span().map_or(0, |span| span.start);
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    let message = error.message().replace('\n', ", ");
    format!("line {line}, column {column}: {message}")
}

/// Checks a profile's parameters.
pub(crate) struct Check<'a> {
    file: &'a str,
    /// The table below `model` that holds the parameters, if they belong to a model within a model.
    inside: Option<&'a str>,
}

impl<'a> Check<'a> {
    /// Returns the checks of a model within a model; messages name its parameters as those of the table `inside`.
    pub(crate) fn inside(&self, inside: &'a str) -> Check<'a> {
        Check { file: self.file, inside: Some(inside) }
    }

    /// Returns an error unless `valid`; `range` describes the valid values.
    pub(crate) fn require(
        &self,
        name: &str,
        value: impl ToString,
        valid: bool,
        range: &str,
    ) -> Result<(), SpecError> {
        if valid {
            return Ok(());
        }
        Err(SpecError::Parameter {
            file: self.file.to_string(),
            name: match self.inside {
                Some(inside) => name.replacen("model.", &format!("model.{inside}."), 1),
                None => name.to_string(),
            },
            value: value.to_string(),
            range: range.to_string(),
        })
    }

    /// Checks that a number is within its bounds.
    pub(crate) fn within(
        &self,
        name: &str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<(), SpecError> {
        let valid = (min..=max).contains(&value);
        self.require(name, value, valid, &format!("{min} to {max}"))
    }
}
