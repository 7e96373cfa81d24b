//! Layton's tables of journal sizes as a study file: the five impossible cells are marked, each with the one that
//! it contradicts, and no others.

use super::*;
use crate::judge::table::doubts;

/// The printed rows, with the work of every run of a set (workloads.md, A): directories, files, KiB.
const SETS: [(&str, [u64; 3], &str); 4] = [
    ("small shallow", [8421, 336_840, 1_347_360], "\
16M 28.40±1.28 346.70±2.53 70.90±0.94 6.80±3.89 296.5±13.3 971.1±7.06 3885.9±28.73 4751.5±63.66 1529.5±513.69
64M 13.70±1.10 338.40±5.22 65.80±2.40 4.10±1.76 617.9±47.78 995.7±15.32 3982.1±61.59 4665.5±1399.38 2554.0±1200.46
256M 10.0±0.45 330.80±0.98 53.80±1.17 15.70±0.64 843.6±38.15 1017.6±2.94 4072.5±11.94 6263.4±134.59 6315.6±2681.55
1G 10.20±1.33 330.70±1.27 53.40±0.92 2.70±2.83 837.9±99.13 1017.9±3.81 4073.7±15.44 6309.1±108.52 5698.0±2928.20"),
    ("small deep", [88_573, 354_292, 1_417_168], "\
16M 324.50±3.17 633.30±7.09 330.60±2.15 214.40±1.36 272.5±2.8 559.0±6.36 2237.7±25.28 1071.3±6.96 412.4±2.42
64M 218.60±7.31 500.50±8.86 224.70±5.92 75.60±4.27 405.0±13.54 707.5±12.7 2831.8±50.11 1577.2±41.77 1175.1±67.83
256M 148.10±3.45 426.00±15.49 169.80±8.94 54.20±3.19 597.9±14.59 832.1±30.3 3330.6±121.08 2091.9±110.24 1639.7±102.91
1G 127.60±11.09 406.20±11.68 147.40±13.17 47.80±10.03 698.9±57.52 872.4±23.33 3491.1±93.44 2420.1±191.32 1924.0±345.24"),
    ("medium shallow", [307, 3070, 12_280_000], "\
16M 0.20±0.40 154.40±3.41 12.20±3.49 0.10±0.30 61.4±122.8 19.4±0.66 79570.4±1682.43 271.6±72.43 30.7±92.1
64M 0.30±0.46 154.10±3.27 11.40±2.69 0.00±0.00 92.1±140.69 19.5±0.67 79722.9±1644.04 282.5±58.21 0.00±0.00
256M 0.50±0.67 156.80±2.09 9.40±3.01 0.10±0.30 107.3±138.1 19.1±0.30 78329.7±1050.68 386.6±219.08 0.00±0.00
1G 0.30±0.46 154.20±1.54 11.40±3.56 0.20±0.40 92.1±140.69 19.3±0.46 79644.2±784.75 305.0±123.77 61.4±122.8"),
    ("medium deep", [2047, 4094, 16_376_000], "\
16M 4.20±0.60 225.90±1.58 15.30±2.69 1.50±0.50 497.5±76.57 17.8±0.40 72495.3±507.54 225.9±1.58 1535.0±512.0
64M 3.00±0.00 220.30±1.55 14.10±3.51 1.80±1.25 682.1±0.30 18.0±0.00 74338.2±523.04 311.4±90.36 1541.9±639.7
256M 2.80±1.47 220.90±0.94 14.20±3.71 3.30±3.16 847.6±239.91 18.2±0.40 74133.9±317.48 309.6±85.2 1210.8±697.18
1G 2.90±0.83 220.40±1.28 14.30±3.00 2.50±1.20 767.1±219.19 18.1±0.30 74303.3±430.36 300.1±70.44 1108.4±639.67"),
];

/// The columns of times, then those of rates: name, index of the amount of work, column of the times.
const TIMES: [&str; 4] = ["dcreate", "fcreate", "fremove", "dremove"];
const RATES: [(&str, usize, &str); 5] = [
    ("dirs/s", 0, "dcreate"),
    ("files/s", 1, "fcreate"),
    ("KiB/s", 2, "fcreate"),
    ("removes/s", 1, "fremove"),
    ("rmdirs/s", 0, "dremove"),
];

/// Returns a set's table as a study file; `more` is added to its columns.
fn table((name, counts, lines): &(&str, [u64; 3], &str), more: &str) -> String {
    let untested = "untestable = \"not of this test\"";
    let mut columns: Vec<String> =
        TIMES.iter().map(|name| format!("  {{ name = \"{name}\", {untested} }},\n")).collect();
    columns.extend(RATES.iter().map(|(name, counted, per)| {
        let count = counts[*counted];
        format!(
            "  {{ name = \"{name}\", unit = \"/s\", of = {count}, per = \"{per}\", {untested} }},\n"
        )
    }));
    let rows: Vec<String> = lines
        .lines()
        .map(|line| {
            let (label, cells) = line.split_once(' ').unwrap();
            let cells: Vec<String> = cells.split(' ').map(|cell| format!("\"{cell}\"")).collect();
            format!("\"{label}\" = [{}]", cells.join(", "))
        })
        .collect();
    format!(
        "[[published]]\nname = \"{name}\"\ncaption = \"fdtree\"\nunit = \"s\"\n{more}columns = [\n{}]\nrows = {{ {} }}\n",
        columns.concat(),
        rows.join(", ")
    )
}

/// Returns the marked cells of all sets: set, row, column.
fn marked_cells(more: &str) -> Vec<(String, String, String)> {
    let mut marked = Vec::new();
    for set in &SETS {
        let file = study(&table(set, more));
        let published = &file.published[0];
        for ((row, column), reason) in doubts(published) {
            assert!(!reason.is_empty());
            let (row, column) = (&published.rows[row].label, &published.columns[column].name);
            marked.push((published.name.clone(), row.clone(), column.clone()));
        }
    }
    marked
}

#[test]
fn the_five_contradictions_are_marked_and_no_other_cell() {
    let found = marked_cells("runs = 10\nstep = 1\n");
    let found: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|(set, row, column)| (set.as_str(), row.as_str(), column.as_str()))
        .collect();
    let expected = [
        ("small shallow", "64M", "fremove"),
        ("small shallow", "64M", "removes/s"),
        ("small shallow", "256M", "dremove"),
        ("small shallow", "256M", "rmdirs/s"),
        ("medium shallow", "256M", "dremove"),
        ("medium shallow", "256M", "rmdirs/s"),
        ("medium deep", "16M", "fremove"),
        ("medium deep", "16M", "removes/s"),
        ("medium deep", "64M", "dcreate"),
        ("medium deep", "64M", "dirs/s"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn without_the_number_of_runs_a_deviation_has_no_effect() {
    assert_eq!(marked_cells(""), []);
}
