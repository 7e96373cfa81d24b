//! The conditions of a run: the long options of `fsdyno run`, with the same names and values.

use fsdyno_axes::AXES;
use fsdyno_filesystem::Spec;
use fsdyno_record::{Count, suggest};
use toml::de::DeValue;

use super::error::{FileError, Spot};
use super::read::{Item, Node};

/// Options of `fsdyno run` that a study's run may have, apart from the axes.
const NON_AXES: &[&str] = &["repeat", "seed", "baseline", "deadline", "keep-log"];

/// Returns the options of `fsdyno run` that a study's run may have in addition to `fs`, `set` and `sysctl`, which are
/// tables.
pub fn options() -> impl Iterator<Item = &'static str> {
    let axes = AXES.iter().map(|axis| axis.key).filter(|key| *key != "fs");
    axes.chain(NON_AXES.iter().copied())
}

/// Flags: `true`, or `false`, which has the same meaning as omitting the option.
const FLAGS: &[&str] = &["keep-log"];

/// Options whose value is a whole number, with the minimum and the remedy. [`Conditions::request`] checks the maximum.
const WHOLE: &[(&str, u64, &str)] = &[
    ("repeat", 1, "it must be a whole number, 1 or more"),
    ("seed", 0, "it must be a whole number from 0 to 18446744073709551615"),
    ("threads", 1, "it must be a whole number, 1 or more"),
    ("deadline", 1, "it must be a whole number of seconds, 1 or more"),
];

/// Options of `fsdyno run` that a study's run cannot have, each with the remedy.
const REFUSED: &[(&str, &str)] = &[
    ("out", "set the folder for the whole study: fsdyno study NAME --out DIR"),
    ("format", "set it for the whole study: fsdyno study NAME --format mail"),
    ("dry-run", "set it for the whole study: fsdyno study NAME --dry-run"),
    ("mix", "each run of a study has a folder of its own; remove it"),
    ("name", "a name belongs to one result: fsdyno note RESULT --name NAME"),
    ("note", "a note belongs to one result: fsdyno note RESULT --note TEXT"),
    ("least-difference", "set it for the report: fsdyno report DIR --least-difference 1%"),
    ("sort", "set it for the report: fsdyno report DIR --sort time"),
    ("columns", "set it for the report: fsdyno report DIR --columns returned,durable"),
    ("jobs", "set it for the whole study: fsdyno study NAME --jobs 2"),
    ("shard", "a study runs on one machine; remove it"),
    ("ranks", "a study runs on one machine; remove it"),
    ("own", "it belongs to --ranks, which a study cannot have; remove it"),
    ("shift", "it belongs to --ranks, which a study cannot have; remove it"),
    ("stonewall", "it belongs to --ranks, which a study cannot have; remove it"),
    ("hosts", "a study runs on one machine; remove it"),
    ("hosts-program", "it belongs to --hosts, which a study cannot have; remove it"),
    ("erase", "a drive is erased only on the command line, never by a study file; remove it"),
    ("width", "the number of trials of a study is fixed beforehand: write repeat = 5"),
    ("at-most", "the number of trials of a study is fixed beforehand: write repeat = 5"),
    ("change", "it is for benchmarks; remove it"),
];

/// Returns the remedy for an option of `fsdyno run` that a study's run cannot have; `None` for all other options.
pub fn refused(option: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == option).map(|(_, remedy)| *remedy)
}

/// The conditions of a run, as given in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// File systems; `None` if none is named.
    pub rows: Option<Vec<Row>>,
    /// Parameters of the workload.
    pub set: Vec<Setting>,
    /// Kernel settings.
    pub sysctl: Vec<Setting>,
    /// All other options.
    pub options: Vec<RunOption>,
}

/// A file system, as a row of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Label in tables and claims.
    pub label: String,
    /// Spec, as given to --fs, without the label.
    pub spec: String,
    /// Position in the file.
    pub spot: Spot,
}

/// A key and value of --set or --sysctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Position in the file.
    pub spot: Spot,
}

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOption {
    /// The option, without its dashes.
    pub option: String,
    /// The value; `None` for a flag.
    pub value: Option<String>,
    /// Position in the file.
    pub spot: Spot,
}

/// A command-line argument, and its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The argument, without shell quotes.
    pub text: String,
    /// Position in the file.
    pub spot: Spot,
}

impl Conditions {
    /// Reads conditions from a table that may also have the keys in `other`.
    pub(super) fn read(node: &Node<'_>, other: &[&str]) -> Result<Conditions, FileError> {
        let mut conditions = Conditions::default();
        for (key, item) in node.entries() {
            match key.as_str() {
                key if other.contains(&key) => {}
                "fs" => conditions.rows = Some(rows(&item)?),
                "set" => conditions.set = parameters(&item)?,
                "sysctl" => {
                    conditions.sysctl = settings(&item, "sysctl = { \"vm.dirty_ratio\" = 10 }")?;
                }
                option => {
                    let options = read_option(node, option, &item, other)?;
                    conditions.options.extend(options);
                }
            }
        }
        Ok(conditions)
    }

    /// Reads one option with one of its values, from the list in `each`.
    pub(super) fn read_one(
        node: &Node<'_>,
        option: &str,
        item: &Item<'_>,
    ) -> Result<Option<RunOption>, FileError> {
        read_option(node, option, item, &[])
    }

    /// Returns these conditions overridden by others: settings and options one by one, the list of file systems
    /// as a whole.
    pub fn overridden_by(&self, overrides: &Conditions) -> Conditions {
        let merge = |base: &[Setting], overrides: &[Setting]| {
            let kept = base
                .iter()
                .filter(|setting| !overrides.iter().any(|other| other.key == setting.key));
            kept.chain(overrides).cloned().collect()
        };
        let is_kept = |option: &&RunOption| {
            !overrides.options.iter().any(|other| other.option == option.option)
        };
        Conditions {
            rows: overrides.rows.clone().or_else(|| self.rows.clone()),
            set: merge(&self.set, &overrides.set),
            sysctl: merge(&self.sysctl, &overrides.sysctl),
            options: self
                .options
                .iter()
                .filter(is_kept)
                .chain(&overrides.options)
                .cloned()
                .collect(),
        }
    }

    /// Returns an option, if it is set.
    pub fn option(&self, option: &str) -> Option<&RunOption> {
        self.options.iter().find(|set| set.option == option)
    }

    /// Returns a parameter, if it is set.
    pub fn parameter(&self, key: &str) -> Option<&Setting> {
        self.set.iter().find(|setting| setting.key == key)
    }

    /// Returns the conditions as arguments after `fsdyno run WORKLOAD`.
    pub fn arguments(&self) -> Vec<Argument> {
        let rows = self.rows.iter().flatten().map(|row| Argument {
            // A label that equals the spec is omitted.
            text: match row.label == row.spec {
                true => format!("--fs={}", row.spec),
                false => format!("--fs={}={}", row.label, row.spec),
            },
            spot: row.spot,
        });
        let setting = |option: &'static str| {
            move |setting: &Setting| Argument {
                text: format!("--{option}={}={}", setting.key, setting.value),
                spot: setting.spot,
            }
        };
        let options = self.options.iter().map(|option| Argument {
            text: match &option.value {
                Some(value) => format!("--{}={value}", option.option),
                None => format!("--{}", option.option),
            },
            spot: option.spot,
        });
        let (set, sysctl) = (setting("set"), setting("sysctl"));
        rows.chain(self.set.iter().map(set))
            .chain(self.sysctl.iter().map(sysctl))
            .chain(options)
            .collect()
    }
}

/// Reads `[run.fs]`: a label for each spec, in the order of the file.
fn rows(item: &Item<'_>) -> Result<Vec<Row>, FileError> {
    let node = item.table("name each file system: fs = { small = \"ext4 -I 128\" }")?;
    let row = |(label, item): (String, Item<'_>)| {
        let spec = item.text()?;
        // A label must be a single shell word. If it equals the spec, the row counts as unlabelled.
        if (label.is_empty() || label.contains(char::is_whitespace)) && label != spec {
            return Err(item.key_error(
                format!("'{label}' is not a valid row label"),
                "a label consists of letters, digits and _ . + -",
            ));
        }
        // A plan normalizes the whitespace in a spec.
        let (label, spec) = match label == spec {
            true => {
                let name =
                    Spec::parse(&spec).map_or_else(|_| normalize_spaces(&spec), |spec| spec.name());
                (name.clone(), name)
            }
            false => (label, spec),
        };
        Ok(Row { label, spec, spot: item.spot() })
    };
    let rows = node.entries().into_iter().map(row).collect::<Result<Vec<_>, _>>()?;
    match rows.is_empty() {
        true => Err(item.error("'fs' names no file system", "name one, or remove fs")),
        false => Ok(rows),
    }
}

fn normalize_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads `[run.set]`. A parameter with a workload prefix is an error: a run has one workload, and neither a scale
/// nor `then` would apply to the prefixed name.
fn parameters(item: &Item<'_>) -> Result<Vec<Setting>, FileError> {
    let set = settings(item, "set = { files = 1000 }")?;
    let node = item.table("")?;
    for (key, item) in node.entries() {
        if let Some((workload, plain)) = key.split_once('.') {
            let problem = format!("'{key}' names a workload, '{workload}', but a run has only one");
            let remedy = format!("write the parameter alone: {plain} = {}", item.written());
            return Err(item.key_error(problem, remedy));
        }
    }
    Ok(set)
}

fn settings(item: &Item<'_>, remedy: &str) -> Result<Vec<Setting>, FileError> {
    let node = item.table(&format!("write {remedy}"))?;
    let setting = |(key, item): (String, Item<'_>)| {
        Ok(Setting { key, value: item.argument()?, spot: item.spot() })
    };
    node.entries().into_iter().map(setting).collect()
}

/// Reads one option. A list is an error: it would create several rows with the same name, which a cell cannot
/// distinguish.
fn read_option(
    node: &Node<'_>,
    option: &str,
    item: &Item<'_>,
    other: &[&str],
) -> Result<Option<RunOption>, FileError> {
    if let Some(remedy) = refused(option) {
        return Err(item.key_error(format!("{} cannot have '{option}'", node.what), remedy));
    }
    if !options().any(|known| known == option) {
        let known = options().map(|option| -> &str { option }).chain(["fs", "set", "sysctl"]);
        let known = known.chain(other.iter().copied());
        let hint = suggest::hint(option, known.collect::<Vec<_>>());
        return Err(item.key_error(format!("{} has no '{option}'", node.what), hint));
    }
    let error = |remedy: &str| item.error(format!("'{option}' is {}", item.written()), remedy);
    let value = match (FLAGS.contains(&option), item.value) {
        (true, DeValue::Boolean(true)) => None,
        (true, DeValue::Boolean(false)) => return Ok(None),
        (true, _) => return Err(error(&format!("write {option} = true, without quotes"))),
        (false, DeValue::Boolean(_)) => {
            return Err(error(&format!("it needs a value, as after fsdyno run --{option}")));
        }
        (false, DeValue::Array(_)) => {
            return Err(item.error(
                format!(
                    "'{option}' is a list, but the rows of its values would all have the same name"
                ),
                "give one value, and write another run for each further value",
            ));
        }
        (false, _) => Some(item.argument()?),
    };
    if let (Some((_, least, remedy)), Some(value)) =
        (WHOLE.iter().find(|(name, ..)| *name == option), &value)
        && value.parse().ok().is_none_or(|Count(number)| number < *least)
    {
        return Err(error(remedy));
    }
    Ok(Some(RunOption { option: option.to_string(), value, spot: item.spot() }))
}
