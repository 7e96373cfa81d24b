//! Tables of factors relative to the best row.

use fsdyno_report::study::Factors;

use super::*;

const ONE: &str = r#"
[[factors]]
name = "files"
caption = "Made and deleted"
runs = ["files"]
phase = "create"
figure = "returned"
"#;

fn factors(rest: &str, rows: &[(&str, &[f64])]) -> Vec<Factors> {
    judge(&study(rest), &historical(trials(rows))).variants.remove(0).factors
}

#[test]
fn each_row_is_divided_by_the_best_per_seed_and_a_row_without_trials_has_a_reason() {
    let [table] = factors(ONE, &[("ext4", TEN), ("xfs", FIFTEEN)]).try_into().unwrap();
    assert_eq!((table.columns.as_slice(), table.unit.as_str()), (["files".into()].as_slice(), "s"));
    assert!((table.best[0].unwrap() - 10.0).abs() < 0.01);
    let cell = |row: usize| &table.rows[row].cells[0];
    assert_eq!(cell(0).text(), "1.00");
    let slower = cell(1).factor.unwrap();
    assert!((slower.value - 1.5).abs() < 0.01 && slower.n == 5 && !cell(1).undecided);
    assert!(slower.interval.unwrap().0 > 1.4);
    assert_eq!(cell(2).text(), "-");
    assert_eq!(cell(2).missing.as_deref(), Some("run 'files' has no trial of 'far'"));
}

#[test]
fn a_row_whose_interval_contains_1_or_that_lies_within_the_margin_is_undecided() {
    let undecided = |xfs: &[f64]| {
        let table = factors(ONE, &[("ext4", TEN), ("xfs", xfs)]).remove(0);
        table.rows[1].cells[0].undecided || table.rows[0].cells[0].undecided
    };
    assert!(undecided(&[10.2, 10.3, 10.1, 10.2, 10.2]), "within 5 %");
    assert!(undecided(&[9.0, 16.0, 13.0, 17.0, 11.0]), "scattered");
    assert!(!undecided(FIFTEEN));
}

#[test]
fn several_tables_over_the_same_columns_begin_with_the_means_of_their_factors() {
    let doubled = format!("{ONE}{}", ONE.replacen("\"files\"", "\"again\"", 1));
    let tables = factors(&doubled, &[("ext4", TEN), ("xfs", FIFTEEN)]);
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["all", "files", "again"]);
    let [all, one, _] = tables.try_into().unwrap();
    let value = |table: &Factors| table.rows[1].cells[0].factor.unwrap().value;
    assert!((value(&all) - value(&one)).abs() < 1e-9, "the mean of two equal factors");
    assert_eq!(
        all.rows[2].cells[0].missing.as_deref(),
        Some("not in all of the tables, or unsafe in one")
    );
    let text =
        as_text(&judge(&study(&doubled), &historical(trials(&[("ext4", TEN), ("xfs", FIFTEEN)]))));
    assert!(text.contains("2 tables of factors") && text.contains("1.50x"), "{text}");
}

#[test]
fn a_row_that_may_lose_what_it_acknowledged_is_neither_the_best_nor_in_a_mean() {
    let doubled = format!("{ONE}{}", ONE.replacen("\"files\"", "\"again\"", 1));
    let mut all = trials(&[("ext4", FIFTEEN), ("xfs", TEN)]);
    for trial in all.iter_mut().filter(|trial| trial.plan.label == "xfs") {
        trial.conditions.mount = "ext4 rw,nobarrier".into();
    }
    let [mean, table, _] =
        judge(&study(&doubled), &historical(all)).variants.remove(0).factors.try_into().unwrap();
    assert_eq!(table.rows[0].cells[0].text(), "1.00");
    let unsafe_cell = &table.rows[1].cells[0];
    assert!(unsafe_cell.factor.unwrap().value < 0.7 && unsafe_cell.text().starts_with("UNSAFE 0."));
    assert_eq!(mean.rows[1].cells[0].text(), "-");
}
