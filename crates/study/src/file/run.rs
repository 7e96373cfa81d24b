//! The runs of a study: each one workload under conditions, as then, as today, or as it stands.

use super::conditions::Conditions;
use super::error::{FileError, Spot};
use super::read::{Item, Node};

/// One `fsdyno run` of one workload.
#[derive(Clone, Debug)]
pub struct Run {
    /// How tables and claims name it.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// The parameters that a smaller scale divides.
    pub scales: Vec<String>,
    /// Where they are named; where the run begins if they are not.
    pub scales_spot: Spot,
    /// What holds in every variant.
    pub common: Conditions,
    /// What holds as then, over that.
    pub then: Option<Conditions>,
    /// What holds as today, over that.
    pub today: Option<Conditions>,
    /// Where it begins.
    pub spot: Spot,
    /// Where its workload is named.
    pub workload_spot: Spot,
}

/// Under which conditions a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Under those of what was published.
    Then,
    /// Under those of today.
    Today,
    /// Under those that the run has; it names neither others as then nor others as today.
    AsItStands,
}

impl Variant {
    /// Every variant, in the order in which they are run and shown.
    pub const ALL: [Variant; 3] = [Variant::Then, Variant::Today, Variant::AsItStands];

    /// Its name: that of its folder, and after --as.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Then => "then",
            Variant::Today => "today",
            Variant::AsItStands => "as-it-stands",
        }
    }

    /// In words, as a table's head has it.
    pub fn words(self) -> &'static str {
        match self {
            Variant::Then => "as then",
            Variant::Today => "as today",
            Variant::AsItStands => "as it stands",
        }
    }
}

impl Run {
    /// The variants that it is run in.
    pub fn variants(&self) -> Vec<Variant> {
        Variant::ALL.into_iter().filter(|variant| self.has(*variant)).collect()
    }

    /// Whether it is run in a variant.
    pub fn has(&self, variant: Variant) -> bool {
        match variant {
            Variant::Then => self.then.is_some(),
            Variant::Today => self.today.is_some(),
            Variant::AsItStands => self.then.is_none() && self.today.is_none(),
        }
    }

    /// The variant whose trials stand for this run where claims are judged in `judged`: a run that stands as it
    /// is serves for every one. None where it is not run so.
    pub fn serves(&self, judged: Variant) -> Option<Variant> {
        [judged, Variant::AsItStands].into_iter().find(|variant| self.has(*variant))
    }

    /// All that holds in a variant; none where it is not run so.
    pub fn conditions(&self, variant: Variant) -> Option<Conditions> {
        match variant {
            _ if !self.has(variant) => None,
            Variant::Then => self.then.as_ref().map(|over| self.common.under(over)),
            Variant::Today => self.today.as_ref().map(|over| self.common.under(over)),
            Variant::AsItStands => Some(self.common.clone()),
        }
    }

    /// The rows of a variant; none where the run names no file system and leaves that to `fsdyno run`.
    pub fn rows(&self, variant: Variant) -> Option<Vec<String>> {
        let rows = self.conditions(variant)?.rows?;
        Some(rows.into_iter().map(|row| row.label).collect())
    }

    /// The rows of all its variants; none where any of them names no file system.
    pub fn all_rows(&self) -> Option<Vec<String>> {
        let mut all: Vec<String> = Vec::new();
        for variant in self.variants() {
            for label in self.rows(variant)? {
                if !all.contains(&label) {
                    all.push(label);
                }
            }
        }
        Some(all)
    }
}

/// The keys of a run that are no options.
const KEYS: &[&str] = &["name", "workload", "scales", "then", "today"];

/// The most bytes that its name may have: it is a folder's name and a value of --only.
const LONGEST_NAME: usize = 64;

/// All runs of a file.
pub(super) fn runs(top: &Node<'_>) -> Result<Vec<Run>, FileError> {
    let mut runs: Vec<Run> = Vec::new();
    for node in top.tables("run")? {
        let run = run(&node)?;
        if runs.iter().any(|known| known.name == run.name) {
            let item = node.need("name", "")?;
            let problem = format!("two runs are called '{}'", run.name);
            return Err(item.error(problem, "give each a name of its own"));
        }
        runs.push(run);
    }
    match runs.is_empty() {
        true => Err(top.error(
            "the file has no run",
            "write one: [[run]] with name = \"files\" and workload = \"dirops\"",
        )),
        false => Ok(runs),
    }
}

fn run(node: &Node<'_>) -> Result<Run, FileError> {
    let right = "name it as tables and claims shall: name = \"files\"";
    let named = node.clone().called("a run").need("name", right)?;
    let name = named.text()?;
    // It becomes a folder's name.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if !name.chars().all(plain) {
        let problem = format!("'{name}' cannot be the name of a run");
        return Err(named.error(problem, "it takes letters, digits, _ and -"));
    }
    if name.starts_with('-') {
        let problem = format!("'{name}' cannot be the name of a run");
        return Err(named.error(problem, "--only takes it for an option; begin with a letter"));
    }
    if name.len() > LONGEST_NAME {
        let problem = format!("the name of a run has {} letters", name.len());
        return Err(named.error(problem, format!("it has {LONGEST_NAME} at most")));
    }
    let node = node.clone().called(format!("run '{name}'"));
    // A key that is spelt wrong is told before the one that is missing for it.
    let common = Conditions::read(&node, KEYS)?;
    let workload = node.need("workload", "see fsdyno list workloads")?;
    let variant = |key: &str| -> Result<Option<Conditions>, FileError> {
        let Some(item) = node.get(key) else { return Ok(None) };
        let table = item.table(&format!("begin it with a line [run.{key}]"))?;
        Ok(Some(Conditions::read(&table.called(format!("run '{name}' as {key}")), &[])?))
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
        name,
    })
}

/// The parameters that a scale divides, each once: what is named twice would be divided twice.
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
