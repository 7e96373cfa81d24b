//! The section of a study in a real browser: on a wide screen and on a phone, in light and dark colours, and on paper.
//! Skipped if there is no chromium.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the test of the page uses the rest")]
#[path = "browser/chromium.rs"]
mod chromium;
#[allow(dead_code, reason = "the tests of the crate use the rest")]
#[path = "../src/fixture/mod.rs"]
mod fixture;
#[allow(dead_code, reason = "the tests of the crate use the rest")]
#[path = "../src/study/sample.rs"]
mod sample;

use std::path::{Path, PathBuf};

use chromium::{Browser, View};
use fsdyno_report::study::{
    Cell, Claim, Column, Extras, Factor, FactorRow, Factors, Judged, Number, Row, Table, Variant,
    Verdict,
};

/// A study with a table of many columns and with long words.
fn page(folder: &Path) -> PathBuf {
    let mut judged = sample::judged();
    let table = &mut judged.variants[0].tables[0];
    let (column, cell) = (table.columns[0].clone(), table.rows[0].cells[1].clone());
    table.columns.extend(std::iter::repeat_n(column, 9));
    table.rows.iter_mut().for_each(|row| row.cells.extend(std::iter::repeat_n(cell.clone(), 9)));
    judged.source.push_str(&"long".repeat(60));
    judged.variants[0].factors = sample::factors().variants.remove(0).factors;
    judged.variants[0].claims[0].text.push_str(&" and so on".repeat(30));
    let trials = fixture::trials();
    let series = fixture::series(&trials);
    let extras = Extras { series: &series, ..Extras::default() };
    let html = fsdyno_report::study_page(&judged, &trials, extras, None);
    let path = folder.join("study.html");
    std::fs::write(&path, html.unwrap()).unwrap();
    if let Some(shots) = std::env::var_os("FSDYNO_SHOTS") {
        std::fs::copy(&path, Path::new(&shots).join("study.html")).unwrap();
    }
    path
}

#[test]
fn the_verdicts_come_first_on_every_screen_and_nothing_overflows() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    browser.open(&page(folder.path()), 1280, View::Light);
    for (width, view) in
        [(1280, View::Light), (1280, View::Dark), (360, View::Light), (700, View::Print)]
    {
        browser.set_view(width, view);
        browser.value("document.getElementById('print-all').checked = true");
        let height = browser.value("document.documentElement.scrollHeight").as_f64().unwrap();
        browser.save_screenshot(&format!("study-{width}-{view:?}"), width, height as u32);
        let faults = browser.value(include_str!("browser/faults.js"));
        assert_eq!(faults, serde_json::json!([]), "{width} wide, {view:?}");
        // The study is above the charts, and the counts are above the study.
        let order = "document.querySelector('.answer').getBoundingClientRect().top < document.querySelector('#study').getBoundingClientRect().top && document.querySelector('#study').getBoundingClientRect().top < document.querySelector('#overview').getBoundingClientRect().top";
        assert_eq!(browser.value(order), true, "{width} wide, {view:?}");
        let words = "[...document.querySelectorAll('#study tbody .verdict')].every(e => /[a-z]{4}/.test(e.textContent) && e.getBoundingClientRect().width > 40)";
        assert_eq!(browser.value(words), true, "every verdict is a visible word");
    }
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn verdicts_have_contrast_in_both_colour_schemes_and_tables_fit_on_paper() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = page(folder.path());
    let contrast =
        include_str!("browser/contrast.js").replace(".flag,", ".flag, .verdict, #study span,");
    assert!(contrast.contains(".verdict"), "the list of checked elements has changed");
    for view in [View::Light, View::Dark, View::Print] {
        browser.open(&path, 1280, view);
        assert_eq!(browser.value(&contrast), serde_json::json!([]), "{view:?}");
    }
    browser.open(&path, 672, View::Print);
    let clipped = "[...document.querySelectorAll('.claims')].filter(e => e.firstElementChild.getBoundingClientRect().right > 673).length";
    assert_eq!(browser.value(clipped), 0, "claims beyond the edge of the paper");
}
