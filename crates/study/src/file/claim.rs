//! Claims: statements that are decided by a check.

use std::collections::BTreeSet;

use super::cell::{Cell, KEYS, Selection};
use super::error::{FileError, Spot};
use super::read::{Item, Node};
use super::run::Run;

/// A testable statement.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Name in tables, such as `C1`.
    pub id: String,
    /// The statement.
    pub text: String,
    /// The published number, in the unit of the check, if there is one.
    pub published: Option<f64>,
    /// Minimum distance from a bound, as a fraction of the bound (0.05), independent of the number of seeds; smaller
    /// differences do not count. An exponent has no margin.
    pub margin: f64,
    /// The test that decides it.
    pub test: Test,
    /// Position in the file.
    pub spot: Spot,
}

/// Default margin.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// The test that decides a claim.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a study has a few dozen claims")]
pub enum Test {
    /// A check.
    Check(Check),
    /// Not testable, for this reason.
    Untestable(String),
}

/// Maximum number of characters in an id.
const MAX_ID: usize = 64;

/// The measured quantity and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// A ratio of two cells.
    Ratio {
        /// The numerator.
        numerator: Cell,
        /// The denominator.
        denominator: Cell,
        /// Bounds of the ratio.
        bound: Bound,
    },
    /// Cells in ascending order.
    Order(Vec<Cell>),
    /// Cells, the largest of which is at most `at_most` times the smallest.
    Within {
        /// The cells.
        cells: Vec<Cell>,
        /// Maximum ratio of the largest to the smallest; 1 or more.
        at_most: f64,
    },
    /// A figure in the cell's unit.
    Value {
        /// The cell.
        cell: Cell,
        /// Its bounds.
        bound: Bound,
    },
    /// The exponent of growth over the points of a curve.
    Exponent {
        /// The cell, at every point.
        cell: Cell,
        /// Its bounds.
        bound: Bound,
    },
}

impl Check {
    /// Returns the cells that the check uses.
    pub fn cells(&self) -> Vec<&Cell> {
        match self {
            Check::Ratio { numerator, denominator, .. } => vec![numerator, denominator],
            Check::Order(cells) | Check::Within { cells, .. } => cells.iter().collect(),
            Check::Value { cell, .. } | Check::Exponent { cell, .. } => vec![cell],
        }
    }
}

/// The bounds of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Lower bound, exclusive.
    MoreThan(f64),
    /// Upper bound, exclusive.
    LessThan(f64),
    /// Both bounds, inclusive.
    Between(f64, f64),
}

/// Formats a bound as in the file; very small or very large ones in scientific notation, such as `1e-300`.
pub fn format_bound(bound: f64) -> String {
    let plain = bound == 0.0 || (1e-4..1e15).contains(&bound.abs());
    if plain { bound.to_string() } else { format!("{bound:e}") }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // As in the file, except for long runs of zeros.
            Bound::MoreThan(bound) => write!(f, "more than {}", format_bound(*bound)),
            Bound::LessThan(bound) => write!(f, "less than {}", format_bound(*bound)),
            Bound::Between(low, high) => {
                write!(f, "{} to {}", format_bound(*low), format_bound(*high))
            }
        }
    }
}

/// Keys that name the kind of a check.
const KINDS: &[&str] = &["ratio", "order", "within", "value", "exponent"];

/// Keys of bounds.
const BOUNDS: &[&str] = &["more_than", "less_than", "between"];

/// Reads all claims of a file.
pub(super) fn claims(top: &Node<'_>, runs: &[Run]) -> Result<Vec<Claim>, FileError> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut ids = BTreeSet::new();
    for node in top.tables("claim")? {
        let claim = claim(&node, runs)?;
        if !ids.insert(claim.id.clone()) {
            let item = node.require("id", "")?;
            let problem = format!("two claims are called '{}'", claim.id);
            return Err(item.error(problem, "give each its own id"));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn claim(node: &Node<'_>, runs: &[Run]) -> Result<Claim, FileError> {
    let named = node.clone().named("a claim").require("id", "name it: id = \"C1\"")?;
    let id = named.text()?;
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.+-".contains(letter);
    if !id.chars().all(is_allowed) || id.len() > MAX_ID {
        let problem = format!("'{id}' cannot be the id of a claim");
        let remedy = format!(
            "an id consists of at most {MAX_ID} letters, digits and the characters _ . + -"
        );
        return Err(named.error(problem, remedy));
    }
    let node = node.clone().named(format!("claim '{id}'"));
    node.keys(&["id", "text", "published", "least", "check", "untestable"])?;
    let text = node.require("text", "write the claim as a sentence")?.text()?;
    let test = match (node.get("check"), node.get("untestable")) {
        (Some(item), None) => {
            let table = item.table("begin it with a line [claim.check]")?;
            Test::Check(check(&table.named(format!("the check of claim '{id}'")), runs)?)
        }
        (None, Some(item)) => Test::Untestable(item.text()?),
        (Some(_), Some(item)) => {
            let problem = format!("claim '{id}' has a check and is untestable");
            return Err(item.key_error(problem, "remove one of them"));
        }
        (None, None) => {
            return Err(node.error(
                format!("claim '{id}' has no check"),
                "write [claim.check] with ratio, order, within, value or exponent, or untestable = \"why\"",
            ));
        }
    };
    if let (Test::Check(Check::Exponent { .. }), Some(item)) = (&test, node.get("least")) {
        let problem = format!("claim '{id}' checks an exponent, which has no margin");
        return Err(item.key_error(problem, "remove 'least'"));
    }
    let margin = node.get("least").map_or(Ok(DEFAULT_MARGIN), |item| percent(&item))?;
    if let (Test::Check(check), Some(item)) = (&test, node.get("check"))
        && !is_satisfiable(check, margin)
    {
        let (part, problem) = (margin * 100.0, format!("no value can satisfy claim '{id}'"));
        let remedy = format!(
            "no value remains after a margin of {part} % of each bound; write a wider bound or a smaller margin, \
             such as least = \"1%\""
        );
        return Err(item.key_error(problem, remedy));
    }
    Ok(Claim {
        published: node.get("published").map(|item| item.number()).transpose()?,
        margin,
        spot: named.spot(),
        id,
        text,
        test,
    })
}

/// Returns whether any number satisfies the bounds after the margin is applied.
fn is_satisfiable(check: &Check, margin: f64) -> bool {
    let raised = |bound: f64| bound + bound.abs() * margin;
    let lowered = |bound: f64| bound - bound.abs() * margin;
    match check {
        Check::Within { at_most, .. } => lowered(*at_most) > 1.0,
        Check::Ratio { bound: Bound::LessThan(limit), .. } => lowered(*limit) > 0.0,
        Check::Ratio { bound: Bound::Between(low, high), .. }
        | Check::Value { bound: Bound::Between(low, high), .. } => raised(*low) < lowered(*high),
        // An exponent has no margin: it is fitted to its points.
        _ => true,
    }
}

/// Reads a percentage such as `5%`.
fn percent(item: &Item<'_>) -> Result<f64, FileError> {
    let text = item.text()?;
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    let error = || item.error(format!("'{text}' is not a percentage"), "write it as \"5%\"");
    Ok(number.ok_or_else(error)? / 100.0)
}

fn check(node: &Node<'_>, runs: &[Run]) -> Result<Check, FileError> {
    let known: Vec<&str> = KINDS.iter().chain(BOUNDS).copied().collect();
    reject_at_most(node)?;
    node.keys(&known)?;
    let found: Vec<Item<'_>> = KINDS.iter().filter_map(|kind| node.get(kind)).collect();
    let item = match found.as_slice() {
        [item] => item,
        [] => {
            let remedy = format!("write one of: {}", KINDS.join(", "));
            return Err(node.error(format!("{} does not state what is checked", node.what), remedy));
        }
        [_, second, ..] => {
            let problem = format!("{} has two kinds", node.what);
            return Err(second.key_error(
                problem,
                "a check has only one kind; write a second claim for the other",
            ));
        }
    };
    let table = item.table(&format!("write {} = {{ ... }}", item.name))?;
    let table = table.named(format!("'{}' of {}", item.name, node.what));
    if item.name != "within" {
        reject_at_most(&table)?;
    }
    match item.name.as_str() {
        "ratio" => ratio(node, &table, runs),
        "order" => {
            table.keys(&cell_keys_with(&["rows"]))?;
            reject_bounds(node, "its cells only have to be in ascending order")?;
            Ok(Check::Order(cells(&table, runs)?))
        }
        "within" => within(node, &table, runs),
        "value" => value(node, &table, runs),
        _ => {
            table.keys(KEYS)?;
            let cell = Selection::read(&table, &Selection::default(), runs)?.cell(&table, runs)?;
            if let Some(item) = table.get("at") {
                return Err(
                    item.key_error("an exponent is computed over all points", "remove 'at'")
                );
            }
            Ok(Check::Exponent { cell, bound: bound(node)? })
        }
    }
}

/// Returns the keys of a cell and the given additional ones.
fn cell_keys_with(extra: &[&'static str]) -> Vec<&'static str> {
    [KEYS, extra].concat()
}

/// Reads two cells and the bound of their ratio.
fn ratio(node: &Node<'_>, table: &Node<'_>, runs: &[Run]) -> Result<Check, FileError> {
    table.keys(&cell_keys_with(&["of", "over"]))?;
    let selection = Selection::read(table, &Selection::default(), runs)?;
    let side = |key: &str| -> Result<(Item<'_>, Cell), FileError> {
        let item = table.require(key, "write of = \"ROW\" and over = \"ROW\"")?;
        let cell = selection.for_row(&item, runs)?.cell(table, runs)?;
        Ok((item, cell))
    };
    let ((_, numerator), (over_item, denominator)) = (side("of")?, side("over")?);
    if numerator.figure.dimension() != denominator.figure.dimension() {
        let problem = format!(
            "'{}' cannot be divided by '{}'",
            numerator.figure.name(),
            denominator.figure.name()
        );
        return Err(table.error(problem, "use figures of the same kind"));
    }
    check_same_unit(&over_item, &numerator, &denominator, "'of' and 'over'")?;
    if numerator == denominator {
        return Err(table.error("'of' and 'over' are the same cell", "name two different ones"));
    }
    let bound = bound(node)?;
    let (Bound::MoreThan(least) | Bound::LessThan(least) | Bound::Between(least, _)) = bound;
    if least <= 0.0 {
        let problem = format!("{} has the bound {least}", node.what);
        return Err(node.error(problem, "a ratio is always above 0, so its bound must be, too"));
    }
    Ok(Check::Ratio { numerator, denominator, bound })
}

/// Reads cells and the maximum ratio of the largest to the smallest.
fn within(node: &Node<'_>, table: &Node<'_>, runs: &[Run]) -> Result<Check, FileError> {
    table.keys(&cell_keys_with(&["rows", "at_most"]))?;
    reject_bounds(node, "its bound is at_most")?;
    let item = table.require("at_most", "write at_most = 1.1, the largest over the smallest")?;
    let at_most = item.number()?;
    if at_most < 1.0 {
        let problem = format!("at_most {at_most} is less than 1");
        return Err(
            item.error(problem, "it is the ratio of the largest to the smallest, such as 1.1")
        );
    }
    Ok(Check::Within { cells: cells(table, runs)?, at_most })
}

/// Reads a cell and the bound of its value.
fn value(node: &Node<'_>, table: &Node<'_>, runs: &[Run]) -> Result<Check, FileError> {
    table.keys(KEYS)?;
    let cell = Selection::read(table, &Selection::default(), runs)?.cell(table, runs)?;
    let bound = bound(node)?;
    let invalid = match bound {
        Bound::MoreThan(low) | Bound::Between(low, _) if low < 0.0 => Some(low),
        Bound::LessThan(limit) if limit <= 0.0 => Some(limit),
        _ => None,
    };
    match invalid {
        Some(bound) => {
            let problem = format!("{} has the bound {bound}", node.what);
            Err(node.error(problem, "no figure is below 0; write a bound above 0"))
        }
        None => Ok(Check::Value { cell, bound }),
    }
}

/// Reads two or more cells, given as labels of rows or as tables.
fn cells(table: &Node<'_>, runs: &[Run]) -> Result<Vec<Cell>, FileError> {
    let selection = Selection::read(table, &Selection::default(), runs)?;
    let item = table.require("rows", "write rows = [\"ext2\", \"ext3\"]")?;
    let items = item.list()?;
    let cell = |item: &Item<'_>| selection.for_row(item, runs)?.cell(table, runs);
    let cells = items.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
    if cells.len() < 2 {
        return Err(item.error("one row cannot be compared", "name two or more"));
    }
    if let Some(index) = (1..cells.len()).find(|index| cells[..*index].contains(&cells[*index])) {
        let problem = format!("row '{}' is named twice", cells[index].row);
        return Err(item.error(problem, "name each once"));
    }
    let dimension = cells[0].figure.dimension();
    if let Some(other) = cells.iter().find(|cell| cell.figure.dimension() != dimension) {
        let problem = format!(
            "'{}' and '{}' cannot be compared",
            cells[0].figure.name(),
            other.figure.name()
        );
        return Err(item.error(problem, "use figures of the same kind"));
    }
    for (item, cell) in items.iter().zip(&cells) {
        check_same_unit(item, &cells[0], cell, "'rows'")?;
    }
    Ok(cells)
}

/// Checks that a cell has the same unit as the first, because cells are compared as plain numbers.
fn check_same_unit(
    item: &Item<'_>,
    first: &Cell,
    cell: &Cell,
    others: &str,
) -> Result<(), FileError> {
    if first.unit == cell.unit {
        return Ok(());
    }
    let (one, other) = (first.unit.name, cell.unit.name);
    let remedy = format!("remove 'unit', or write unit = \"{one}\" once, next to {others}");
    Err(item.error(format!("a cell in {one} is compared with one in {other}"), remedy))
}

/// Rejects `at_most` outside `within`.
fn reject_at_most(node: &Node<'_>) -> Result<(), FileError> {
    match node.get("at_most") {
        Some(item) => Err(item.key_error(
            format!("{} does not accept 'at_most'", node.what),
            "it belongs to within = { rows = [\"ext2\", \"ext3\"], at_most = 1.1, ... }; for a ratio, write less_than",
        )),
        None => Ok(()),
    }
}

/// Reads the single bound of a check.
fn bound(node: &Node<'_>) -> Result<Bound, FileError> {
    let found: Vec<Item<'_>> = BOUNDS.iter().filter_map(|name| node.get(name)).collect();
    let remedy = "write more_than = 1.0, less_than = 1.0 or between = [0.9, 1.1]";
    let item = match found.as_slice() {
        [item] => item,
        [] => return Err(node.error(format!("{} has no bound", node.what), remedy)),
        [_, second, ..] => {
            return Err(
                second.key_error(format!("{} has two bounds", node.what), "remove one of them")
            );
        }
    };
    match item.name.as_str() {
        "more_than" => Ok(Bound::MoreThan(item.number()?)),
        "less_than" => Ok(Bound::LessThan(item.number()?)),
        _ => match item.list()?.as_slice() {
            [low, high] => {
                let (low, high) = (low.number()?, high.number()?);
                if low >= high {
                    let problem = format!("between [{low}, {high}] is empty");
                    return Err(item.error(problem, "write the smaller one first"));
                }
                Ok(Bound::Between(low, high))
            }
            _ => Err(item.error("'between' takes two numbers", "write between = [1.7, 2.3]")),
        },
    }
}

/// Rejects a bound in a check whose kind does not take one.
fn reject_bounds(node: &Node<'_>, because: &str) -> Result<(), FileError> {
    match BOUNDS.iter().find_map(|name| node.get(name)) {
        Some(item) => {
            let problem = format!("{} does not accept '{}'", node.what, item.name);
            Err(item.key_error(problem, format!("{because}; remove this key")))
        }
        None => Ok(()),
    }
}
