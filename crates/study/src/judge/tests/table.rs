//! Published tables next to measured ones, also at another scale.

use super::*;

const TABLE: &str = r#"
[[published]]
name = "times"
caption = "Seconds"
unit = "s"
figure = "returned"
columns = [
  { name = "create", phase = "create" },
  { name = "CPU", phase = "create", figure = "cpu share", unit = "%" },
  { name = "chart", untestable = "the chart is lost" },
]
rows = { ext4 = ["20.00±1.5", 22.08, 7], far = ["-", 3, "-"] }
doubts = [{ row = "far", column = "CPU", why = "it stands for two" }]
"#;

fn table(judged: &Judged) -> &fsdyno_report::study::Table {
    &judged.variants[0].tables[0]
}

#[test]
fn a_published_table_is_compared_with_the_measured_one_cell_by_cell() {
    let judged = judge(&study(TABLE), &historical(trials(&[("ext4", TEN)])));
    let table = table(&judged);
    let cell = |row: usize, column: usize| &table.rows[row].cells[column];
    assert_eq!(cell(0, 0).published.as_deref(), Some("20.00±1.5"));
    assert!((cell(0, 0).measured.unwrap().value - 10.0).abs() < 1e-9);
    assert!((cell(0, 0).ratio.unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(cell(0, 0).measured.unwrap().n, 5);
    assert!((cell(0, 1).measured.unwrap().value - 10.0).abs() < 1e-6, "in per cent");
    assert_eq!(cell(0, 2).missing.as_deref(), Some("the chart is lost"));
    assert_eq!(cell(1, 0).published, None);
    assert_eq!(cell(1, 0).missing.as_deref(), Some("run 'files' has no trial of 'far'"));
    assert_eq!(cell(1, 1).doubts, ["it stands for two"]);
    assert_eq!(table.source, "Author, 2008");
}

#[test]
fn at_another_scale_times_have_no_ratio_but_shares_do() {
    let mut results = historical(trials(&[("ext4", TEN)]));
    results[0].scale = 10;
    let judged = judge(&study(TABLE), &results);
    let cells = &table(&judged).rows[0].cells;
    assert_eq!((cells[0].ratio, cells[0].measured.is_some()), (None, true));
    assert!(cells[1].ratio.is_some() && judged.variants[0].scale == 10);
}

#[test]
fn at_another_scale_times_measure_less_work_and_shares_are_unchanged() {
    let value = |figure: &str| {
        format!(
            "value = {{ row = \"ext4\", phase = \"create\", figure = \"{figure}\" }}\nmore_than = 1"
        )
    };
    let both = claim("C1", &value("returned")) + &claim("C2", &value("cpu share"));
    let mut results = historical(trials(&[("ext4", TEN)]));
    results[0].scale = 10;
    let claims = judge(&study(&both), &results).variants.remove(0).claims;
    assert_eq!(claims[0].verdict, Verdict::NotTestable);
    assert_eq!(claims[0].why, "at scale 1/10 the figure 'returned' measures less work.");
    assert_eq!(claims[1].verdict, Verdict::StillHolds);
}
