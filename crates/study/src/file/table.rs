//! Published tables as data: columns with their figures, rows of printed cells, and doubts.

use fsdyno_record::suggest;
use fsdyno_report::counted;
use toml::de::DeValue;

use super::cell::{self, Cell, Selection, check_row};
use super::error::{FileError, Spot};
use super::figure::Dimension::{self, Flow, Rate};
use super::figure::Unit;
use super::read::{Item, Node};
use super::run::Run;

/// A published table.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its name.
    pub name: String,
    /// Its caption.
    pub caption: String,
    /// Place of publication, if different from the study's.
    pub source: String,
    /// Number of runs behind a printed mean, if given. Without it, a deviation has no meaning.
    pub runs: Option<u32>,
    /// Resolution of a single run's value, in its column's unit: 1 for a clock that counts whole seconds.
    pub step: Option<f64>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
    /// Cells that are wrong although nothing in the table shows it.
    pub doubts: Vec<Doubt>,
    /// Position in the file.
    pub spot: Spot,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The unit of its cells.
    pub unit: Unit,
    /// The measured figure, or the reason why there is none.
    pub measured: Result<ColumnCell, String>,
    /// For a column of rates: the amount of work of a run, in the unit that the rate counts.
    pub of: Option<f64>,
    /// For a column of rates: the name of the column with the corresponding times.
    pub per: Option<String>,
}

/// The cell of a column without its row.
#[derive(Clone, Debug)]
pub struct ColumnCell {
    cell: Cell,
}

impl ColumnCell {
    /// Returns the cell of a row.
    pub fn cell_of(&self, label: &str) -> Cell {
        Cell { row: label.to_string(), ..self.cell.clone() }
    }

    /// Returns the run of the cell.
    pub fn run(&self) -> &str {
        &self.cell.run
    }

    /// Returns the cell without a row, for modification.
    pub(super) fn cell_mut(&mut self) -> &mut Cell {
        &mut self.cell
    }
}

/// A row, with a cell for each column.
#[derive(Clone, Debug)]
pub struct PublishedRow {
    /// Label of the row in the runs.
    pub label: String,
    /// Its cells, in the order of the columns.
    pub cells: Vec<Option<Value>>,
    /// Position in the file.
    pub spot: Spot,
}

/// A number as printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The number, or the mean.
    pub value: f64,
    /// Standard deviation, if printed.
    pub deviation: Option<f64>,
    /// The printed digits of the number.
    pub text: String,
    /// The printed digits of the deviation.
    pub deviation_text: Option<String>,
}

impl Value {
    /// Returns the printed form: `28.40±1.28`.
    pub fn printed(&self) -> String {
        match &self.deviation_text {
            Some(deviation) => format!("{}±{deviation}", self.text),
            None => self.text.clone(),
        }
    }
}

/// A note that a published cell must be wrong.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// The reason.
    pub why: String,
}

/// Reads all published tables in a file.
pub(super) fn tables(top: &Node<'_>, runs: &[Run]) -> Result<Vec<Published>, FileError> {
    let mut tables: Vec<Published> = Vec::new();
    for node in top.tables("published")? {
        let table = table(&node, runs)?;
        if tables.iter().any(|known| known.name == table.name) {
            let item = node.require("name", "")?;
            let problem = format!("two tables are called '{}'", table.name);
            return Err(item.error(problem, "give each its own name"));
        }
        tables.push(table);
    }
    Ok(tables)
}

fn table(node: &Node<'_>, runs: &[Run]) -> Result<Published, FileError> {
    let named =
        node.clone().named("a published table").require("name", "write name = \"times\"")?;
    let name = named.text()?;
    let node = node.clone().named(format!("table '{name}'"));
    let keys = ["name", "caption", "source", "runs", "step", "columns", "rows", "doubts"];
    let context: Vec<&str> = cell::KEYS.iter().copied().filter(|key| *key != "row").collect();
    node.keys(&[&keys[..], &context].concat())?;
    let selection = Selection::read(&node, &Selection::default(), runs)?;
    let unit = node.get("unit").map(|item| cell::unit(&item)).transpose()?;
    let listed = node.require("columns", "write columns = [ { name = \"create\", ... } ]")?;
    let mut columns: Vec<Column> = Vec::new();
    for item in listed.list()? {
        let column = column(&item, (&name, &selection, unit), runs)?;
        if columns.iter().any(|known| known.name == column.name) {
            let problem = format!("table '{name}' has two columns '{}'", column.name);
            return Err(item.error(problem, "give each its own name"));
        }
        columns.push(column);
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    for item in listed.list()? {
        if let Some(item) = item.table("")?.get("per") {
            per(&item, &name, &columns)?;
        }
    }
    let rows = rows(&node, &name, &columns, runs)?;
    let mut doubts = Vec::new();
    if let Some(item) = node.get("doubts") {
        for item in item.list()? {
            let doubt = doubt(&item, &name, &names, &rows)?;
            let (row, column) = (&doubt.row, &doubt.column);
            if doubts.iter().any(|known: &Doubt| (&known.row, &known.column) == (row, column)) {
                let problem = format!("row '{row}', column '{column}' is doubted twice");
                return Err(item.error(problem, "combine them in one 'why'"));
            }
            doubts.push(doubt);
        }
    }
    let runs_of_mean = node.get("runs").map(|item| item.whole(1, 1_000_000)).transpose()?;
    Ok(Published {
        runs: runs_of_mean.and_then(|runs| u32::try_from(runs).ok()),
        step: node.get("step").map(step).transpose()?,
        caption: node.require("caption", "write what it shows")?.text()?,
        source: node.get("source").map_or(Ok(String::new()), |item| item.text())?,
        spot: named.spot(),
        name,
        columns,
        rows,
        doubts,
    })
}

/// Reads a resolution: a number above zero.
fn step(item: Item<'_>) -> Result<f64, FileError> {
    let step = item.number()?;
    let error =
        || item.error(format!("step = {step} is not above 0"), "write step = 1, for whole seconds");
    (step > 0.0).then_some(step).ok_or_else(error)
}

/// Reads an amount of work: a number above zero.
fn amount(item: Item<'_>) -> Result<f64, FileError> {
    let amount = item.number()?;
    let error = || item.error(format!("of = {amount} is not above 0"), "write of = 8421");
    (amount > 0.0).then_some(amount).ok_or_else(error)
}

/// Checks that the column that `per` names exists in the table and has a unit of time.
fn per(item: &Item<'_>, table: &str, columns: &[Column]) -> Result<(), FileError> {
    let per = item.text()?;
    let Some(column) = columns.iter().find(|column| column.name == per) else {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let problem = format!("table '{table}' has no column '{per}'");
        return Err(item.error(problem, suggest::hint(&per, names)));
    };
    if column.unit.dimension != Dimension::Time {
        let problem = format!(
            "column '{per}' has the unit {}, which is not a unit of time",
            column.unit.name
        );
        return Err(
            item.error(problem, "name the column of the times that correspond to the rates")
        );
    }
    Ok(())
}

fn column(
    item: &Item<'_>,
    (table, context, table_unit): (&str, &Selection, Option<Unit>),
    runs: &[Run],
) -> Result<Column, FileError> {
    let node =
        item.table("write { name = \"create\", phase = \"create\", figure = \"returned\" }")?;
    let named = node.clone().named(format!("a column of table '{table}'"));
    let name = named.require("name", "write its heading as printed")?.text()?;
    let node = node.named(format!("column '{name}' of table '{table}'"));
    let context_keys = cell::KEYS.iter().copied().filter(|key| *key != "row");
    let keys: Vec<&str> =
        ["name", "of", "per", "untestable"].into_iter().chain(context_keys).collect();
    node.keys(&keys)?;
    let own_unit = node.get("unit").map(|item| cell::unit(&item)).transpose()?;
    let Some(unit) = own_unit.or(table_unit) else {
        let remedy = format!(
            "write unit = \"s\", here or for the whole table; valid values: {}",
            Unit::names().join(", ")
        );
        return Err(node.error(format!("{} lacks 'unit'", node.what), remedy));
    };
    let measured = match node.get("untestable") {
        Some(item) => {
            let reason = item.text()?;
            if let Some(item) = node.get("figure") {
                let problem = format!("{} is untestable and has a figure", node.what);
                return Err(item.key_error(problem, "remove one of them"));
            }
            Err(reason)
        }
        None => {
            let selection = Selection::read(&node, context, runs)?.with_unit(unit).with_row("");
            Ok(ColumnCell { cell: selection.cell(&node, runs)? })
        }
    };
    let of = node.get("of").map(amount).transpose()?;
    let per = node.get("per").map(|item| item.text()).transpose()?;
    if let Some(item) = node.get("per").filter(|_| per.as_ref() == Some(&name)) {
        let problem = format!("column '{name}' has itself as 'per'");
        return Err(
            item.error(problem, "name the column of the times that correspond to the rates")
        );
    }
    if of.is_some() != per.is_some() {
        return Err(node.error(
            format!("{} has only one of 'of' and 'per'", node.what),
            "rates need both: of = 8421 and per = \"the column of their times\"",
        ));
    }
    if let Some(item) = node.get("of").filter(|_| !matches!(unit.dimension, Rate | Flow)) {
        let problem =
            format!("{} has the unit {}, which is not a unit of rates", node.what, unit.name);
        let remedy = "remove 'of' and 'per', or give it a unit of rates, such as /s or MiB/s";
        return Err(item.key_error(problem, remedy));
    }
    Ok(Column { name, unit, measured, of, per })
}

fn rows(
    node: &Node<'_>,
    name: &str,
    columns: &[Column],
    runs: &[Run],
) -> Result<Vec<PublishedRow>, FileError> {
    let remedy = "write rows = { \"ext4\" = [618.991, \"12.3±0.4\", \"-\"] }";
    let listed = node.require("rows", remedy)?.table(remedy)?;
    let mut rows = Vec::new();
    for (label, item) in listed.entries() {
        for column in columns.iter().filter_map(|column| column.measured.as_ref().ok()) {
            check_row(&label, column.run(), runs).map_err(|hint| {
                item.key_error(format!("run '{}' has no row '{label}'", column.run()), hint)
            })?;
        }
        let cells = item.list()?;
        if cells.len() != columns.len() {
            let (cells, columns) = (counted(cells.len(), "cell"), counted(columns.len(), "column"));
            return Err(item.error(
                format!("row '{label}' of table '{name}' has {cells}"),
                format!("the table has {columns}; a cell that was not published is \"-\""),
            ));
        }
        let cells = cells.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        rows.push(PublishedRow { label, cells, spot: item.spot() });
    }
    match rows.is_empty() {
        true => Err(node.error(format!("table '{name}' has no row"), remedy)),
        false => Ok(rows),
    }
}

/// Reads a cell: a number, `"mean±sd"`, or `"-"`.
fn value(item: &Item<'_>) -> Result<Option<Value>, FileError> {
    let error = || {
        item.error(
            format!("{} is not a valid cell", item.written()),
            "a cell is a number, \"mean±deviation\", or \"-\" where none was published",
        )
    };
    let number = |text: &str| {
        let text = text.trim();
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte));
        let number = text.parse::<f64>().ok().filter(|_| plain);
        number.map(|number| (number, text.to_string())).ok_or_else(error)
    };
    let (mean, deviation) = match item.value {
        DeValue::String(text) if text.trim() == "-" => return Ok(None),
        DeValue::String(text) => match text.split_once('±') {
            Some((mean, deviation)) => (number(mean)?, Some(number(deviation)?)),
            None => (number(text)?, None),
        },
        DeValue::Integer(_) | DeValue::Float(_) => {
            (number(&item.written().replace('_', ""))?, None)
        }
        _ => return Err(error()),
    };
    if deviation.as_ref().is_some_and(|(number, _)| *number < 0.0) {
        return Err(error());
    }
    let ((value, text), (deviation, deviation_text)) = (mean, deviation.unzip());
    Ok(Some(Value { value, deviation, text, deviation_text }))
}

fn doubt(
    item: &Item<'_>,
    name: &str,
    columns: &[&str],
    rows: &[PublishedRow],
) -> Result<Doubt, FileError> {
    let remedy = "write { row = \"..\", column = \"..\", why = \"..\" }";
    let node = item.table(remedy)?.named(format!("a doubt of table '{name}'"));
    node.keys(&["row", "column", "why"])?;
    let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
    let one_of = |key: &str, known: &[&str]| -> Result<String, FileError> {
        let item = node.require(key, remedy)?;
        let text = item.text()?;
        if !known.contains(&text.as_str()) {
            let problem = format!("table '{name}' has no {key} '{text}'");
            return Err(item.error(problem, suggest::hint(&text, known.to_vec())));
        }
        Ok(text)
    };
    Ok(Doubt {
        row: one_of("row", &labels)?,
        column: one_of("column", columns)?,
        why: node.require("why", remedy)?.text()?,
    })
}
