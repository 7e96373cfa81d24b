//! Row names: the axes in which a row differs from its neighbours, for every table, comparison and chart.
//!
//! A row's name is its label and whatever else differs among the plans of the same table:
//! `ext4, ssd-sata, 4 threads`. Values common to all rows are shown once, above the table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsdyno_record::Plan;

use crate::subject::Subject;
use crate::{AXES, Axis, Label};

/// Returns the parts of names that axes contribute, in the order of the axes.
fn labels() -> impl Iterator<Item = &'static Label> {
    AXES.iter().flat_map(|axis| axis.labels)
}

impl Label {
    /// Returns the key of the rows with which this subject is compared. For a part of a machine, rows without a machine
    /// have the empty key.
    fn peers(&self, subject: &Subject<'_>) -> String {
        match (self.within_label, self.of_machine) {
            (true, _) => subject.plan.label.clone(),
            (_, true) => subject.plan.lab().and_then(|lab| lab.machine.clone()).unwrap_or_default(),
            (false, false) => String::new(),
        }
    }
}

/// Values of labels, by the index of the label and the key of the peers.
type Values = BTreeMap<(usize, String), BTreeSet<String>>;

/// Adds the values of rows without a machine to those of each machine, and vice versa, for parts of machines, so that
/// differences between the two kinds of rows count.
fn compare_with_no_machine(values: &mut Values) {
    for (index, _) in labels().enumerate().filter(|(_, label)| label.of_machine) {
        let none = (index, String::new());
        let Some(without) = values.get(&none).cloned() else { continue };
        let machine_values = values.range_mut((index, String::new())..(index + 1, String::new()));
        let mut all = without.clone();
        for (_, of_machine) in machine_values {
            all.extend(of_machine.iter().cloned());
            of_machine.extend(without.iter().cloned());
        }
        values.insert(none, all);
    }
}

/// Returns the parameters of a workload with the values to compare: for an input file, the hash of its bytes, not
/// its path.
pub(crate) fn params(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
    let input = plan.workload.input.as_ref();
    plan.workload.params.iter().map(move |(key, value)| {
        let of_input = input.filter(|input| input.parameter == *key);
        (key.as_str(), of_input.map_or(value.as_str(), |input| input.sha256.as_str()))
    })
}

/// The differences among plans.
#[derive(Default)]
struct Differing {
    /// Indexes of the labels of axes, with the key of the peers.
    axes: BTreeSet<(usize, String)>,
    /// Keys of sysctls, by period, because each period sets its own sysctls.
    sysctls: BTreeSet<(Option<String>, String)>,
    /// Workloads and parameters.
    params: BTreeSet<(String, String)>,
}

/// The parameter that names the recording of a replay.
const TRACE: &str = "trace";

/// Maximum length of the name of a recording.
const MAX_RECORDING: usize = 40;

/// Returns the name of the recording that a plan replays: that of its file without the folder and the ending.
fn recording(plan: &Plan) -> Option<String> {
    plan.workload.input.as_ref().filter(|input| input.parameter == TRACE)?;
    let name = Path::new(plan.workload.params.get(TRACE)?).file_stem()?.to_string_lossy();
    Some(name.chars().take(MAX_RECORDING).collect())
}

/// Returns true if different recordings have different names.
fn has_distinct_names<'a>(named: impl Iterator<Item = (String, &'a Plan)>) -> bool {
    let mut contents = BTreeMap::new();
    named.into_iter().all(|(name, plan)| {
        let sha256 = plan.workload.input.as_ref().map(|input| &input.sha256);
        *contents.entry(name).or_insert(sha256) == sha256
    })
}

impl Differing {
    fn among(subjects: &[Subject<'_>]) -> Differing {
        let mut axes = Values::new();
        for subject in subjects {
            for (index, label) in labels().enumerate() {
                if let Some(value) = (label.text)(subject) {
                    axes.entry((index, label.peers(subject))).or_default().insert(value);
                }
            }
        }
        compare_with_no_machine(&mut axes);
        let plans = || subjects.iter().map(|subject| subject.plan);
        let sysctls = differing(plans().map(|plan| {
            let entries = plan.sysctls.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            (period(plan), entries.collect())
        }));
        let mut params =
            differing(plans().map(|plan| (plan.workload.name.clone(), params(plan).collect())));
        if has_distinct_names(plans().filter_map(|plan| Some((recording(plan)?, plan)))) {
            params.retain(|(_, key)| key != TRACE);
        }
        let axes = axes.into_iter().filter(|(_, values)| values.len() > 1);
        Differing { axes: axes.map(|(axis, _)| axis).collect(), sysctls, params }
    }

    fn join(mut self, other: Differing) -> Differing {
        self.axes.extend(other.axes);
        self.sysctls.extend(other.sysctls);
        self.params.extend(other.params);
        self
    }
}

pub(crate) fn period(plan: &Plan) -> Option<String> {
    plan.filesystem.as_ref()?.period.clone()
}

/// Returns the keys in which the maps of a family differ.
fn differing<'a, F: Ord + Clone>(
    maps: impl Iterator<Item = (F, BTreeMap<&'a str, &'a str>)>,
) -> BTreeSet<(F, String)> {
    let mut families: BTreeMap<F, Vec<BTreeMap<&str, &str>>> = BTreeMap::new();
    maps.for_each(|(family, map)| families.entry(family).or_default().push(map));
    let mut keys = BTreeSet::new();
    for (family, maps) in &families {
        for key in maps.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
            if maps.iter().any(|map| map.get(key) != maps[0].get(key)) {
                keys.insert((family.clone(), key.to_string()));
            }
        }
    }
    keys
}

/// Distinct names for the plans or trials of a table.
#[derive(Default)]
pub struct RowNames {
    differing: Differing,
    /// Suffixes for equal names of different plans or labs.
    suffixes: BTreeMap<(String, String, Option<String>), String>,
}

impl RowNames {
    /// Returns the names for one table.
    pub fn of<'a, T: Into<Subject<'a>>>(subjects: impl IntoIterator<Item = T>) -> RowNames {
        let subjects = distinct(subjects);
        let mut names = RowNames { differing: Differing::among(&subjects), ..RowNames::default() };
        names.disambiguate(&subjects);
        names
    }

    /// Returns the names for a comparison of two results: an axis that may be the subject of the comparison (kernel,
    /// spec of a label, path, boot mode) is named only if one result has several values on that axis.
    pub fn of_comparison<'a, T: Into<Subject<'a>>>(
        base: impl IntoIterator<Item = T>,
        new: impl IntoIterator<Item = T>,
    ) -> RowNames {
        let (base, new) = (distinct(base), distinct(new));
        let mut between = Differing::among(&[base.as_slice(), &new].concat());
        between.axes.retain(|(index, _)| labels().nth(*index).is_some_and(|label| !label.compared));
        let differing = between.join(Differing::among(&base)).join(Differing::among(&new));
        let mut names = RowNames { differing, ..RowNames::default() };
        names.disambiguate(&base);
        names.disambiguate(&new);
        names
    }

    /// Returns the names for steps along an axis, without the values of that axis and of the axes whose defaults it
    /// sets.
    pub fn for_steps<'a, T: Into<Subject<'a>>>(
        axis: &Axis,
        subjects: impl IntoIterator<Item = T>,
    ) -> RowNames {
        let mut differing = Differing::among(&distinct(subjects));
        let mut first = 0;
        for other in AXES {
            let indexes = first..first + other.labels.len();
            first = indexes.end;
            if other.key == axis.key || axis.sets_default_of(other) {
                differing.axes.retain(|(index, _)| !indexes.contains(index));
            }
        }
        RowNames { differing, ..RowNames::default() }
    }

    /// Returns the workload with the parameters in which its runs differ: `dirops files=1000`. A replay is named after
    /// its recording: `replay of build`.
    pub fn workload<'a>(&self, subject: impl Into<Subject<'a>>) -> String {
        let subject = subject.into();
        let workload = &subject.plan.workload;
        let differs =
            |key: &String| self.differing.params.contains(&(workload.name.clone(), key.clone()));
        let parts = workload.params.iter().filter(|(key, _)| differs(key));
        let parts = parts.map(|(key, value)| format!(" {key}={value}"));
        let suffix = recording(subject.plan).map(|name| format!(" of {name}"));
        workload.name.clone() + &suffix.unwrap_or_default() + &parts.collect::<String>()
    }

    /// Returns the part of a row's name after its label: `, ssd-sata, 4 threads`, or nothing.
    pub fn variant<'a>(&self, subject: impl Into<Subject<'a>>) -> String {
        let subject = subject.into();
        let suffix = self.suffixes.get(&key(&subject));
        self.without_suffix(&subject) + suffix.map_or("", String::as_str)
    }

    /// Returns the full name of a row: `ext4, ssd-sata, 4 threads`.
    pub fn row<'a>(&self, subject: impl Into<Subject<'a>>) -> String {
        let subject = subject.into();
        subject.plan.label.clone() + &self.variant(subject)
    }

    fn without_suffix(&self, subject: &Subject<'_>) -> String {
        let plan = subject.plan;
        let axes = labels().enumerate().filter_map(|(index, label)| {
            let differs = self.differing.axes.contains(&(index, label.peers(subject)));
            differs.then(|| (label.text)(subject)).flatten()
        });
        let sysctls = plan.sysctls.iter().filter_map(|(key, value)| {
            let differs = self.differing.sysctls.contains(&(period(plan), key.clone()));
            differs.then(|| format!("{key}={value}"))
        });
        axes.chain(sysctls).map(|part| format!(", {part}")).collect()
    }

    /// Adds the start of the differing hash to equal names of different plans or labs.
    fn disambiguate(&mut self, subjects: &[Subject<'_>]) {
        let mut by_name: BTreeMap<String, Vec<&Subject<'_>>> = BTreeMap::new();
        for subject in subjects {
            let (workload, label) = (self.workload(*subject), &subject.plan.label);
            let name = format!("{workload}\n{label}{}", self.without_suffix(subject));
            by_name.entry(name).or_default().push(subject);
        }
        let start = |text: &str| text.chars().take(6).collect::<String>();
        for namesakes in by_name.into_values() {
            let plans: BTreeSet<&str> =
                namesakes.iter().map(|subject| subject.plan.hash.as_str()).collect();
            // A trial that failed before its lab was known may belong to any lab.
            let labs: BTreeSet<&str> =
                namesakes.iter().filter_map(|subject| subject.lab_id).collect();
            for subject in namesakes {
                let plan =
                    (plans.len() > 1).then(|| format!(", plan {}", start(&subject.plan.hash)));
                let lab = subject.lab_id.filter(|_| labs.len() > 1);
                let lab = lab.map(|lab| format!(", lab {}", start(lab)));
                let suffix = plan.unwrap_or_default() + &lab.unwrap_or_default();
                if !suffix.is_empty() {
                    self.suffixes.insert(key(subject), suffix);
                }
            }
        }
    }
}

fn key(subject: &Subject<'_>) -> (String, String, Option<String>) {
    let Subject { plan, lab_id, .. } = subject;
    (plan.hash.clone(), plan.label.clone(), lab_id.map(String::from))
}

/// Removes duplicates, because many trials share few plans.
fn distinct<'a, T: Into<Subject<'a>>>(subjects: impl IntoIterator<Item = T>) -> Vec<Subject<'a>> {
    let mut seen = BTreeSet::new();
    let subjects = subjects.into_iter().map(Into::into);
    let is_new = |subject: &Subject<'a>| {
        let plan = (subject.plan.hash.as_str(), subject.plan.label.as_str());
        seen.insert((plan, subject.lab_id, subject.host_kernel, subject.host_cpu))
    };
    subjects.filter(is_new).collect()
}

#[cfg(test)]
pub(crate) mod tests;
