//! The page in a real browser: on a wide screen and on a phone, in light and dark colours, on paper and with the
//! keyboard alone. Skipped if there is no chromium.
//!
//! `FSDYNO_SHOTS=DIR cargo test --release -p fsdyno-report --test browser` keeps the pages and
//! pictures of them as DIR/NAME.base64.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "browser/chromium.rs"]
mod chromium;
#[allow(dead_code, reason = "the tests of the crate use the rest")]
#[path = "../src/fixture/mod.rs"]
mod fixture;

use std::path::{Path, PathBuf};

use chromium::{Browser, View};
use fsdyno_record::Trial;

/// The sample pages: name and trials.
fn samples() -> Vec<(&'static str, Vec<Trial>)> {
    let mut curve = fixture::curve();
    curve.extend(fixture::with_failures());
    vec![
        ("usual", fixture::with_failures()),
        ("aged", fixture::fresh_and_aged()),
        ("curve", curve),
        ("single", fixture::single()),
        ("host", fixture::on_a_host()),
        ("failed", fixture::with_failures().split_off(18)),
        ("hostile", hostile()),
    ]
}

/// Labels that would take effect if they were not escaped, and long ones.
fn hostile() -> Vec<Trial> {
    let mut trials = fixture::with_failures();
    for trial in &mut trials {
        let script = "</title></svg><script>document.title = 'obeyed'; console.log('x')</script>";
        trial.plan.label = format!("{}{script}{}", trial.plan.label, "long".repeat(40));
        trial.plan.workload.name.push_str("<img src=x onerror=alert(1)>");
        trial.reason = trial.reason.as_ref().map(|reason| format!("{reason}{script}"));
        trial.conditions.mount.push_str(script);
    }
    trials
}

fn page(folder: &Path, name: &str, trials: &[Trial]) -> PathBuf {
    let path = folder.join(format!("{name}.html"));
    let series = fixture::series(trials);
    std::fs::write(&path, fsdyno_report::html(trials, &series, None).unwrap()).unwrap();
    if let Some(shots) = std::env::var_os("FSDYNO_SHOTS") {
        std::fs::copy(&path, Path::new(&shots).join(format!("{name}.html"))).unwrap();
    }
    path
}

/// Ticks the box for printing every section.
const PRINT_ALL: &str = "document.getElementById('print-all').checked = true";

/// The faults of the open page, a line each: charts without a size, drawings outside their chart, overlapping
/// text, axes that do not begin at zero, a page wider than its window, duplicate ids.
const FAULTS: &str = include_str!("browser/faults.js");

#[test]
fn every_chart_is_drawn_in_its_place_on_every_screen_in_both_colour_schemes() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, trials) in samples() {
        let path = page(folder.path(), name, &trials);
        browser.open(&path, 1280, View::Light);
        assert_eq!(browser.value("document.title === 'obeyed'"), false);
        for (width, view) in [
            (1280, View::Light),
            (1280, View::Dark),
            (768, View::Light),
            (360, View::Light),
            (360, View::Dark),
            (700, View::Print),
        ] {
            browser.set_view(width, view);
            // A short print omits charts; a separate test covers it.
            browser.value(PRINT_ALL);
            let height = browser.value("document.documentElement.scrollHeight").as_f64().unwrap();
            browser.save_screenshot(&format!("{name}-{width}-{view:?}"), width, height as u32);
            let faults = browser.value(FAULTS);
            assert_eq!(faults, serde_json::json!([]), "{name}, {width} wide, {view:?}");
        }
        assert_eq!(browser.errors, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn text_and_drawings_have_contrast_in_both_colour_schemes() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = page(folder.path(), "usual", &fixture::with_failures());
    let contrast = include_str!("browser/contrast.js");
    for view in [View::Light, View::Dark, View::Print] {
        browser.open(&path, 1280, view);
        assert_eq!(browser.value(contrast), serde_json::json!([]), "{view:?}");
    }
    let background = "getComputedStyle(document.body).backgroundColor";
    browser.set_view(1280, View::Light);
    let light = browser.value(background);
    browser.set_view(1280, View::Dark);
    assert_ne!(browser.value(background), light);
}

#[test]
fn a_keyboard_reaches_the_results_and_opens_the_numbers() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = page(folder.path(), "usual", &fixture::with_failures());
    browser.open(&path, 1280, View::Light);
    let focused = "document.activeElement.className + document.activeElement.tagName";
    browser.press("Tab", 9);
    assert_eq!(browser.value(focused), "skipA", "the first tab stop skips to the results");
    assert_eq!(browser.value("document.activeElement.getBoundingClientRect().left >= 0"), true);
    let outline = "parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2";
    assert_eq!(browser.value(outline), true, "the focus is visible");
    let mut opened = false;
    for _ in 0..60 {
        browser.press("Tab", 9);
        if browser.value("document.activeElement.tagName") == "SUMMARY" {
            let (down, up) = key_events("Enter", 13);
            browser.send("Input.dispatchKeyEvent", down);
            browser.send("Input.dispatchKeyEvent", up);
            opened = browser.value("document.activeElement.parentElement.open") == true;
            break;
        }
    }
    assert!(opened, "Enter unfolds the numbers of a chart");
}

/// The events of a key that writes a character: down and up.
fn key_events(key: &str, code: u32) -> (serde_json::Value, serde_json::Value) {
    let event = |kind: &str| serde_json::json!({"type": kind, "key": key, "code": key, "text": "\r", "windowsVirtualKeyCode": code});
    (event("keyDown"), event("keyUp"))
}

#[test]
fn on_paper_nothing_is_clipped_or_folded() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = page(folder.path(), "usual", &fixture::with_failures());
    // An A4 page is 672 pixels wide between margins of about one centimetre.
    browser.open(&path, 672, View::Print);
    browser.value(PRINT_ALL);
    let clipped = r#"[...document.querySelectorAll('.scroll')].filter(e => e.firstElementChild.getBoundingClientRect().right > 673).map(e => e.getAttribute('aria-label'))"#;
    assert_eq!(
        browser.value(clipped),
        serde_json::json!([]),
        "tables beyond the edge of the paper"
    );
    let folded =
        "[...document.querySelectorAll('details table')].filter(e => !e.checkVisibility()).length";
    assert_eq!(browser.value(folded), 0, "sections folded on the screen are unfolded on paper");
    let pdf = browser.print_pdf();
    assert!(pdf.len() > 20_000, "{}", pdf.len());
    if let Some(folder) = std::env::var_os("FSDYNO_SHOTS") {
        std::fs::write(Path::new(&folder).join("paper.pdf.base64"), pdf).unwrap();
    }
}

#[test]
fn a_short_print_has_the_answer_the_main_table_and_the_conditions_on_two_pages() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = page(folder.path(), "usual", &fixture::trials());
    browser.open(&path, 672, View::Print);
    let shown = "[...document.querySelectorAll('.answer, #overview, .subject, #s0 table, #conditions, #s1, #labs, .on-paper')].filter(e => e.checkVisibility()).map(e => e.id || e.className || e.tagName)";
    let expected = serde_json::json!(["answer", "overview", "subject", "TABLE", "note on-paper"]);
    assert_eq!(browser.value(shown), expected);
    assert_eq!(pages(&browser.print_pdf()), 2);
    browser.value(PRINT_ALL);
    assert!(pages(&browser.print_pdf()) > 4, "the box makes the page print every section");
}

/// The number of pages of a PDF in Base64.
fn pages(pdf: &str) -> usize {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = pdf.bytes().filter(|c| *c != b'=').map(value).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    let bytes: Vec<u8> = bytes.collect();
    // Each page is an object of this type; the tree of pages is of type Pages.
    let page = b"/Type /Page\n";
    bytes.windows(page.len()).filter(|part| part == page).count()
}

#[test]
fn a_separate_chart_is_drawn_as_on_the_page() {
    let Some(mut browser) = Browser::start() else {
        return println!("skipped: no chromium here (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let trials = fixture::fresh_and_aged();
    for file in fsdyno_report::charts(&trials, &fixture::series(&trials), Some("ext4")) {
        let path = folder.path().join(&file.name);
        std::fs::write(&path, &file.svg).unwrap();
        let ink = "getComputedStyle(document.querySelector('text')).fill";
        browser.open(&path, 800, View::Light);
        assert_eq!(browser.value(ink), "rgb(29, 33, 38)", "{}: dark on white", file.name);
        browser.open(&path, 800, View::Dark);
        // A broken document has an element that reports the error.
        assert_eq!(
            browser.value("document.querySelector('parsererror') === null"),
            true,
            "{}",
            file.name
        );
        let drawn = "[...document.querySelectorAll('rect, path, circle')].filter(e => e.getBoundingClientRect().width > 0).length > 3";
        assert_eq!(browser.value(drawn), true, "{}", file.name);
        let inside = "[...document.querySelectorAll('text')].every(e => e.getBoundingClientRect().right <= 762)";
        assert_eq!(browser.value(inside), true, "{}", file.name);
        assert_eq!(
            browser.value(ink),
            "rgb(230, 233, 237)",
            "{}: light on dark for a reader who prefers that",
            file.name
        );
        browser.save_screenshot(&file.name.replace(".svg", ""), 760, 500);
    }
    assert_eq!(browser.errors, Vec::<String>::new());
}
