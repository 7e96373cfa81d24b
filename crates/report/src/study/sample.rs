//! Sample results of a study for tests: every verdict, a table with a doubt and a gap, a variant at a reduced scale.

use super::{
    Cell, Claim, Column, Factor, FactorRow, Factors, Judged, Number, Row, Table, Variant, Verdict,
};

fn claim(id: &str, verdict: Verdict, text: &str, why: &str, ratio: Option<f64>) -> Claim {
    let interval = |value: f64| (value * 0.98, value * 1.02);
    Claim {
        id: id.into(),
        text: text.into(),
        verdict,
        why: why.into(),
        check: ratio.map(|_| "returned of extract: ext3-128 over ext4-128; more than 1".into()),
        unit: String::new(),
        published: Some(1.54),
        measured: ratio.map(|value| Number { value, n: 5, interval: Some(interval(value)) }),
        p: ratio.map(|_| 0.004),
        notes: Vec::new(),
        scale: 1,
        one_seed: false,
        full_scale: None,
    }
}

fn cell(published: Option<&str>, measured: Option<f64>, ratio: Option<f64>) -> Cell {
    let n = 5;
    Cell {
        published: published.map(String::from),
        doubts: Vec::new(),
        measured: measured.map(|v| Number { value: v, n, interval: Some((v * 0.99, v * 1.01)) }),
        missing: measured.is_none().then(|| "kernel 6.1 has no module reiser4".into()),
        ratio,
    }
}

/// The sample on two kernels as then, and on one as today: on the newer one the first claim is reversed, and the first
/// time is 300 s.
pub fn on_kernels() -> Judged {
    let mut judged = judged();
    let on = |variant: &Variant, kernel: &str| Variant {
        name: format!("{}, kernel {kernel}", variant.name),
        kernel: Some(kernel.into()),
        kernels: vec![kernel.into()],
        ..variant.clone()
    };
    let old = on(&judged.variants[0], "5.10.0-32-amd64");
    let mut new = on(&judged.variants[0], "6.12.38-amd64");
    new.claims[0] = Claim { id: "C1".into(), ..new.claims[2].clone() };
    new.tables[0].rows[0].cells[0] = cell(Some("618.991"), Some(300.0), None);
    let today = on(&judged.variants[1], "6.12.38-amd64");
    judged.variants = vec![old, new, today];
    judged
}

/// The sample.
pub fn judged() -> Judged {
    let claims = vec![
        claim(
            "C1",
            Verdict::StillHolds,
            "ext4 extracts faster",
            "1.72 is more than 1.",
            Some(1.72),
        ),
        claim(
            "C2",
            Verdict::NoLongerHolds,
            "By half",
            "1.2 is not more than 1.5: 20 % short.",
            Some(1.2),
        ),
        claim(
            "C3",
            Verdict::Reversed,
            "ext4 removes slower",
            "0.61 is less than 1 by 39 %.",
            Some(0.61),
        ),
        claim(
            "C4",
            Verdict::Undecided,
            "Big inodes cost",
            "0.98 to 1.02 holds the bound 1.",
            Some(1.0),
        ),
        claim("C5", Verdict::NotTestable, "reiser4 wins", "No kernel here has reiser4.", None),
        claim("C6", Verdict::StillHolds, "The device waits", "3.1 % is less than 14 %.", Some(3.1)),
    ];
    let column = |name: &str| Column { name: name.into(), unit: "s".into() };
    let mut rows = vec![
        Row {
            label: "ext4-128".into(),
            cells: vec![
                cell(Some("618.991"), Some(402.13), Some(0.6497)),
                cell(Some("15.70±0.64"), Some(171.154), Some(10.902)),
            ],
        },
        Row {
            label: "reiser4".into(),
            cells: vec![cell(Some("148"), None, None), cell(None, None, None)],
        },
    ];
    rows[0].cells[1].doubts.push("time and rate of this row contradict each other".into());
    let table = Table {
        name: "times".into(),
        caption: "Extract and remove 725,000 files".into(),
        source: "his first table".into(),
        columns: vec![column("extract"), column("remove")],
        rows,
    };
    let historical = Variant {
        name: "as then".into(),
        conditions: "as then".into(),
        kernel: None,
        scale: 1,
        kernels: vec!["6.1.0-44-amd64".into()],
        claims: claims.clone(),
        factors: Vec::new(),
        tables: vec![table.clone()],
    };
    let mut today = Variant {
        name: "as today".into(),
        conditions: "as today".into(),
        scale: 10,
        ..historical.clone()
    };
    today.claims.truncate(1);
    today.claims[0].scale = 10;
    today.tables[0].rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|c| c.ratio = None);
    Judged {
        title: "ext3 or ext4 for unlink?".into(),
        question: "Is ext4 slower than ext3 at removing many small files?".into(),
        source: "Bruce Guenter, linux-ext4, 2008-11-13".into(),
        variants: vec![historical, today],
    }
}

/// The sample as a study without a publication: two tables of factors over two machines; one row has no result on one
/// of the machines.
pub fn factors() -> Judged {
    let number = |value: f64| Number { value, n: 3, interval: Some((value * 0.98, value * 1.02)) };
    let factor = |value: f64| Factor { factor: Some(number(value)), ..Factor::default() };
    let row = |label: &str, cells: Vec<Factor>| FactorRow { label: label.into(), cells };
    let missing = Factor { missing: Some("'exfat' was skipped".into()), ..Factor::default() };
    let short = Factor { flags: vec!["TOO SHORT".into()], undecided: true, ..factor(1.04) };
    let factors = |name: &str, best: Vec<Option<f64>>, unit: &str| Factors {
        name: name.into(),
        caption: "10,000 files in one directory".into(),
        unit: unit.into(),
        columns: vec!["server-2026".into(), "pi-2024".into()],
        rows: vec![
            row("ext4", vec![factor(1.0), factor(2.345)]),
            row("xfs", vec![short.clone(), factor(1.0)]),
            row("exfat", vec![factor(31.6), missing.clone()]),
        ],
        best,
    };
    let mut judged = judged();
    judged.source = String::new();
    judged.variants.truncate(1);
    let variant = &mut judged.variants[0];
    (variant.claims, variant.tables) = (Vec::new(), Vec::new());
    variant.factors = vec![
        factors("all", vec![None, None], ""),
        factors("dirops", vec![Some(0.446), Some(12.5)], "s"),
    ];
    judged
}
