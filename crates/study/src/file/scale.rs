//! A study at a smaller scale: the parameters that it names, memory, file system and journals, all divided by
//! one number. The rest is as it was, so that it is another regime, and tables say so.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use fsdyno_filesystem::{Spec, SpecError, catalog};
use fsdyno_record::Bytes;
use fsdyno_record::plan::RaidPlan;
use fsdyno_workload::params::Domain;
use fsdyno_workload::{Curve, Widths, workloads};
use toml::de::DeTable;

use super::StudyFile;
use super::cell::Cell;
use super::claim::{Check, Test};
use super::conditions::{Conditions, Setting, Typed};
use super::error::{FileError, Spot};
use super::read::Item;
use super::run::{Run, Variant};
use super::whole::{Whole, divided};
use crate::lab_rows::{LEAST_CACHEABLE, disk, largest};
use crate::question::{USUAL_JOURNAL, USUAL_RAM, USUAL_SIZE};

/// One over a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(NonZeroU64);

impl Default for Scale {
    fn default() -> Scale {
        Scale(NonZeroU64::MIN)
    }
}

impl Scale {
    /// What sizes are divided by; 1 at full scale.
    pub fn divisor(self) -> u64 {
        self.0.get()
    }

    /// Whether nothing is divided.
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

    fn from_str(typed: &str) -> Result<Scale, String> {
        let number = match typed.trim() {
            "1" => Some("1"),
            other => other.strip_prefix("1/"),
        };
        let number = number.and_then(|number| number.trim().parse().ok()).map(Scale);
        number.ok_or_else(|| "a scale is 1 or 1 over a whole number, such as 1/10".to_string())
    }
}

/// As a file says it.
pub(super) fn typed(item: &Item<'_>) -> Result<Scale, FileError> {
    let text = item.typed()?;
    text.parse().map_err(|right| item.error(format!("'{text}' is no scale"), right))
}

/// No smaller scale than one over this is looked for.
const FURTHEST: u64 = 1_000_000;

/// The least file system of the model.
const LEAST_IN_MODEL: Bytes = Bytes(16 << 20);

const MIB: u64 = 1 << 20;

impl StudyFile {
    /// The study with everything that a scale divides divided by it, the points that cells name too.
    ///
    /// # Errors
    /// What becomes too small, or comes out no whole number, with scales that work.
    pub fn scaled(&self, scale: Scale) -> Result<StudyFile, FileError> {
        let mut scaled = StudyFile { scale, ..self.clone() };
        if scale.is_full() {
            return Ok(scaled);
        }
        let mut scaler = Scaler::new(self, scale);
        scaled.runs = self.runs.iter().map(|run| scaler.run(run)).collect::<Result<_, _>>()?;
        if let Some((spot, problem)) = scaler.first.clone() {
            let right = scaler.right();
            return Err(self.error(spot, format!("at scale {scale} {problem}"), right));
        }
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
        Ok(scaled)
    }

    /// The point of a curve that a cell names.
    fn scale_point(&self, cell: &mut Cell, scale: Scale) {
        let Some(run) = self.run(&cell.run) else { return };
        for (key, value) in &mut cell.at {
            let of_curve = key == "files" && run.scales.iter().any(|name| name == "curve");
            let named = run.scales.contains(key);
            if let Some(number) = value.parse().ok().filter(|_| named || of_curve) {
                *value = divided(number, scale.divisor()).to_string();
            }
        }
    }
}

fn cells_mut(check: &mut Check) -> Vec<&mut Cell> {
    match check {
        Check::Ratio { of, over, .. } => vec![of, over],
        Check::Order(cells) | Check::Within { cells, .. } => cells.iter_mut().collect(),
        Check::Value { cell, .. } | Check::Exponent { cell, .. } => vec![cell],
    }
}

/// Where a run is done, as far as scaling asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Lab,
    Model,
    /// Its memory and devices are as they are; only the work is divided.
    Host,
}

/// Divides runs, and keeps in mind what becomes too small or has to be whole.
struct Scaler<'a> {
    file: &'a StudyFile,
    by: u64,
    /// The largest divisor that all takes.
    most: u64,
    /// What has to be whole.
    wholes: Vec<Whole>,
    /// The first thing that is too small or not whole: where, and what.
    first: Option<(Spot, String)>,
}

impl Scaler<'_> {
    fn new(file: &StudyFile, scale: Scale) -> Scaler<'_> {
        Scaler { file, by: scale.divisor(), most: u64::MAX, wholes: Vec::new(), first: None }
    }

    /// Holds a quantity against the least that there may be of it.
    fn at_least(&mut self, least: u64, full: u64, (spot, name): (Spot, &str)) {
        let most = full / least.max(1);
        self.most = self.most.min(most);
        if self.by > most {
            self.first.get_or_insert_with(|| (spot, format!("{name} becomes too small")));
        }
    }

    /// Holds what has to be whole against the scale.
    fn whole(&mut self, full: Whole, (spot, name): (Spot, &str)) -> String {
        if !full.takes(self.by) {
            self.first.get_or_insert_with(|| (spot, format!("{name} comes out no whole number")));
        }
        let over = full.over(self.by);
        self.wholes.push(full);
        over
    }

    /// Whether everything that was looked at works at a scale.
    fn works(&self, by: u64) -> bool {
        by <= self.most && self.wholes.iter().all(|whole| whole.takes(by))
    }

    /// What would work: the smallest scale of all, or those on either side.
    fn right(&self) -> String {
        let most = self.most.min(FURTHEST);
        let larger = (2..self.by.min(most + 1)).rev().find(|by| self.works(*by));
        let near = self.by.saturating_mul(4).min(most);
        let smaller = (self.by.saturating_add(1)..=near).find(|by| self.works(*by));
        match (larger, smaller) {
            (None, None) => "it runs at full scale only".to_string(),
            (Some(by), None) if self.by > self.most => {
                format!("the smallest scale that works is 1/{by}")
            }
            (Some(by), None) | (None, Some(by)) => format!("1/{by} works"),
            (Some(larger), Some(smaller)) => format!("1/{larger} and 1/{smaller} work"),
        }
    }

    fn run(&mut self, run: &Run) -> Result<Run, FileError> {
        let mut scaled = run.clone();
        // What is merged already stays so when it is merged again.
        for variant in run.variants() {
            let conditions = run.conditions(variant).unwrap_or_default();
            let conditions = self.conditions(run, conditions)?;
            match variant {
                Variant::Then => scaled.then = Some(conditions),
                Variant::Today => scaled.today = Some(conditions),
                Variant::AsItStands => scaled.common = conditions,
            }
        }
        Ok(scaled)
    }

    fn conditions(&mut self, run: &Run, of: Conditions) -> Result<Conditions, FileError> {
        let mut scaled = of.clone();
        for key in &run.scales {
            self.parameter(run, key, &mut scaled)?;
        }
        let on = match of.option("on").and_then(|typed| typed.value.as_deref()) {
            None | Some("lab") => On::Lab,
            Some("model") => On::Model,
            Some(_) => On::Host,
        };
        if on == On::Host {
            return Ok(scaled);
        }
        if on == On::Lab {
            self.memory(run, &of, &mut scaled);
            self.journals(run, &of, &mut scaled)?;
        }
        self.size(run, &of, &mut scaled, on);
        Ok(scaled)
    }

    /// A parameter of the workload, its default where the file says nothing of it.
    fn parameter(
        &mut self,
        run: &Run,
        key: &str,
        scaled: &mut Conditions,
    ) -> Result<(), FileError> {
        let Ok(kind) = workloads::find(&run.workload) else { return Ok(()) };
        let Some(param) = kind.params.iter().find(|param| param.name == key) else { return Ok(()) };
        let known = scaled.parameter(key).cloned();
        let unset = Setting { key: key.into(), value: param.default.into(), spot: run.scales_spot };
        let setting = known.unwrap_or(unset);
        let name = format!("parameter {key}={} of run '{}'", setting.value, run.name);
        let mut number = |number: u64, min: u64| {
            self.at_least(min.max(1), number, (setting.spot, &name));
            self.whole(Whole::Number(number), (setting.spot, &name))
        };
        let value = match domain(&param.domain, &setting.value) {
            Domain::Whole { min, .. } => setting.value.parse().ok().map(|n| number(n, min)),
            Domain::Size { min, .. } => {
                let size = setting.value.parse::<Bytes>().ok();
                size.map(|size| number(size.0, min))
            }
            Domain::Curve { min, .. } => setting.value.parse::<Curve>().ok().map(|curve| {
                let points: Vec<String> = curve.points().iter().map(|n| number(*n, min)).collect();
                points.join(",")
            }),
            Domain::Widths => setting.value.parse().ok().map(|widths: Widths| {
                self.at_least(1, widths.leaves(), (setting.spot, &name));
                self.whole(Whole::Tree(widths), (setting.spot, &name))
            }),
            _ => None,
        };
        let Some(value) = value else {
            let problem = format!("{name} cannot be divided");
            return Err(self.file.error(
                run.scales_spot,
                problem,
                "name a number, a size, a curve or the widths of a tree",
            ));
        };
        scaled.set.retain(|known| known.key != key);
        scaled.set.push(Setting { value, ..setting });
        Ok(())
    }

    /// What can cache files; without a word of it the guest's RAM stands for that.
    fn memory(&mut self, run: &Run, of: &Conditions, scaled: &mut Conditions) {
        let bytes = |option: &str| {
            let typed = of.option(option)?;
            Some((typed.value.as_ref()?.parse::<Bytes>().ok()?, typed.spot))
        };
        let (full, spot) =
            bytes("cacheable").or_else(|| bytes("ram")).unwrap_or((USUAL_RAM, run.spot));
        let name = format!("the cacheable memory of run '{}', {full},", run.name);
        self.at_least(LEAST_CACHEABLE.0, full.0, (spot, &name));
        put(scaled, "cacheable", format!("{}K", full.0 / self.by / 1024), spot);
        // What the guest takes beside it stays as it is. Were the rest of a large guest's memory locked, its
        // kernel would have set aside more for itself than is then left.
        if let (Some(_), Some((ram, spot))) = (bytes("cacheable"), bytes("ram")) {
            let less = (full.0 - full.0 / self.by).min(ram.0);
            put(scaled, "ram", format!("{}K", (ram.0 - less) / 1024), spot);
        }
    }

    /// The file system, or the part of the disk that it has.
    fn size(&mut self, run: &Run, of: &Conditions, scaled: &mut Conditions, on: On) {
        let (typed, spot) = match of.option("size") {
            Some(typed) => (typed.value.clone(), typed.spot),
            None => (None, run.spot),
        };
        let usual = match on {
            On::Model => "ide-2001",
            _ => "hdd-7200",
        };
        let named = of.option("disk").and_then(|typed| typed.value.as_deref()).unwrap_or(usual);
        // A disk that there is not is told when the run is checked.
        let Ok(disk) = disk(named) else { return };
        let raid =
            of.option("raid").and_then(|typed| typed.value.as_ref()?.parse::<RaidPlan>().ok());
        let largest = largest(&disk, raid);
        let full = match typed.as_deref() {
            None => USUAL_SIZE.min(largest),
            Some("whole") => largest,
            Some(size) => match size.parse() {
                Ok(size) => size,
                Err(_) => return,
            },
        };
        let specs = scaled.rows.iter().flatten().filter_map(|row| Spec::parse(&row.spec).ok());
        let least =
            specs.filter_map(|spec| Some(catalog::get(&spec.made().kind).ok()?.minimum_size));
        let least = match on {
            On::Model => LEAST_IN_MODEL,
            _ => least.max().unwrap_or(Bytes(MIB)).max(Bytes(MIB)),
        };
        let name = format!("the file system of run '{}', {full},", run.name);
        self.at_least(least.0, full.0, (spot, &name));
        put(scaled, "size", format!("{}M", full.0 / self.by / MIB), spot);
    }

    /// Journals: those that specs give a size, and the one on a second disk.
    fn journals(
        &mut self,
        run: &Run,
        of: &Conditions,
        scaled: &mut Conditions,
    ) -> Result<(), FileError> {
        let as_then = of.option("period").is_some();
        let (mut second, mut least) = (None, 0);
        for row in scaled.rows.iter_mut().flatten() {
            let Ok(spec) = Spec::parse(&row.spec) else { continue };
            let Some(sizing) = spec.journal_sizing() else { continue };
            let refused = |error: SpecError| {
                let problem = format!("'{}' of run '{}': {}", row.label, run.name, error.problem);
                self.file.error(row.spot, problem, error.hint)
            };
            let size = spec.journal_size().map_err(refused)?;
            if spec.names_second_disk() {
                second.get_or_insert(row.spot);
                let alone = sizing.least_disk(as_then).0;
                // With a size that is divided too, the disk only has to hold the least journal.
                least = least.max(size.map_or(alone, |_| sizing.least(as_then).0));
            }
            let Some(size) = size else { continue };
            if row.label == row.spec {
                // A table's row is called as its spec reads, and that changes with the scale.
                let problem = format!("row '{}' has a journal, which a scale divides", row.label);
                return Err(self.file.error(row.spot, problem, "give the row a name of its own"));
            }
            let divided = spec.with_journal_size(Bytes(size.0 / self.by)).map_err(refused)?;
            let name = format!("the journal of '{}' of run '{}', {size},", row.label, run.name);
            self.at_least(sizing.least(as_then).0, size.0, (row.spot, &name));
            row.spec = divided.to_string();
        }
        let Some(spot) = second else { return Ok(()) };
        let typed =
            scaled.option("journal-size").and_then(|typed| typed.value.as_ref()?.parse().ok());
        let full: Bytes = typed.unwrap_or(USUAL_JOURNAL);
        let name = format!("the journal's disk of run '{}', {full},", run.name);
        self.at_least(least.max(MIB), full.0, (spot, &name));
        put(scaled, "journal-size", format!("{}M", full.0 / self.by / MIB), spot);
        Ok(())
    }
}

/// What a parameter takes beside the one word that it may also be.
fn domain(of: &Domain, value: &str) -> Domain {
    match of {
        Domain::Or(word, other) if *word != value => domain(other, value),
        other => *other,
    }
}

/// An option in the place of what it was.
fn put(conditions: &mut Conditions, option: &str, value: String, spot: Spot) {
    conditions.options.retain(|typed| typed.option != option);
    conditions.options.push(Typed { option: option.to_string(), value: Some(value), spot });
}

/// The text of a study with this scale in it, at the top, and with no other; 1 is left out.
///
/// What does not parse is left as it is.
pub fn with_scale(text: &str, scale: Scale) -> String {
    let Ok(document) = DeTable::parse(text) else { return text.to_string() };
    let mut out = text.to_string();
    if let Some((key, value)) = document.get_ref().get_key_value("scale") {
        // The whole of its lines, with a comment behind it.
        let from = text[..key.span().start].rfind('\n').map_or(0, |at| at + 1);
        let end = value.span().end;
        let to = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        out.replace_range(from..to, "");
    }
    if !scale.is_full() {
        // A comment at the top, such as the schema's, stays there.
        let comments = out.split_inclusive('\n').take_while(|line| line.starts_with('#'));
        let at = comments.map(str::len).sum();
        out.insert_str(at, &format!("scale = \"{scale}\"\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
title = "t"
question = "q"
source = "s"
[[run]]
name = "a"
workload = "dirops"
set = { curve = "1000..4000x2" }
scales = ["curve"]
disk = "hdd-7200"
cacheable = "640M"
size = "10G"
fs = { small = "ext3 -J size=64", plain = "ext4" }
[[claim]]
id = "C1"
text = "t"
[claim.check]
value = { row = "small", phase = "create", figure = "returned", at = { files = 2000 } }
more_than = 1
"#;

    fn scaled(text: &str, by: &str) -> Result<StudyFile, String> {
        let study = StudyFile::parse("s.toml", text).unwrap();
        study.scaled(by.parse().unwrap()).map_err(|error| error.to_string())
    }

    fn words(study: &StudyFile) -> Vec<String> {
        let conditions = study.runs[0].conditions(Variant::AsItStands).unwrap();
        conditions.words().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn work_memory_disk_and_journal_are_divided_and_the_points_that_cells_name() {
        let study = scaled(STUDY, "1/10").unwrap();
        assert_eq!(
            words(&study),
            [
                "--fs=small=ext3 -J size=6",
                "--fs=plain=ext4",
                "--set=curve=100,200,400",
                "--disk=hdd-7200",
                "--cacheable=65536K",
                "--size=1024M"
            ]
        );
        let Test::Check(check) = &study.claims[0].test else { panic!() };
        assert_eq!(check.cells()[0].at["files"], "200");
        let full = scaled(STUDY, "1").unwrap();
        assert!(words(&full).contains(&"--set=curve=1000..4000x2".to_string()));
    }

    #[test]
    fn what_is_not_said_is_divided_too() {
        let text = STUDY
            .replace("cacheable = \"640M\"\n", "")
            .replace("size = \"10G\"\n", "")
            .replace("-J size=64", "-J device={journal}");
        let words = words(&scaled(&text, "1/8").unwrap());
        for word in ["--cacheable=131072K", "--size=4096M", "--journal-size=32M"] {
            assert!(words.iter().any(|known| known == word), "{word} in {words:?}");
        }
    }

    #[test]
    fn the_guest_keeps_what_it_takes_beside_the_memory_that_caches_files() {
        let text = STUDY.replace("cacheable = \"640M\"", "cacheable = \"640M\"\nram = \"1G\"");
        let words = words(&scaled(&text, "1/10").unwrap());
        for word in ["--cacheable=65536K", "--ram=458752K"] {
            assert!(words.iter().any(|known| known == word), "{word} in {words:?}");
        }
    }

    #[test]
    fn what_becomes_too_small_is_refused_with_the_smallest_scale_that_works() {
        let error = scaled(STUDY, "1/20").unwrap_err();
        assert_eq!(
            error,
            "s.toml:13:8: at scale 1/20 the journal of 'small' of run 'a', 64 MiB, becomes too small; \
             the smallest scale that works is 1/16"
        );
        assert!(scaled(STUDY, "1/16").is_ok());
        let error = scaled(&STUDY.replace("64\"", "4\""), "1/2").unwrap_err();
        assert!(error.ends_with("it runs at full scale only"), "{error}");
        let error = scaled(&STUDY.replace("[\"curve\"]", "[\"prefix\"]"), "1/2").unwrap_err();
        assert!(error.contains("parameter prefix=") && error.contains("cannot be divided"));
    }

    #[test]
    fn the_logs_of_xfs_reiserfs_and_jfs_are_divided_to_the_least_that_their_tools_take() {
        let of = |spec: &str| STUDY.replace("ext3 -J size=64", spec);
        let disk = "xfs -l logdev={journal}";
        for (spec, by, is) in [
            ("xfs -l size=256m", "1/4", "--fs=small=xfs -l size=64m"),
            ("reiserfs -s 8193", "1/10", "--fs=small=reiserfs -s 819"),
            ("jfs -s 32", "1/16", "--fs=small=jfs -s 2"),
            (disk, "1/4", "--journal-size=64M"),
            ("reiserfs -j {journal}", "1/7", "--journal-size=36M"),
        ] {
            let words = words(&scaled(&of(spec), by).unwrap());
            assert!(words.iter().any(|known| known == is), "{is} in {words:?}");
        }
        for (spec, by, most) in [
            ("xfs -l size=256m", "1/5", "1/4"),
            ("reiserfs -s 8193", "1/16", "1/15"),
            ("jfs -s 4", "1/5", "1/4"),
            (disk, "1/5", "1/4"),
            ("reiserfs -j {journal}", "1/8", "1/7"),
        ] {
            let error = scaled(&of(spec), by).unwrap_err();
            assert!(
                error.contains("journal") && error.ends_with(&format!("works is {most}")),
                "{error}"
            );
        }
        // The settings of a period let mkfs.xfs make smaller ones.
        let then = of(disk).replace("size = \"10G\"", "size = \"10G\"\nperiod = \"2004\"");
        assert!(scaled(&then, "1/10").is_ok());
        let blocks = scaled(&of("xfs -l size=65536b"), "1/2").unwrap_err();
        assert!(blocks.starts_with("s.toml:13:") && blocks.contains("bytes"), "{blocks}");
    }

    #[test]
    fn what_comes_out_no_whole_number_is_refused_with_scales_on_either_side() {
        let text = STUDY
            .replace("curve = \"1000..4000x2\"", "files = 15")
            .replace(", at = { files = 2000 }", "");
        let text = text.replace("[\"curve\"]", "[\"files\"]");
        let error = scaled(&text, "1/4").unwrap_err();
        let is = "at scale 1/4 parameter files=15 of run 'a' comes out no whole number; 1/3 and 1/5 work";
        assert!(error.ends_with(is), "{error}");
        assert!(words(&scaled(&text, "1/5").unwrap()).contains(&"--set=files=3".to_string()));
    }

    #[test]
    fn a_scale_is_one_over_a_whole_number() {
        let read = |text: &str| text.parse::<Scale>().ok().map(Scale::divisor);
        assert_eq!(["1", "1/10", "1/1"].map(read), [Some(1), Some(10), Some(1)]);
        assert_eq!(["0.1", "1/0", "2/3", "10", ""].map(read), [None; 5]);
        assert_eq!(Scale::default().to_string(), "1");
    }

    #[test]
    fn the_scale_stands_in_a_stored_file_once() {
        let scale = |text: &str| text.parse::<Scale>().unwrap();
        let text = "#:schema x\ntitle = \"t\"\nabout = \"\"\"\nscale = 2 is no key\n\"\"\"\n[[run]]\nscales = []\n";
        let tenth = with_scale(text, scale("1/10"));
        let (schema, rest) = text.split_once('\n').unwrap();
        assert_eq!(tenth, format!("{schema}\nscale = \"1/10\"\n{rest}"));
        assert_eq!(with_scale(&tenth, scale("1/10")), tenth);
        assert_eq!(with_scale(&tenth, scale("1")), text);
    }
}
