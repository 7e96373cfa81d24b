//! Tables of factors: a figure of each row divided by that of the best row, for each run.

use super::cell::{Cell, Selection};
use super::error::{FileError, Spot};
use super::figure::Dimension;
use super::read::Node;
use super::run::Run;

/// A table of factors. It has a row for each file system and a column for each run.
#[derive(Clone, Debug)]
pub struct Factors {
    /// Its name.
    pub name: String,
    /// Its caption.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<FactorColumn>,
    /// Position in the file.
    pub spot: Spot,
}

/// A column: a run, and the figure whose factors are shown.
#[derive(Clone, Debug)]
pub struct FactorColumn {
    /// Its heading: the value that distinguishes the run from others in its group, or else the name of the run.
    pub head: String,
    cell: Cell,
}

impl FactorColumn {
    /// Returns the cell of a row.
    pub fn cell_of(&self, label: &str) -> Cell {
        Cell { row: label.to_string(), ..self.cell.clone() }
    }

    /// Returns the run.
    pub fn run(&self) -> &str {
        &self.cell.run
    }
}

/// Reads all tables of factors in a file.
pub(super) fn tables(top: &Node<'_>, runs: &[Run]) -> Result<Vec<Factors>, FileError> {
    let mut tables: Vec<Factors> = Vec::new();
    for node in top.tables("factors")? {
        let table = table(&node, runs)?;
        if tables.iter().any(|known| known.name == table.name) {
            let problem = format!("two tables of factors are called '{}'", table.name);
            return Err(node.require("name", "")?.error(problem, "give each its own name"));
        }
        tables.push(table);
    }
    Ok(tables)
}

fn table(node: &Node<'_>, runs: &[Run]) -> Result<Factors, FileError> {
    let named = node.clone().named("a table of factors").require("name", "write name = \"all\"")?;
    let name = named.text()?;
    let node = node.clone().named(format!("table '{name}'"));
    node.keys(&["name", "caption", "runs", "phase", "figure", "unit"])?;
    let selection = Selection::read(&node, &Selection::default(), runs)?;
    let listed =
        node.require("runs", "write runs = [\"files\"], the names of runs or of their groups")?;
    let mut columns: Vec<FactorColumn> = Vec::new();
    for item in listed.list()? {
        let name = item.text()?;
        let named = runs.iter().filter(|run| run.name == name || run.is_in_group(&name));
        let previous_count = columns.len();
        for run in named {
            if run.all_rows().is_none() {
                let problem = format!("run '{}' names no file systems to compare", run.name);
                return Err(
                    item.error(problem, "give it some: fs = { ext4 = \"ext4\", xfs = \"xfs\" }")
                );
            }
            let cell = selection.with_run(&run.name).with_row("").cell(&node, runs)?;
            if !matches!(
                cell.figure.dimension(),
                Dimension::Time | Dimension::Count | Dimension::Space
            ) {
                let problem = format!("a lower '{}' is not better", cell.figure.name());
                return Err(node.error(
                    problem,
                    "take a time, a count or space, such as figure = \"durable\"",
                ));
            }
            columns.push(FactorColumn { head: run.head().to_string(), cell });
        }
        if columns.len() == previous_count {
            let names: Vec<&str> = runs.iter().flat_map(|run| run.names()).collect();
            let hint = fsdyno_record::suggest::hint(&name, names);
            return Err(item.error(format!("there is no run '{name}'"), hint));
        }
    }
    if columns.is_empty() {
        return Err(listed.error(format!("table '{name}' has no column"), "name a run"));
    }
    let duplicate = (1..columns.len())
        .find(|index| columns[..*index].iter().any(|known| known.head == columns[*index].head));
    if let Some(index) = duplicate {
        let problem = format!("table '{name}' has two columns '{}'", columns[index].head);
        return Err(listed.error(problem, "name each run once"));
    }
    Ok(Factors {
        caption: node.require("caption", "write what it shows")?.text()?,
        spot: named.spot(),
        name,
        columns,
    })
}
