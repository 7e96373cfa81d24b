//! The checker finds the five contradictions in Layton's published tables of journal sizes ("Size Can
//! Matter: Improving Metadata Performance with Ext4 Journal Sizing", tables 1 to 8), and no other.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use fsdyno_stats::consistency::{
    Agreement, Cell, Contradiction, Divisor, Rule, Sample, agreed_count, check_cells, parse_rounded,
};

/// The tables as printed. Columns: journal size; seconds to create directories, create files, remove files and remove
/// directories; directories, files and KiB created per second; files and directories removed per second. Each cell is
/// the mean and the population standard deviation of ten runs of fdtree, whose clock counts whole seconds and whose
/// rates are truncated to whole numbers.
const TABLES: &str = "\
# small shallow
16MB | 28.40 1.28 | 346.70 2.53 | 70.90 0.94 | 6.80 3.89 | 296.50 13.30 | 971.10 7.06 | 3,885.90 28.73 | 4,751.50 63.66 | 1,529.50 513.69
64MB | 13.70 1.10 | 338.40 5.22 | 65.80 2.40 | 4.10 1.76 | 617.90 47.78 | 995.70 15.32 | 3,982.10 61.59 | 4,665.50 1,399.38 | 2,554.00 1,200.46
256MB | 10.0 0.45 | 330.80 0.98 | 53.80 1.17 | 15.70 0.64 | 843.60 38.15 | 1,017.60 2.94 | 4,072.50 11.94 | 6,263.40 134.59 | 6,315.60 2,681.55
1GB | 10.20 1.33 | 330.70 1.27 | 53.40 0.92 | 2.70 2.83 | 837.90 99.13 | 1,017.90 3.81 | 4,073.70 15.44 | 6,309.10 108.52 | 5,698.00 2,928.20
# small deep
16MB | 324.50 3.17 | 633.30 7.09 | 330.60 2.15 | 214.40 1.36 | 272.50 2.80 | 559.00 6.36 | 2,237.70 25.28 | 1,071.30 6.96 | 412.40 2.42
64MB | 218.60 7.31 | 500.50 8.86 | 224.70 5.92 | 75.60 4.27 | 405.00 13.54 | 707.50 12.70 | 2,831.80 50.11 | 1,577.20 41.77 | 1,175.10 67.83
256MB | 148.10 3.45 | 426.00 15.49 | 169.80 8.94 | 54.20 3.19 | 597.90 14.59 | 832.10 30.30 | 3,330.60 121.08 | 2,091.90 110.24 | 1,639.70 102.91
1GB | 127.60 11.09 | 406.20 11.68 | 147.40 13.17 | 47.80 10.03 | 698.90 57.52 | 872.40 23.33 | 3,491.10 93.44 | 2,420.10 191.32 | 1,924.00 345.24
# medium shallow
16MB | 0.20 0.40 | 154.40 3.41 | 12.20 3.49 | 0.10 0.30 | 61.40 122.80 | 19.40 0.66 | 79,570.40 1,682.43 | 271.60 72.43 | 30.70 92.10
64MB | 0.30 0.46 | 154.10 3.27 | 11.40 2.69 | 0.00 0.00 | 92.10 140.69 | 19.50 0.67 | 79,722.90 1,644.04 | 282.50 58.21 | 0.00 0.00
256MB | 0.50 0.67 | 156.80 2.09 | 9.40 3.01 | 0.10 0.30 | 107.30 138.10 | 19.10 0.30 | 78,329.70 1,050.68 | 386.60 219.08 | .00 0.00
1GB | 0.30 0.46 | 154.20 1.54 | 11.40 3.56 | 0.20 0.40 | 92.10 140.69 | 19.30 0.46 | 79,644.20 784.75 | 305.00 123.77 | 61.40 122.80
# medium deep
16MB | 4.20 0.60 | 225.90 1.58 | 15.30 2.69 | 1.50 0.50 | 497.50 76.57 | 17.80 0.40 | 72,495.30 507.54 | 225.90 1.58 | 1,535.00 512.00
64MB | 3.00 0.00 | 220.30 1.55 | 14.10 3.51 | 1.80 1.25 | 682.10 0.30 | 18.00 0.00 | 74,338.20 523.04 | 311.40 90.36 | 1,541.90 639.70
256MB | 2.80 1.47 | 220.90 0.94 | 14.20 3.71 | 3.30 3.16 | 847.60 239.91 | 18.20 0.40 | 74,133.90 317.48 | 309.60 85.20 | 1,210.80 697.18
1GB | 2.90 0.83 | 220.40 1.28 | 14.30 3.00 | 2.50 1.20 | 767.10 219.19 | 18.10 0.30 | 74,303.30 430.36 | 300.10 70.44 | 1,108.40 639.67";

/// Each operation's column of times, column of rates, name, and the kind of object counted.
const COLUMNS: [(usize, usize, &str, &str); 5] = [
    (1, 5, "directory create", "directories"),
    (2, 6, "file create", "files"),
    (2, 7, "file create, KiB", "KiB"),
    (3, 8, "file remove", "files"),
    (4, 9, "directory remove", "directories"),
];

fn sample(text: &str) -> Sample {
    let (mean, sd) = text.split_once(' ').unwrap();
    let (mean, sd) = (parse_rounded(mean).unwrap(), parse_rounded(sd));
    Sample { mean, sd, divisor: Divisor::Runs, runs: 10, unit: Some(1.0), extremes: None }
}

/// Returns the cells, grouped by workload and by the kind of object that they count.
fn groups(tables: &str) -> Vec<(String, Vec<Cell>)> {
    let mut groups: Vec<(String, Vec<Cell>)> = Vec::new();
    let mut workload = "";
    for line in tables.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            workload = name;
            continue;
        }
        let columns: Vec<&str> = line.split(" | ").collect();
        assert_eq!(columns.len(), 10, "{line}");
        for (time, rate, name, counted) in COLUMNS {
            let place = format!("{workload}, {}, {name}", columns[0]);
            let cell =
                Cell { name: place, time: sample(columns[time]), rate: sample(columns[rate]) };
            let group = format!("{workload}, {counted}");
            match groups.iter_mut().find(|(of, _)| *of == group) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((group, vec![cell])),
            }
        }
    }
    groups
}

fn contradictions(tables: &str) -> Vec<Contradiction> {
    groups(tables).iter().flat_map(|(_, cells)| check_cells(cells, None)).collect()
}

#[test]
fn the_five_contradictions_are_found_and_no_other() {
    let found = contradictions(TABLES);
    let places: Vec<(&str, Rule)> = found.iter().map(|c| (c.name.as_str(), c.rule)).collect();
    let expected = [
        // 15.70 s at 6315.60 a second: three times the time that any such runs could take.
        ("small shallow, 256MB, directory remove", Rule::TimeAndRate),
        // 1399.38 is thirty times the deviation that the times' 2.40 s imply: one run is a misprint.
        ("small shallow, 64MB, file remove", Rule::TimeAndRate),
        // 0.10 s, so one run measured a second; its rate cannot be zero.
        ("medium shallow, 256MB, directory remove", Rule::OtherCount),
        // Ten times of 3 s have ten equal rates.
        ("medium deep, 64MB, directory create", Rule::EqualTimes),
        // The seconds of file create, printed again as a rate.
        ("medium deep, 16MB, file remove", Rule::TimeAndRate),
    ];
    assert_eq!(places.len(), expected.len(), "{found:#?}");
    for place in expected {
        assert!(places.contains(&place), "{place:?} is not among {found:#?}");
    }
}

#[test]
fn the_count_ranges_that_the_cells_agree_on_contain_the_true_counts() {
    // From fdtree's options: directories, files, KiB (workloads.md, A).
    let counts = [
        ("small shallow", 8421.0, 336_840.0, 1_347_360.0),
        ("small deep", 88_573.0, 354_292.0, 1_417_168.0),
        ("medium shallow", 307.0, 3070.0, 12_280_000.0),
        ("medium deep", 2047.0, 4094.0, 16_376_000.0),
    ];
    let groups = groups(TABLES);
    for (workload, directories, files, kib) in counts {
        for (counted, count) in [("directories", directories), ("files", files), ("KiB", kib)] {
            let (_, cells) =
                groups.iter().find(|(of, _)| *of == format!("{workload}, {counted}")).unwrap();
            let Agreement::On(agreed) = agreed_count(cells) else { panic!("{workload} split") };
            assert!(agreed.low <= count && count <= agreed.high, "{workload}, {counted}: {agreed}");
            assert!(agreed.high / agreed.low < 1.06, "{workload}, {counted}: {agreed}");
        }
    }
}

#[test]
fn tables_with_those_cells_corrected_have_no_contradiction() {
    let corrections = [
        ("15.70 0.64", "1.90 1.51"),
        ("4,665.50 1,399.38", "5,125.40 187.50"),
        (" .00 0.00", " 30.70 92.10"),
        ("682.10 0.30", "682.00 0.00"),
        (
            "15.30 2.69 | 1.50 0.50 | 497.50 76.57 | 17.80 0.40 | 72,495.30 507.54 | 225.90 1.58",
            "15.30 2.69 | 1.50 0.50 | 497.50 76.57 | 17.80 0.40 | 72,495.30 507.54 | 276.40 53.10",
        ),
    ];
    let mut tables = TABLES.to_string();
    for (printed, corrected) in corrections {
        assert_eq!(tables.matches(printed).count(), 1, "{printed}");
        tables = tables.replace(printed, corrected);
    }
    assert_eq!(contradictions(&tables), []);
}

#[test]
fn most_rates_moved_to_another_row_are_found() {
    // One at a time, each rate of each table is replaced by the rate in the next row.
    let lines: Vec<&str> = TABLES.lines().collect();
    let (mut moved, mut seen) = (0, 0);
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let next = lines
            .get(at + 1)
            .filter(|next| !next.starts_with('#'))
            .unwrap_or_else(|| &lines[at - 3]);
        for column in 5..10 {
            let (mut columns, other): (Vec<&str>, Vec<&str>) =
                (line.split(" | ").collect(), next.split(" | ").collect());
            if columns[column] == other[column] {
                continue;
            }
            columns[column] = other[column];
            let mut tables: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
            tables[at] = columns.join(" | ");
            moved += 1;
            let place = COLUMNS.iter().find(|(_, rate, ..)| *rate == column).unwrap().2;
            let journal = columns[0];
            let here = |c: &&Contradiction| c.name.contains(&format!("{journal}, {place}"));
            seen += usize::from(contradictions(&tables.join("\n")).iter().filter(here).count() > 0);
        }
    }
    // The other moved rates are possible given the deviations of their new rows.
    assert_eq!((seen, moved), (61, 80));
}
