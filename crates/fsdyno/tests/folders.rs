//! Result folders of another user, and on a full disk.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;
#[path = "../../media/tests/fixture/mod.rs"]
mod fixture;

use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use common::{STUDY, code, lines, run, stderr};
use fixture::{LoopDevices, skip_reason, tool};

const WORK: &str = "run dirops --set files=5 --on .";

/// An unprivileged user.
const OTHER: u32 = 65534;

/// Creates a folder with a link; both belong to another user.
fn trap(folder: &Path, name: &str, target: &Path) -> std::path::PathBuf {
    let trap = folder.join(format!("trap-{name}"));
    std::fs::create_dir(&trap).unwrap();
    if name != "trials.ndjson" {
        std::fs::write(trap.join("trials.ndjson"), "").unwrap();
    }
    symlink(target, trap.join(name)).unwrap();
    std::os::unix::fs::lchown(trap.join(name), Some(OTHER), None).unwrap();
    chown(&trap, Some(OTHER), None).unwrap();
    trap
}

#[test]
fn root_follows_no_link_of_another_user_out_of_a_result_folder() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let base = tempfile::tempdir().unwrap();
    let (precious, new) = (base.path().join("precious"), base.path().join("new"));
    std::fs::write(&precious, "root's").unwrap();
    let names = ["trials.ndjson", "series.ndjson", "report.html", "schedule.json"];
    for (name, target) in names.into_iter().flat_map(|name| [(name, &precious), (name, &new)]) {
        let trap = trap(base.path(), name, target);
        for args in [
            format!("{WORK} --out {}", trap.display()),
            format!("{WORK} --dry-run --out {}", trap.display()),
        ] {
            let output = run(base.path(), &args);
            let message = stderr(&output);
            assert_eq!(code(&output), 2, "{args}: {message}");
            assert!(
                message.contains(&format!("'{name}' is a link under the control of user {OTHER}")),
                "{message}"
            );
        }
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "root's", "{name}");
        assert!(!new.exists(), "{name}");
        std::fs::remove_dir_all(trap).unwrap();
    }
}

#[test]
fn root_writes_no_page_chart_or_archive_through_a_link_of_another_user() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let base = tempfile::tempdir().unwrap();
    let precious = base.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    assert_eq!(code(&run(base.path(), &format!("{WORK} --out r"))), 0);
    std::fs::write(base.path().join("my-study.toml"), STUDY).unwrap();
    let page = trap(base.path(), "page.html", &base.path().join("new"));
    let folder = trap(base.path(), "folder", &precious);
    let (page, folder) = (page.join("page.html"), folder.join("folder"));
    for args in [
        format!("report r --html {}", page.display()),
        format!("report r --html {}/page.html", folder.display()),
        format!("report r --charts {}", folder.display()),
        format!("{WORK} --out {}", folder.display()),
        format!("{WORK} --out {}/below/it", folder.display()),
        format!("study ./my-study.toml --out {}/s", folder.display()),
        format!("crash dirops --fs ext4 --out {}/s --dry-run", folder.display()),
    ] {
        let output = run(base.path(), &args);
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{args}: {message}");
        assert!(message.contains("under the control of user 65534"), "{args}: {message}");
    }
    assert_eq!(std::fs::read_dir(&precious).unwrap().count(), 0);
    assert!(!base.path().join("new").exists());
    // A link of the same user is followed and kept.
    symlink("precious", base.path().join("own")).unwrap();
    assert_eq!(code(&run(base.path(), "report r --html own/page.html")), 0);
    assert!(precious.join("page.html").is_file() && base.path().join("own").is_symlink());
}

#[test]
fn a_disk_that_fills_up_ends_a_run_with_code_4_and_the_stored_records_are_complete() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (base, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let out = fixture.folder("out");
    let path = out.display().to_string();
    tool("mount", &["-t", "tmpfs", "-o", "size=64k", "none", &path]);
    let mounted = path.clone();
    fixture.undo(move || fixture::quiet("umount", &[&mounted]));
    let output = run(base.path(), &format!("{WORK} --repeat 24 --out {path}/r"));
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
    let stored = lines(&out.join("r"));
    assert!(stored > 0 && stored < 24, "{stored}");
    assert_eq!(common::records(&out.join("r")).len(), stored);
    // The page is complete or absent.
    let page = std::fs::metadata(out.join("r/report.html"));
    assert!(page.is_err() || page.unwrap().len() > 1000);
    tool("mount", &["-o", "remount,size=64m", &path]);
    let output = run(base.path(), &format!("{WORK} --repeat 24 --out {path}/r"));
    assert_eq!((code(&output), lines(&out.join("r"))), (0, 24), "{}", stderr(&output));
}
