//! HTML: the tables of the page, and a whole document in the same form.

use minijinja::HtmlEscape;

use super::data::{Head, Kind, Row, Table, Tone};
use super::document::{Block, Document};

/// The document as a fragment of HTML; all text is escaped.
pub fn html(document: &Document) -> String {
    let mut out = String::new();
    for block in document.simplified() {
        match block {
            Block::Title(text) => out += &format!("<h2>{}</h2>\n", HtmlEscape(&text)),
            Block::Items(items) => {
                let item = |item: &String| format!("<li>{}</li>\n", HtmlEscape(item));
                out += &format!("<ul>\n{}</ul>\n", items.iter().map(item).collect::<String>());
            }
            Block::Table(mut data) => {
                let title = data.title_of(data.shown());
                if data.caption.is_empty() {
                    data.caption = title;
                } else if !title.is_empty() {
                    data.caption = format!("{title}. {}", data.caption);
                }
                out += &table(&data);
                out += "\n";
                data.details
                    .iter()
                    .chain(&data.verbose_details)
                    .for_each(|text| out += &format!("<p>{}</p>\n", HtmlEscape(text)));
            }
            Block::Verbatim(lines) => {
                out += &format!("<pre>{}</pre>\n", HtmlEscape(&lines.join("\n")));
            }
            Block::Paragraph(text) => out += &format!("<p>{}</p>\n", HtmlEscape(&text)),
            // `simplified` leaves no other kinds.
            _ => {}
        }
    }
    out
}

/// A table as HTML.
pub fn table(table: &Table) -> String {
    let shown: Vec<usize> = table.shown().collect();
    let mut out = "<table>\n".to_string();
    let omitted = match table.omitted_rows {
        0 => String::new(),
        n => format!("; {n} more rows are omitted here; --format csv has them"),
    };
    if !(table.caption.is_empty() && omitted.is_empty()) {
        out += &format!("<caption>{}{omitted}</caption>\n", HtmlEscape(&table.caption));
    }
    out += "<thead><tr>";
    for column in &shown {
        let head = &table.heads[*column];
        out += &format!("<th scope=\"col\"{}>{}</th>", class(head), HtmlEscape(&head.text));
    }
    out += "</tr></thead>\n<tbody>\n";
    table.rows.iter().for_each(|row| out += &row_html(table, row, &shown));
    out + "</tbody>\n</table>"
}

fn row_html(table: &Table, row: &Row, shown: &[usize]) -> String {
    let best = if row.tone == Tone::Good { "best " } else { "" };
    let row_class = format!("{best}{}", if row.flags.is_empty() { "" } else { "flagged" });
    let mut out = match row_class.trim() {
        "" => "<tr>".to_string(),
        class => format!("<tr class=\"{class}\">"),
    };
    for (index, column) in shown.iter().enumerate() {
        let head = &table.heads[*column];
        let cell = match (row.cells[*column].as_str(), head.kind) {
            ("-", _) => "–".to_string(),
            (text, Kind::Spread) if !text.is_empty() && !text.starts_with('±') => {
                format!("± {text}")
            }
            (text, _) => text.to_string(),
        };
        let cell = HtmlEscape(&cell);
        if index > 0 {
            out += &match row.shades.get(*column) {
                Some(shade) if *shade != 0 => {
                    let side = if *shade > 0 { "slower" } else { "faster" };
                    format!("<td class=\"{side}{}\">{cell}</td>", shade.unsigned_abs())
                }
                _ => format!("<td{}>{cell}</td>", class(head)),
            };
            continue;
        }
        let dot = match row.dot.as_str() {
            "" => String::new(),
            dot => format!("<span class=\"dot {}\"></span>", HtmlEscape(dot)),
        };
        out += &format!("<th scope=\"row\">{dot}{cell}</th>");
    }
    out += "</tr>\n";
    if !row.flags.is_empty() {
        let flag = |flag: &&str| format!("<span class=\"flag\">{}</span> ", HtmlEscape(flag));
        let flags: String = row.flags.iter().map(flag).collect();
        let columns = shown.len();
        out += &format!(
            "<tr class=\"flags\"><td colspan=\"{columns}\" class=\"left\">{flags}</td></tr>\n"
        );
    }
    out
}

fn class(head: &Head) -> &'static str {
    match head.kind {
        Kind::Number => "",
        Kind::Spread => " class=\"spread\"",
        _ => " class=\"left\"",
    }
}
