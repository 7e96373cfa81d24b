//! Dangerous directories: foreign files are neither entered nor removed, whatever their names.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod fixture;

use std::os::unix::fs::symlink;
use std::path::Path;

use fixture::{LoopDevices, command, skip_reason, tool};
use fsdyno_media::{Directory, MediaError, Room, check, clean, leftovers};
use fsdyno_record::Bytes;

/// Writes a file of the user, which must still exist at the end.
fn write_thesis(folder: &Path) {
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("deep/thesis"), "years of work").unwrap();
}

fn has_thesis(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("deep/thesis")).is_ok_and(|text| text == "years of work")
}

#[test]
fn links_that_replace_our_directories_are_not_followed() {
    let fixture = LoopDevices::new();
    let (parent, other) = (fixture.folder("parent"), fixture.folder("other"));
    write_thesis(&other);
    // Replacing the root of the trial, inside the tree, and replacing the subdirectory itself.
    let directory = Directory::create(&parent).unwrap();
    std::fs::remove_dir(directory.path().join("root")).unwrap();
    symlink(&other, directory.path().join("root")).unwrap();
    assert!(directory.remove().is_err());
    assert!(has_thesis(&other));
    let directory = Directory::create(&parent).unwrap();
    symlink(&other, directory.path().join("root/inside")).unwrap();
    directory.remove().unwrap();
    assert!(has_thesis(&other));
    let directory = Directory::create(&parent).unwrap();
    let path = directory.path().to_path_buf();
    std::fs::rename(&path, parent.join("moved")).unwrap();
    symlink(&other, &path).unwrap();
    std::fs::write(parent.join("moved/root/file"), "ours").unwrap();
    assert!(directory.remove().is_err());
    assert!(has_thesis(&other) && path.is_symlink());
}

#[test]
fn a_directory_that_replaces_ours_is_not_touched() {
    let fixture = LoopDevices::new();
    let parent = fixture.folder("parent");
    for empty in [false, true] {
        let directory = Directory::create(&parent).unwrap();
        let path = directory.path().to_path_buf();
        std::fs::rename(&path, parent.join(format!("moved-{empty}"))).unwrap();
        std::fs::create_dir(&path).unwrap();
        if !empty {
            write_thesis(&path);
        }
        assert!(directory.remove().is_err(), "empty: {empty}");
        assert!(path.is_dir() && (empty || has_thesis(&path)), "empty: {empty}");
    }
}

#[test]
fn work_moves_with_its_parent_and_the_parents_successor_is_not_touched() {
    let fixture = LoopDevices::new();
    let parent = fixture.folder("parent");
    let directory = Directory::create(&parent).unwrap();
    let name = directory.path().file_name().unwrap().to_owned();
    std::fs::rename(&parent, fixture.path("away")).unwrap();
    write_thesis(&parent.join(&name));
    directory.remove().unwrap();
    assert!(has_thesis(&parent.join(&name)));
    assert!(!fixture.path("away").join(&name).exists());
}

#[test]
fn a_link_named_like_a_leftover_is_not_one() {
    let fixture = LoopDevices::new();
    let (parent, other) = (fixture.folder("parent"), fixture.folder("other"));
    write_thesis(&other);
    std::fs::write(other.join("fsdyno.marker"), "").unwrap();
    let name = ".fsdyno-4194305-0123456789abcdef";
    symlink(&other, parent.join(name)).unwrap();
    assert_eq!(leftovers(&parent).unwrap(), []);
    let leftover = fsdyno_media::Leftover { path: parent.join(name), pid: 4_194_305 };
    assert!(clean(&leftover).is_err());
    assert!(has_thesis(&other));
}

#[test]
fn another_file_system_mounted_over_our_work_is_not_touched() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    for over in ["root", "root/inside", ""] {
        let mut fixture = LoopDevices::new();
        let parent = fixture.folder("parent");
        let directory = Directory::create(&parent).unwrap();
        std::fs::create_dir(directory.path().join("root/inside")).unwrap();
        let at = directory.path().join(over).to_string_lossy().into_owned();
        tool("mount", &["-t", "tmpfs", "none", &at]);
        let path = at.clone();
        fixture.undo(move || fixture::quiet("umount", &[&path]));
        write_thesis(Path::new(&at));
        assert!(directory.remove().is_err(), "{over:?}");
        assert!(has_thesis(Path::new(&at)), "{over:?}");
    }
}

#[test]
fn a_read_only_and_a_full_file_system_are_refused() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, _) = fixture.device(24);
    tool("mke2fs", &["-q", "-F", "-t", "ext2", &device]);
    let at = fixture.mount(&device, &["-o", "ro"]);
    assert!(matches!(Directory::create(&at), Err(MediaError::ReadOnly(_))));
    tool("mount", &["-o", "remount,rw", &at.to_string_lossy()]);
    let room = Room { bytes: Bytes(32 << 20), ..Room::default() };
    assert!(matches!(check(&at, &room), Err(MediaError::NoSpace { .. })));
    // On a full file system, no incomplete subdirectory may remain.
    let full = format!("dd if=/dev/zero of={}/fill bs=64K; true", at.display());
    command("sh", &["-c", &full]).output().unwrap();
    let before = std::fs::read_dir(&at).unwrap().count();
    match Directory::create(&at) {
        Err(_) => assert_eq!(std::fs::read_dir(&at).unwrap().count(), before),
        Ok(directory) => directory.remove().unwrap(),
    }
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let fixture = LoopDevices::new();
    let foreign = fixture.folder("foreign");
    let base = foreign.parent().unwrap().to_string_lossy().into_owned();
    tool("chmod", &["755", &base, &foreign.to_string_lossy()]);
    // Root may write everywhere, so an unprivileged process must try.
    let me = std::env::current_exe().unwrap();
    let status = command("setpriv", &["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args([
            me.as_os_str(),
            "--exact".as_ref(),
            "create_as_other_user".as_ref(),
            "--ignored".as_ref(),
        ])
        .env("FSDYNO_TEST_FOREIGN", &foreign)
        .output();
    let output = status.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        return println!("skipped: an unprivileged user may not run {}", me.display());
    }
    assert!(output.status.success(), "{text}");
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 0);
}

#[test]
#[ignore = "the test above starts it as an unprivileged user"]
fn create_as_other_user() {
    let Some(foreign) = std::env::var_os("FSDYNO_TEST_FOREIGN") else { return };
    let error = Directory::create(Path::new(&foreign)).map(drop).unwrap_err();
    assert!(matches!(error, MediaError::NotWritable(_)), "{error}");
}
