//! Reduces a study to a smaller scale: divides the named parameters, memory, file system and journals by one
//! number. Everything else is unchanged, so caches have a different effect at a smaller scale, and the tables say so.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use fsdyno_filesystem::{Spec, SpecError, catalog};
use fsdyno_record::plan::RaidPlan;
use fsdyno_record::{Bytes, Count};
use fsdyno_workload::params::Domain;
use fsdyno_workload::{Curve, Widths, workloads};
use toml::de::DeTable;

use super::StudyFile;
use super::cell::Cell;
use super::claim::{Check, Test};
use super::conditions::{Conditions, Row, RunOption, Setting};
use super::error::{FileError, Spot};
use super::read::Item;
use super::run::{Run, Variant};
use super::text::without_mark;
use super::whole::{Whole, divided};
use fsdyno_campaign::matrix_request::{DEFAULT_JOURNAL, DEFAULT_RAM, DEFAULT_SIZE};
use fsdyno_campaign::rows::disk::{disk, largest};
use fsdyno_campaign::rows::lab::MIN_CACHEABLE;

/// A scale of one over a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(NonZeroU64);

impl Default for Scale {
    fn default() -> Scale {
        Scale(NonZeroU64::MIN)
    }
}

impl Scale {
    /// Returns the divisor; 1 at full scale.
    pub fn divisor(self) -> u64 {
        self.0.get()
    }

    /// Returns whether nothing is divided.
    pub fn is_full(self) -> bool {
        self.0 == NonZeroU64::MIN
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_full() {
            true => f.write_str("1"),
            false => write!(f, "1/{}", self.0),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        let number = match text.trim() {
            "1" => Some("1"),
            other => other.strip_prefix("1/"),
        };
        let number = number.and_then(|number| number.trim().parse().ok()).map(Scale);
        number.ok_or_else(|| "a scale is 1 or 1 over a whole number, such as 1/10".to_string())
    }
}

/// Reads the scale of a file.
pub(super) fn read(item: &Item<'_>) -> Result<Scale, FileError> {
    let text = item.argument()?;
    text.parse().map_err(|remedy| item.error(format!("'{text}' is not a scale"), remedy))
}

/// Maximum divisor in the search for valid scales.
const MAX_DIVISOR: u64 = 1_000_000;

/// Minimum file system size in the model.
const MIN_IN_MODEL: Bytes = Bytes(16 << 20);

const MIB: u64 = 1 << 20;

impl StudyFile {
    /// Returns the study at a scale: all quantities to which it applies are divided, including the points of cells.
    ///
    /// # Errors
    /// The first quantity of a run in `selected_runs` (of any run, if it is empty) that becomes too small, is not whole
    /// or cannot be divided, with a remedy.
    pub fn scaled(&self, scale: Scale, selected_runs: &[String]) -> Result<StudyFile, FileError> {
        let mut scaler = Scaler { selected_runs: selected_runs.to_vec(), ..Scaler::new(scale) };
        let scaled = self.scale_with(&mut scaler, scale);
        let Some(Refusal { spot, problem, remedy }) = scaler.first_refusal.take() else {
            return Ok(scaled);
        };
        Err(match remedy {
            Some(remedy) => self.error(spot, problem, remedy),
            None => self.error(spot, format!("at scale {scale} {problem}"), scaler.remedy()),
        })
    }

    /// Returns the study at the scale of its stored trials, without checks: these may have become stricter, and
    /// stored trials must remain readable.
    pub fn as_run(&self) -> StudyFile {
        self.scale_with(&mut Scaler::new(self.scale), self.scale)
    }

    fn scale_with(&self, scaler: &mut Scaler, scale: Scale) -> StudyFile {
        let mut scaled = StudyFile { scale, ..self.clone() };
        if scale.is_full() {
            return scaled;
        }
        let runs = self.runs.iter().map(|run| {
            scaler.is_checked =
                scaler.selected_runs.is_empty() || scaler.selected_runs.contains(&run.name);
            scaler.scale_run(run)
        });
        scaled.runs = runs.collect();
        for claim in &mut scaled.claims {
            if let Test::Check(check) = &mut claim.test {
                cells_mut(check).into_iter().for_each(|cell| self.scale_point(cell, scale));
            }
        }
        for column in scaled.published.iter_mut().flat_map(|table| &mut table.columns) {
            if let Ok(cell) = &mut column.measured {
                self.scale_point(cell.cell_mut(), scale);
            }
        }
        scaled
    }

    /// Scales the point of a curve that a cell selects.
    fn scale_point(&self, cell: &mut Cell, scale: Scale) {
        let Some(run) = self.run(&cell.run) else { return };
        for (key, value) in &mut cell.at {
            let is_curve_point = key == "files" && run.scales.iter().any(|name| name == "curve");
            let is_scaled = run.scales.contains(key) || is_curve_point;
            if let Some(number) = value.parse().ok().filter(|_| is_scaled) {
                *value = divided(number, scale.divisor()).to_string();
            }
        }
    }
}

fn cells_mut(check: &mut Check) -> Vec<&mut Cell> {
    match check {
        Check::Ratio { numerator, denominator, .. } => vec![numerator, denominator],
        Check::Order(cells) | Check::Within { cells, .. } => cells.iter_mut().collect(),
        Check::Value { cell, .. } | Check::Exponent { cell, .. } => vec![cell],
    }
}

/// The target of a run, as far as scaling depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunTarget {
    Lab,
    Model,
    /// A host: its memory and devices are unchanged; only the work is divided.
    Host,
}

/// The state of a division: the limits that the quantities seen so far place on the divisor, and the first error.
struct Scaler {
    divisor: u64,
    /// The names of the selected runs, or empty for all.
    selected_runs: Vec<String>,
    /// True while the quantities are those of a selected run.
    is_checked: bool,
    /// Maximum divisor that all quantities seen so far allow.
    max_divisor: u64,
    /// Quantities that must remain whole.
    wholes: Vec<Whole>,
    /// First error.
    first_refusal: Option<Refusal>,
}

/// The reason why a scale is refused.
struct Refusal {
    spot: Spot,
    problem: String,
    /// The remedy, unless it is a different scale.
    remedy: Option<String>,
}

impl Scaler {
    fn new(scale: Scale) -> Scaler {
        Scaler {
            divisor: scale.divisor(),
            selected_runs: Vec::new(),
            is_checked: true,
            max_divisor: u64::MAX,
            wholes: Vec::new(),
            first_refusal: None,
        }
    }

    fn refuse(&mut self, spot: Spot, problem: String, remedy: Option<String>) {
        if self.is_checked {
            self.first_refusal.get_or_insert(Refusal { spot, problem, remedy });
        }
    }

    /// Checks a quantity with a minimum.
    fn check_minimum(&mut self, minimum: u64, full: u64, (spot, name): (Spot, &str)) {
        let max_divisor = full / minimum.max(1);
        if self.is_checked {
            self.max_divisor = self.max_divisor.min(max_divisor);
        }
        if self.divisor > max_divisor {
            self.refuse(spot, format!("{name} becomes too small"), None);
        }
    }

    /// Divides a quantity that must remain whole.
    fn divide_whole(&mut self, full: Whole, (spot, name): (Spot, &str)) -> String {
        if !full.is_divisible(self.divisor) {
            self.refuse(spot, format!("{name} is not a whole number"), None);
        }
        let quotient = full.quotient(self.divisor);
        self.wholes.push(full);
        quotient
    }

    /// Returns whether a scale works for all quantities seen.
    fn is_valid(&self, divisor: u64) -> bool {
        divisor <= self.max_divisor && self.wholes.iter().all(|whole| whole.is_divisible(divisor))
    }

    /// Returns the remedy: the smallest valid scale, or the nearest ones.
    fn remedy(&self) -> String {
        let max_divisor = self.max_divisor.min(MAX_DIVISOR);
        let larger =
            (2..self.divisor.min(max_divisor + 1)).rev().find(|divisor| self.is_valid(*divisor));
        let smaller =
            (self.divisor.saturating_add(1)..=max_divisor).find(|divisor| self.is_valid(*divisor));
        match (larger, smaller) {
            (None, None) if self.max_divisor > MAX_DIVISOR => {
                format!("no scale down to 1/{MAX_DIVISOR} works")
            }
            (None, None) => "it runs at full scale only".to_string(),
            (Some(divisor), None) if self.divisor > self.max_divisor => {
                format!("the smallest scale that works is 1/{divisor}")
            }
            (Some(divisor), None) | (None, Some(divisor)) => format!("1/{divisor} works"),
            (Some(larger), Some(smaller)) => format!("1/{larger} and 1/{smaller} work"),
        }
    }

    fn scale_run(&mut self, run: &Run) -> Run {
        let mut scaled = run.clone();
        // These conditions include the common ones, and do not change if those are merged again.
        for variant in run.variants() {
            let conditions = run.conditions(variant).unwrap_or_default();
            let conditions = self.scale_conditions(run, conditions);
            match variant {
                Variant::Historical => scaled.then = Some(conditions),
                Variant::Current => scaled.today = Some(conditions),
                Variant::AsItStands => scaled.common = conditions,
            }
        }
        scaled
    }

    fn scale_conditions(&mut self, run: &Run, unscaled: Conditions) -> Conditions {
        let mut scaled = unscaled.clone();
        for key in &run.scales {
            self.scale_parameter(run, key, &mut scaled);
        }
        let target = match unscaled.option("on").and_then(|option| option.value.as_deref()) {
            None | Some("lab") => RunTarget::Lab,
            Some("model") => RunTarget::Model,
            Some(_) => RunTarget::Host,
        };
        if target == RunTarget::Host {
            return scaled;
        }
        if target == RunTarget::Lab {
            self.scale_memory(run, &unscaled, &mut scaled);
            self.scale_journals(run, &unscaled, &mut scaled);
        }
        self.scale_size(run, &unscaled, &mut scaled, target);
        scaled
    }

    /// Divides a parameter of the workload, or its default.
    fn scale_parameter(&mut self, run: &Run, key: &str, scaled: &mut Conditions) {
        let Ok(kind) = workloads::find(&run.workload) else { return };
        let Some(param) = kind.params.iter().find(|param| param.name == key) else { return };
        let known = scaled.parameter(key).cloned();
        let unset = Setting { key: key.into(), value: param.default.into(), spot: run.scales_spot };
        let setting = known.unwrap_or(unset);
        let name = format!("parameter {key}={} of run '{}'", setting.value, run.name);
        let mut divide = |number: u64, min: u64| {
            self.check_minimum(min.max(1), number, (setting.spot, &name));
            self.divide_whole(Whole::Number(number), (setting.spot, &name))
        };
        let value = match domain(&param.domain, &setting.value) {
            Domain::Whole { min, .. } => setting.value.parse().ok().map(|Count(n)| divide(n, min)),
            Domain::Size { min, .. } => {
                let size = setting.value.parse::<Bytes>().ok();
                size.map(|size| divide(size.0, min))
            }
            Domain::Curve { min, .. } => setting.value.parse::<Curve>().ok().map(|curve| {
                let points: Vec<String> = curve.points().iter().map(|n| divide(*n, min)).collect();
                points.join(",")
            }),
            Domain::Widths => setting.value.parse().ok().map(|widths: Widths| {
                self.check_minimum(1, widths.leaves(), (setting.spot, &name));
                self.divide_whole(Whole::Tree(widths), (setting.spot, &name))
            }),
            _ => None,
        };
        let Some(value) = value else {
            let remedy =
                "name only parameters that are numbers, sizes, curves or the widths of a tree";
            let problem = format!("{name} cannot be divided");
            return self.refuse(run.scales_spot, problem, Some(remedy.into()));
        };
        scaled.set.retain(|known| known.key != key);
        scaled.set.push(Setting { value, ..setting });
    }

    /// Divides the memory that can cache files, which by default is the guest's RAM.
    fn scale_memory(&mut self, run: &Run, unscaled: &Conditions, scaled: &mut Conditions) {
        let bytes = |option: &str| {
            let setting = unscaled.option(option)?;
            Some((setting.value.as_ref()?.parse::<Bytes>().ok()?, setting.spot))
        };
        let machine = unscaled.option("machine").and_then(|setting| setting.value.as_deref());
        let machine_ram =
            machine.and_then(|name| fsdyno_machine::find(name).ok()).map(|found| found.ram);
        let (ram, ram_spot) =
            bytes("ram").unwrap_or((machine_ram.unwrap_or(DEFAULT_RAM), run.spot));
        let (full, spot) = bytes("cacheable").unwrap_or((ram, ram_spot));
        let name = format!("the cacheable memory of run '{}', {full},", run.name);
        self.check_minimum(MIN_CACHEABLE.0, full.0, (spot, &name));
        replace_option(scaled, "cacheable", format!("{}K", full.0 / self.divisor / 1024), spot);
        // The RAM shrinks by the same amount, so the guest's own memory is unchanged. If the rest of a large guest's
        // RAM were locked instead, its kernel would have reserved more for itself than is left.
        if bytes("cacheable").is_some() {
            let reduction = (full.0 - full.0 / self.divisor).min(ram.0);
            // A guest's RAM is a whole number of mebibytes.
            replace_option(
                scaled,
                "ram",
                format!("{}M", (ram.0 - reduction).div_ceil(1 << 20)),
                ram_spot,
            );
        }
    }

    /// Divides the size of the file system, which is also that of the part of the disk that it occupies.
    fn scale_size(
        &mut self,
        run: &Run,
        unscaled: &Conditions,
        scaled: &mut Conditions,
        target: RunTarget,
    ) {
        let (value, spot) = match unscaled.option("size") {
            Some(setting) => (setting.value.clone(), setting.spot),
            None => (None, run.spot),
        };
        let default_disk = match target {
            RunTarget::Model => "ide-2001",
            _ => "hdd-7200",
        };
        let disk_name = unscaled
            .option("disk")
            .and_then(|setting| setting.value.as_deref())
            .unwrap_or(default_disk);
        // An unknown disk is reported when the run is checked.
        let Ok(disk) = disk(disk_name) else { return };
        let raid = unscaled
            .option("raid")
            .and_then(|setting| setting.value.as_ref()?.parse::<RaidPlan>().ok());
        let largest = largest(&disk, raid);
        let full = match value.as_deref() {
            None => DEFAULT_SIZE.min(largest),
            Some("whole") => largest,
            Some(size) => match size.parse() {
                Ok(size) => size,
                Err(_) => return,
            },
        };
        let specs = scaled.rows.iter().flatten().filter_map(|row| Spec::parse(&row.spec).ok());
        let min_sizes =
            specs.filter_map(|spec| Some(catalog::get(&spec.base().kind).ok()?.minimum_size));
        let min_size = match target {
            RunTarget::Model => MIN_IN_MODEL,
            _ => min_sizes.max().unwrap_or(Bytes(MIB)).max(Bytes(MIB)),
        };
        let name = format!("the file system of run '{}', {full},", run.name);
        self.check_minimum(min_size.0, full.0, (spot, &name));
        replace_option(scaled, "size", format!("{}M", full.0 / self.divisor / MIB), spot);
    }

    /// Divides the sizes of journals: those given in specs, and that of the second disk.
    fn scale_journals(&mut self, run: &Run, unscaled: &Conditions, scaled: &mut Conditions) {
        let for_period = unscaled.option("period").is_some();
        let (mut second_disk_spot, mut min_disk) = (None, 0);
        for row in scaled.rows.iter_mut().flatten() {
            let Ok(spec) = Spec::parse(&row.spec) else { continue };
            let Some(sizing) = spec.journal_sizing() else { continue };
            let size = match spec.journal_size() {
                Ok(size) => size,
                Err(error) => {
                    self.refuse_spec(run, row, error);
                    continue;
                }
            };
            if spec.names_second_disk() {
                second_disk_spot.get_or_insert(row.spot);
                let min_undivided = sizing.least_disk(for_period).0;
                // If the journal's size is divided too, the disk only has to hold the minimum journal.
                min_disk = min_disk.max(size.map_or(min_undivided, |_| sizing.least(for_period).0));
            }
            let Some(size) = size else { continue };
            if row.label == row.spec {
                // A row's default label is its spec, which changes with the scale.
                let problem =
                    format!("row '{}' is named after its spec, which the scale changes", row.label);
                self.refuse(row.spot, problem, Some("give the row a name".into()));
            }
            let divided = match spec.with_journal_size(Bytes(size.0 / self.divisor)) {
                Ok(divided) => divided,
                Err(error) => {
                    self.refuse_spec(run, row, error);
                    continue;
                }
            };
            let name = format!("the journal of '{}' of run '{}', {size},", row.label, run.name);
            self.check_minimum(sizing.least(for_period).0, size.0, (row.spot, &name));
            row.spec = divided.to_string();
        }
        let Some(spot) = second_disk_spot else { return };
        let setting =
            scaled.option("journal-size").and_then(|setting| setting.value.as_ref()?.parse().ok());
        let full: Bytes = setting.unwrap_or(DEFAULT_JOURNAL);
        let name = format!("the journal's disk of run '{}', {full},", run.name);
        self.check_minimum(min_disk.max(MIB), full.0, (spot, &name));
        replace_option(scaled, "journal-size", format!("{}M", full.0 / self.divisor / MIB), spot);
    }

    /// Reports the error in the journal of a row's spec.
    fn refuse_spec(&mut self, run: &Run, row: &Row, error: SpecError) {
        let problem = format!("'{}' of run '{}': {}", row.label, run.name, error.problem);
        self.refuse(row.spot, problem, Some(error.hint));
    }
}

/// Returns the domain that applies to a value of a parameter, which may also accept a fixed keyword.
fn domain(declared: &Domain, value: &str) -> Domain {
    match declared {
        Domain::Or(word, other) if *word != value => domain(other, value),
        other => *other,
    }
}

/// Replaces an option.
fn replace_option(conditions: &mut Conditions, option: &str, value: String, spot: Spot) {
    conditions.options.retain(|setting| setting.option != option);
    conditions.options.push(RunOption { option: option.to_string(), value: Some(value), spot });
}

/// Returns the text of a study with this scale at the top; a scale of 1 is omitted.
///
/// A byte order mark is removed; apart from this, a text that does not parse is returned unchanged.
pub fn with_scale(text: &str, scale: Scale) -> String {
    // A byte order mark before a key would become part of the key.
    let text = without_mark(text);
    let Ok(document) = DeTable::parse(text) else { return text.to_string() };
    let mut out = text.to_string();
    if let Some((key, value)) = document.get_ref().get_key_value("scale") {
        // The complete lines, including a trailing comment.
        let from = text[..key.span().start].rfind('\n').map_or(0, |newline| newline + 1);
        let end = value.span().end;
        let to = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
        out.replace_range(from..to, "");
    }
    if !scale.is_full() {
        // A comment at the top, such as the schema's, stays at the top.
        let comments = out.split_inclusive('\n').take_while(|line| line.starts_with('#'));
        let offset = comments.map(str::len).sum();
        out.insert_str(offset, &format!("scale = \"{scale}\"\n"));
    }
    out
}

#[cfg(test)]
mod tests;
