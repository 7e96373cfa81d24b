//! The runs of a study: each is one workload under historical, current, or its own conditions.

use super::conditions::Conditions;
use super::error::{FileError, Spot};
use super::read::{Item, Node};

/// One `fsdyno run` of one workload.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name in tables and claims.
    pub name: String,
    /// The group, if the run comes from `each`.
    pub group: Option<Group>,
    /// The workload.
    pub workload: String,
    /// Parameters that a smaller scale divides.
    pub scales: Vec<String>,
    /// Position of the key `scales`, or that of the run by default.
    pub scales_spot: Spot,
    /// Conditions of every variant.
    pub common: Conditions,
    /// Conditions of the historical variant, overriding `common`.
    pub then: Option<Conditions>,
    /// Conditions of the current variant, overriding `common`.
    pub today: Option<Conditions>,
    /// Position in the file.
    pub spot: Spot,
    /// Position of the key `workload`.
    pub workload_spot: Spot,
}

/// The group of runs that one `[[run]]` with `each` expands to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their common name.
    pub name: String,
    /// The value that distinguishes this run.
    pub value: String,
}

/// One of the sets of conditions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Historical: those of the publication.
    Historical,
    /// Current: those of today.
    Current,
    /// The run's own conditions, if it has neither historical nor current ones.
    AsItStands,
}

impl Variant {
    /// All variants, in the order in which they are run and shown.
    pub const ALL: [Variant; 3] = [Variant::Historical, Variant::Current, Variant::AsItStands];

    /// Returns its name, which is also that of its folder and, except for `AsItStands`, the value of --as.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Historical => "then",
            Variant::Current => "today",
            Variant::AsItStands => "as-it-stands",
        }
    }

    /// Returns its name in table headings.
    pub fn words(self) -> &'static str {
        match self {
            Variant::Historical => "as then",
            Variant::Current => "as today",
            Variant::AsItStands => "as it stands",
        }
    }
}

impl Run {
    /// Returns the variants in which it is run.
    pub fn variants(&self) -> Vec<Variant> {
        Variant::ALL.into_iter().filter(|variant| self.has(*variant)).collect()
    }

    /// Returns whether it is run in a variant.
    pub fn has(&self, variant: Variant) -> bool {
        match variant {
            Variant::Historical => self.then.is_some(),
            Variant::Current => self.today.is_some(),
            Variant::AsItStands => self.then.is_none() && self.today.is_none(),
        }
    }

    /// Returns the variant whose trials are used for claims judged in `judged`: a run with its own conditions
    /// serves every variant. `None` if the run has no such variant.
    pub fn serves(&self, judged: Variant) -> Option<Variant> {
        [judged, Variant::AsItStands].into_iter().find(|variant| self.has(*variant))
    }

    /// Returns all conditions of a variant; `None` if the run does not have it.
    pub fn conditions(&self, variant: Variant) -> Option<Conditions> {
        match variant {
            _ if !self.has(variant) => None,
            Variant::Historical => {
                self.then.as_ref().map(|conditions| self.common.overridden_by(conditions))
            }
            Variant::Current => {
                self.today.as_ref().map(|conditions| self.common.overridden_by(conditions))
            }
            Variant::AsItStands => Some(self.common.clone()),
        }
    }

    /// Returns whether it belongs to the group with this name.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.group.as_ref().is_some_and(|known| known.name == group)
    }

    /// Returns its value within its group, or else its name.
    pub fn head(&self) -> &str {
        self.group.as_ref().map_or(&self.name, |group| &group.value)
    }

    /// Returns the name of its group, if any, and its own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let group = self.group.as_ref().map(|group| group.name.as_str());
        group.into_iter().chain([self.name.as_str()])
    }

    /// Returns the rows of a variant; `None` if the run does not have it or leaves the file systems to `fsdyno run`.
    pub fn rows(&self, variant: Variant) -> Option<Vec<String>> {
        let rows = self.conditions(variant)?.rows?;
        Some(rows.into_iter().map(|row| row.label).collect())
    }

    /// Returns the rows of all its variants; `None` if any of them names no file system.
    pub fn all_rows(&self) -> Option<Vec<String>> {
        let mut labels: Vec<String> = Vec::new();
        for variant in self.variants() {
            for label in self.rows(variant)? {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
        Some(labels)
    }
}

/// Keys of a run that are not options.
const KEYS: &[&str] = &["name", "each", "workload", "scales", "then", "today"];

/// Maximum length of a run's name in bytes. The name is also a folder's name and a value of --only.
const MAX_NAME: usize = 64;

/// Reads all runs of a file.
pub(super) fn runs(top: &Node<'_>) -> Result<Vec<Run>, FileError> {
    let mut runs: Vec<Run> = Vec::new();
    for node in top.tables("run")? {
        for run in expand(&node, run(&node)?)? {
            let has_name = |known: &Run| known.names().any(|name| name == run.name);
            if runs.iter().any(has_name) {
                let item = node.require("name", "")?;
                let problem = format!("two runs are called '{}'", run.name);
                return Err(item.error(problem, "give each its own name"));
            }
            runs.push(run);
        }
    }
    match runs.is_empty() {
        true => Err(top.error(
            "the file has no run",
            "write one: [[run]] with name = \"files\" and workload = \"dirops\"",
        )),
        false => Ok(runs),
    }
}

/// Returns a run for each value of `each`, or the run itself if it has no `each`.
fn expand(node: &Node<'_>, run: Run) -> Result<Vec<Run>, FileError> {
    let Some(item) = node.get("each") else { return Ok(vec![run]) };
    let remedy = "write each = { machine = [\"server-2026\", \"pi-2024\"] }";
    let entries = item.table(remedy)?.entries();
    let [(key, values)] = entries.as_slice() else {
        return Err(item.error(format!("'each' has {} options", entries.len()), remedy));
    };
    let mut runs: Vec<Run> = Vec::new();
    for item in values.list()? {
        let value = item.text()?;
        let name = format!("{}-{value}", run.name);
        if !is_valid_name(&name) || name.len() > MAX_NAME {
            let problem = format!("'{name}' cannot be the name of a run");
            let remedy = format!(
                "a value of 'each' may contain letters, digits, _ and -, and the name at most {MAX_NAME} characters"
            );
            return Err(item.error(problem, remedy));
        }
        if run.common.options.iter().any(|option| option.option == *key) {
            return Err(item.error(format!("the run has '{key}' twice"), "remove one of them"));
        }
        let option = Conditions::read_one(node, key, &item)?;
        let mut common = run.common.clone();
        common.options.extend(option);
        let group = Some(Group { name: run.name.clone(), value });
        runs.push(Run { name, group, common, ..run.clone() });
    }
    match runs.is_empty() {
        true => Err(values.error(format!("'{key}' has no value"), remedy)),
        false => Ok(runs),
    }
}

/// Returns whether a string has only characters that are valid in a run's name, which is also a folder's name.
fn is_valid_name(name: &str) -> bool {
    name.chars().all(|letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn run(node: &Node<'_>) -> Result<Run, FileError> {
    let remedy = "give it the name that tables and claims use: name = \"files\"";
    let named = node.clone().named("a run").require("name", remedy)?;
    let name = named.text()?;
    if !is_valid_name(&name) {
        let problem = format!("'{name}' cannot be the name of a run");
        return Err(named.error(problem, "it may contain letters, digits, _ and -"));
    }
    if name.starts_with('-') {
        let problem = format!("'{name}' cannot be the name of a run");
        return Err(named.error(problem, "--only would parse it as an option; begin with a letter"));
    }
    if name.len() > MAX_NAME {
        let problem = format!("the name of a run has {} characters", name.len());
        return Err(named.error(problem, format!("use at most {MAX_NAME}")));
    }
    let node = node.clone().named(format!("run '{name}'"));
    // Read before `workload`, so that a misspelt key is reported first, not the missing one.
    let common = Conditions::read(&node, KEYS)?;
    let workload = node.require("workload", "see fsdyno list workloads")?;
    let variant = |key: &str| -> Result<Option<Conditions>, FileError> {
        let Some(item) = node.get(key) else { return Ok(None) };
        let table = item.table(&format!("begin it with a line [run.{key}]"))?;
        Ok(Some(Conditions::read(&table.named(format!("run '{name}' as {key}")), &[])?))
    };
    Ok(Run {
        workload: workload.text()?,
        workload_spot: workload.spot(),
        scales: node.get("scales").map_or(Ok(Vec::new()), |item| scales(&item, &name))?,
        scales_spot: node.get("scales").map_or(named.spot(), |item| item.spot()),
        common,
        then: variant("then")?,
        today: variant("today")?,
        spot: named.spot(),
        group: None,
        name,
    })
}

/// Reads the parameters that a scale divides. A repeated one is an error, because it would be divided twice.
fn scales(item: &Item<'_>, run: &str) -> Result<Vec<String>, FileError> {
    let mut scales = Vec::new();
    for item in item.list()? {
        let key = item.text()?;
        if scales.contains(&key) {
            let problem = format!("run '{run}' scales '{key}' twice");
            return Err(item.error(problem, "name each parameter once"));
        }
        scales.push(key);
    }
    Ok(scales)
}
