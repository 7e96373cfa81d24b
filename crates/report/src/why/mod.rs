//! Output of an explanation of a trial's time: text, Markdown, CSV, JSON.

mod document;
mod load;
mod machine;
pub(crate) mod rows;

use fsdyno_why::Explained;

use crate::error::ReportError;
use crate::table::{Document, Output, Rows};

pub(crate) use document::title;
pub use load::{load_why, read_why};

/// A trial to print, compared with another one if given.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a> {
    /// The trial.
    pub explained: &'a Explained,
    /// The trial that it is compared with.
    pub against: Option<&'a Explained>,
}

impl Output for Explanation<'_> {
    fn document(&self) -> Document {
        document::document(self.explained, self.against)
    }

    fn rows(&self, out: &mut dyn Rows) {
        machine::rows(self.explained, out);
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(machine::json(self.explained, self.against))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use fsdyno_record::mailbox::Stage;
    use fsdyno_record::{Bytes, Nanos};
    use fsdyno_why::account::{Account, Cause, Dot, Key, Sum};
    use fsdyno_why::kernel::{Frame, Task};
    use fsdyno_why::{Grid, Phase, Structure};
    use serde_json::{Value, json};
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::table::{Format, Style};

    fn write(
        explained: &Explained,
        other: Option<&Explained>,
        format: Format,
        style: Style,
    ) -> String {
        format.write(&Explanation { explained, against: other }, style).unwrap()
    }

    /// A label that a terminal, a table and a page must escape.
    pub const HOSTILE: &str = "a, b|<script>\u{1b}[2J";

    /// A trial with one phase, under this label.
    pub fn explained(label: &str) -> Explained {
        let mut account = Account::default();
        let place = (Stage::Running, 0);
        let key = |structure, cause| Key { place, structure, cause };
        let sum = |requests, time| Sum {
            requests,
            bytes: Bytes(requests * 4096),
            time_ns: Nanos(time),
            ..Sum::default()
        };
        account.rows.insert(key(Some(Structure::InodeTable), Cause::Work), sum(999, 750));
        account.rows.insert(key(None, Cause::WriteBack), sum(1, 250));
        account.rows.insert(key(Some(Structure::Data), Cause::Untimed), sum(7, 0));
        let leaf = Frame { own: 300, calls: 20, layer: "ext4".into(), ..Frame::default() };
        let below = BTreeMap::from([("ext4_find_entry".to_string(), leaf)]);
        let executed = BTreeMap::from([(Task::Ops, Frame { below, ..Frame::default() })]);
        let dot = |byte, structure| Dot { disk: 0, arrived: Nanos(byte), byte, structure, place };
        let dots = [dot(0, Some(Structure::InodeTable)), dot(1 << 30, None)];
        let mut phase = Phase {
            name: "unlink".into(),
            ops: 10,
            took_ns: Nanos(2000),
            cpu_ns: Nanos(300),
            requests: Grid::new(&dots),
            ..Phase::default()
        };
        phase.set_executed(&executed);
        Explained {
            label: label.into(),
            workload: "dirops".into(),
            trial_id: "t-1".into(),
            phases: vec![phase],
            account: Some(account),
            notes: vec!["something is odd".into()],
            ..Explained::default()
        }
    }

    fn shown(format: Format, width: usize) -> String {
        let style = Style { width, ..Style::default() };
        write(&explained(HOSTILE), Some(&explained("other")), format, style)
    }

    #[test]
    fn text_has_rows_sums_and_the_unattributed_share() {
        let text = write(&explained("x"), None, Format::Text, Style::default());
        let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "unlink\n",
            "inode table",
            "75.0 %",
            "unattributed",
            "mkfs, verification",
            "Of the timed requests, 99.90 % are attributed, with 75.00 % of their time",
            "A request is unattributed",
            "ext4_find_entry  ext4",
        ] {
            let is_in = text.contains(part) || unwrapped.contains(part);
            assert!(is_in, "{part}: {text}");
        }
        assert!(text.ends_with("Note: something is odd.\n"), "{text}");
        let mut cut = explained("x");
        cut.log.lost = 1234;
        let text = write(&cut, None, Format::Markdown, Style::default());
        assert!(text.contains("truncated: 1,234 more requests are in no row"), "{text}");
        let markdown = write(&explained("x"), None, Format::Markdown, Style::default());
        let row = "| ext4\\_find\\_entry | ext4 | 30.0 | 2.00 | 100.0 % |";
        assert!(markdown.contains(row), "{markdown}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_omitted_columns_are_named() {
        for width in [40, 60, 80, 120] {
            let text = shown(Format::Text, width);
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
        }
        assert!(shown(Format::Text, 40).contains("columns omitted to fit the width: "));
        assert!(!shown(Format::Text, 120).contains("columns omitted"));
    }

    #[test]
    fn a_hostile_label_is_escaped() {
        for format in [Format::Text, Format::Markdown, Format::Csv] {
            assert!(!shown(format, 100).contains('\u{1b}'), "{format:?}");
        }
        assert!(!shown(Format::Markdown, 100).contains("<script>"));
    }

    #[test]
    fn csv_and_json_have_every_row() {
        let csv = write(&explained("a, b"), None, Format::Csv, Style::default());
        let columns = |line: &str| line.replace("\"a, b\"", "").split(',').count();
        assert!(csv.lines().all(|line| columns(line) == 16), "{csv}");
        assert!(csv.contains("requests,unlink,inode table,work,,999,4091904,0,750,0,,,"), "{csv}");
        assert!(csv.contains("functions,unlink,ext4_find_entry,ops,ext4,,,,,,300,20,10"), "{csv}");
        let read = |other: Option<&Explained>| -> Value {
            let text = write(&explained("x"), other, Format::Json, Style::default());
            serde_json::from_str(&text).unwrap()
        };
        let json = read(None);
        assert_eq!(json["requests"].as_array().unwrap().len(), 3);
        assert_eq!(json["requests"][0]["structure"], "inode_table");
        assert_eq!(json["functions"][0]["per_op"], 30.0);
        let phase = json!({"name": "unlink", "ops": 10, "took_ns": 2000, "cpu_ns": 300});
        assert_eq!(json["phases"], json!([phase]));
        let json = read(Some(&explained("x")));
        assert_eq!(json["against"]["differences"], json!([]));
    }

    #[test]
    fn a_selected_phase_is_the_only_one_in_every_table() {
        let mut explained = explained("x");
        let mut second = explained.phases[0].clone();
        second.name = "create".into();
        explained.phases.push(second);
        let account = explained.account.as_mut().unwrap();
        let rows: Vec<_> = account.rows.iter().map(|(key, sum)| (*key, *sum)).collect();
        for (key, sum) in rows {
            account.rows.insert(Key { place: (Stage::Running, 1), ..key }, sum);
        }
        explained.log = fsdyno_why::Log { requests: 2014, ..Default::default() };
        let json: Value = serde_json::from_str(&write(
            &explained.only_phase("create"),
            None,
            Format::Json,
            Style::default(),
        ))
        .unwrap();
        assert_eq!(json["log"]["requests"], 1007);
        let named = |list: &str, field: &str| {
            let rows = json[list].as_array().unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row[field] == "create"), "{list}");
        };
        named("requests", "place");
        named("functions", "phase");
        named("phases", "name");
    }
}
