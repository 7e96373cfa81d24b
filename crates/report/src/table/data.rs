//! The data of a table: columns, headers, rows, and how they fit into a width.

/// The kind of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Numbers, right-aligned.
    #[default]
    Number,
    /// The spread of the column before it, right-aligned.
    Spread,
    /// Text, left-aligned.
    Text,
    /// A verdict: a word with the tone of its row.
    Verdict,
    /// The group of adjacent rows. Text output prints it as a line above them.
    Group,
    /// Details that only the layout [`Fit::Records`] has space for.
    Detail,
    /// Notes on a row. Text output prints them after the row if they fit, else below it.
    Notes,
}

impl Kind {
    /// Returns true if cells are left-aligned.
    pub fn is_left(self) -> bool {
        !matches!(self, Kind::Number | Kind::Spread)
    }
}

/// The header of a column, and its meaning.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The text above the column.
    pub text: String,
    /// The kind of its cells.
    pub kind: Kind,
    /// The columns with the highest priority are omitted first if space is short; 0 is never omitted.
    pub priority: u8,
    /// Its meaning for the legend, or empty if the header is clear.
    pub meaning: String,
    /// The column's name in the legend, if it differs from the header.
    pub term: &'static str,
    /// The joint meaning of this column and the one before it, if both are displayed and the other one has no
    /// entry of its own in the legend.
    pub joint: &'static str,
    /// The column's name in a sentence, if it differs from the header.
    pub sentence_name: &'static str,
    /// The subject of its cells, if it differs from the one that the table's title names.
    pub subject: Option<&'static str>,
    /// True if it is not displayed because it has no value in any row.
    pub empty: bool,
}

impl Head {
    /// Its name in the legend.
    pub fn term(&self) -> &str {
        if self.term.is_empty() { &self.text } else { self.term }
    }
}

/// A column of rows of type `R`.
pub struct Column<'c, R: ?Sized> {
    /// Its header.
    pub head: Head,
    /// Returns this column's cell in a row.
    pub cell: Box<dyn Fn(&R) -> String + 'c>,
}

impl<'c, R: ?Sized> Column<'c, R> {
    /// Creates a column of a kind.
    pub fn new(
        kind: Kind,
        head: impl Into<String>,
        cell: impl Fn(&R) -> String + 'c,
    ) -> Column<'c, R> {
        let head = Head { text: head.into(), kind, ..Head::default() };
        Column { head, cell: Box::new(cell) }
    }

    /// Creates a column of numbers.
    pub fn number(head: impl Into<String>, cell: impl Fn(&R) -> String + 'c) -> Column<'c, R> {
        Column::new(Kind::Number, head, cell)
    }

    /// Creates a column of text.
    pub fn words(head: impl Into<String>, cell: impl Fn(&R) -> String + 'c) -> Column<'c, R> {
        Column::new(Kind::Text, head, cell)
    }

    /// Sets its meaning.
    pub fn means(mut self, meaning: impl Into<String>) -> Column<'c, R> {
        self.head.meaning = meaning.into();
        self
    }

    /// Sets its priority: the highest is omitted first.
    pub fn priority(mut self, priority: u8) -> Column<'c, R> {
        self.head.priority = priority;
        self
    }

    /// Sets the joint meaning of the column before it and this one.
    pub fn joint_meaning(mut self, joint: &'static str) -> Column<'c, R> {
        self.head.joint = joint;
        self
    }

    /// Sets a different name for sentences.
    pub fn sentence_name(mut self, name: &'static str) -> Column<'c, R> {
        self.head.sentence_name = name;
        self
    }

    /// Sets a different name for the legend.
    pub fn term(mut self, term: &'static str) -> Column<'c, R> {
        self.head.term = term;
        self
    }
}

/// The tone of a row or a verdict. Colour only repeats it; the text states it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No colour.
    #[default]
    Plain,
    /// Green: the best, or a claim that holds.
    Good,
    /// Red, and bold in markup: slower, or a claim that does not hold.
    Bad,
    /// Yellow: to be read with caution.
    Doubtful,
    /// Dim: less important than other rows.
    Faint,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<String>,
    /// Its tone.
    pub tone: Tone,
    /// The CSS classes of the dot that a page draws before the row's first cell, or empty for no dot.
    pub dot: String,
    /// Flags that a page displays below it.
    pub flags: Vec<&'static str>,
    /// The shade of each cell in a page, positive for slower, negative for faster, or empty for none.
    pub shades: Vec<i8>,
}

/// The text form of a table that is wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Columns are omitted by priority; then the names of the rows are truncated.
    #[default]
    Omit,
    /// As [`Fit::Omit`], with one space between columns before any is omitted.
    Tight,
    /// Blocks of columns, each with the first `labels` columns; indented by `indent`.
    Blocks {
        /// The number of columns that each block begins with.
        labels: usize,
        /// The indentation.
        indent: usize,
    },
    /// Rows and columns are exchanged, with as many rows in each line as fit.
    Transpose,
    /// A row that is wider than `within` is printed one cell per line; headers are in capitals.
    Stack {
        /// The width of the terminal, or `None` for a pipe, where each row stays one line.
        within: Option<usize>,
        /// True if the headers are printed.
        heads: bool,
    },
    /// Every row is a paragraph, regardless of the terminal's width: its cells are sentences.
    Records,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its title, or empty for none.
    pub title: String,
    /// A paragraph directly above it, or empty for none.
    pub caption: String,
    /// The columns.
    pub heads: Vec<Head>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Lines directly below it.
    pub details: Vec<String>,
    /// Further lines, which are omitted from brief text.
    pub verbose_details: Vec<String>,
    /// True if brief text omits it.
    pub is_folded: bool,
    /// Its text form if it is too wide.
    pub fit: Fit,
    /// The group of the table: tables with the same number have the same column widths.
    pub column_group: usize,
    /// Number of rows omitted because the page has no space for them.
    pub omitted_rows: usize,
}

impl Table {
    /// Creates a table of these rows.
    pub fn of<'r, R: 'r>(
        columns: Vec<Column<'_, R>>,
        rows: impl IntoIterator<Item = &'r R>,
    ) -> Table {
        let cells = |row: &R| columns.iter().map(|column| (column.cell)(row)).collect();
        let rows = rows.into_iter().map(|row| Row { cells: cells(row), ..Row::default() });
        let rows = rows.collect();
        Table {
            rows,
            heads: columns.into_iter().map(|column| column.head).collect(),
            ..Table::default()
        }
    }

    /// Creates a table of these cells, whose first `text_columns` columns are text.
    pub fn grid(heads: Vec<String>, text_columns: usize, rows: Vec<Vec<String>>) -> Table {
        let kind = |index: usize| if index < text_columns { Kind::Text } else { Kind::Number };
        let head = |(index, text)| Head { text, kind: kind(index), ..Head::default() };
        let heads = heads.into_iter().enumerate().map(head).collect();
        let row = |cells| Row { cells, ..Row::default() };
        Table { heads, rows: rows.into_iter().map(row).collect(), ..Table::default() }
    }

    /// Hides the columns that have no value in any row, such as the spread of single trials.
    #[must_use]
    pub fn without_empty(mut self) -> Table {
        for (index, head) in self.heads.iter_mut().enumerate() {
            let mut cells = self.rows.iter().map(|row| row.cells[index].as_str());
            head.empty =
                head.kind != Kind::Notes && cells.all(|cell| ["", "-", "–"].contains(&cell));
        }
        self
    }

    /// Sets the title.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Table {
        self.title = title.into();
        self
    }

    /// Sets the text form for a table that is too wide.
    #[must_use]
    pub fn fit(mut self, fit: Fit) -> Table {
        self.fit = fit;
        self
    }

    /// The indices of the columns that are displayed: neither empty nor details.
    pub fn shown(&self) -> impl Iterator<Item = usize> + '_ {
        let shown = |head: &Head| !head.empty && head.kind != Kind::Detail;
        (0..self.heads.len()).filter(move |index| shown(&self.heads[*index]))
    }

    /// The title, with the subject of these columns if it differs from the title's: `dirops create (p50, p99: fsync)`.
    pub fn title_of(&self, shown: impl Iterator<Item = usize>) -> String {
        let heads: Vec<&Head> =
            shown.map(|index| &self.heads[index]).filter(|head| head.subject.is_some()).collect();
        let names: Vec<&str> = heads.iter().map(|head| head.text.as_str()).collect();
        match heads.first().and_then(|head| head.subject) {
            Some(subject) => format!("{} ({}: {subject})", self.title, names.join(", ")),
            None => self.title.clone(),
        }
    }
}
