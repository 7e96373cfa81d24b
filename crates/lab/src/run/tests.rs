use std::fs;
use std::os::unix::fs::PermissionsExt;

use fsdyno_child::memory_file;
use fsdyno_record::plan::CpuPlan;

use super::*;
use crate::machine::{Attach, DiskRegion};
use crate::probe::HashedFile;

/// Runs a shell script instead of QEMU, with one small disk.
fn run_script(
    script: &str,
    stall_timeout: Duration,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> RunError {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("qemu");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = Machine {
        image: None,
        accel: Default::default(),
        ram: Bytes(64 << 20),
        disks: vec![DiskRegion { region: Bytes(1 << 20), attach: Attach::Nbd }],
        input: None,
        log: None,
        workdir: folder.path().to_path_buf(),
        stall: stall_timeout,
        deadline: Duration::from_secs(60),
    };
    let empty = memory_file(c"test").unwrap();
    let (kernel, initramfs, cpu) = (&empty, &empty, &CpuPlan::default());
    let (files, _) = HashedFile::read(&program).unwrap();
    let files = &[files];
    let config =
        BootConfig { program: &program, kernel, initramfs, files, cpu, extra_parameters: "" };
    let error = run(config, &machine, None, b"{}", watch).unwrap_err();
    let leftovers: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(leftovers.len(), 1, "a run left files behind: {leftovers:?}");
    error
}

const LONG: Duration = Duration::from_secs(60);

fn keep_running(_: &Progress) -> Watch {
    Watch::GoOn
}

#[test]
fn the_error_of_a_failed_qemu_has_its_message() {
    let error = run_script("echo qemu: no such machine >&2; exit 1", LONG, &mut keep_running);
    let text = error.to_string();
    assert!(
        text.starts_with("run the guest: QEMU exited with status 1 before the report"),
        "{text}"
    );
    assert!(text.ends_with("qemu: no such machine"), "{text}");
}

#[test]
fn the_error_of_a_killed_qemu_has_its_signal() {
    let error = run_script("kill -KILL $$", LONG, &mut keep_running);
    assert!(
        matches!(&error, RunError::Died { how, .. } if how == "was killed by signal 9"),
        "{error}"
    );
}

#[test]
fn a_bus_error_means_that_the_folder_of_the_disks_is_full() {
    let error = run_script("kill -BUS $$", LONG, &mut keep_running);
    assert!(matches!(error, RunError::OutOfSpace { .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_guest_without_a_sign_of_life_has_stalled() {
    let error = run_script("exec sleep 1000", Duration::from_millis(50), &mut keep_running);
    assert!(matches!(error, RunError::Stalled { .. }), "{error}");
}

#[test]
fn a_watcher_can_stop_a_guest() {
    let mut polls = 0;
    let error = run_script("exec sleep 1000", LONG, &mut |_| {
        polls += 1;
        if polls < 3 { Watch::GoOn } else { Watch::Stop }
    });
    assert!(matches!(error, RunError::Stopped), "{error}");
    assert_eq!(polls, 3);
}

#[test]
fn a_kernel_panic_on_the_console_is_reported() {
    // The script gets QEMU's arguments; one of them has the path of the console's file.
    let script = "for a in \"$@\"; do case $a in file,id=console,path=*) \
                  echo 'Kernel panic - not syncing: Oops' > ${a#*path=};; esac; done";
    let error = run_script(script, LONG, &mut keep_running);
    assert!(matches!(error, RunError::Panicked { .. }), "{error}");
    assert_eq!(error.console(), ["Kernel panic - not syncing: Oops"]);
}

#[test]
fn a_guest_that_powers_off_without_a_report_has_died() {
    let error = run_script("", LONG, &mut keep_running);
    assert!(
        matches!(&error, RunError::Died { how, .. } if how.starts_with("ended, as")),
        "{error}"
    );
}

#[test]
fn a_program_that_was_replaced_since_it_was_hashed_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("qemu");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let (hashed, bytes) = HashedFile::read(&program).unwrap();
    assert!(hashed.is_unchanged() && bytes == b"#!/bin/sh\n");
    // A package manager replaces it by renaming another file over it.
    let replacement = folder.path().join("new");
    fs::write(&replacement, "#!/bin/sh\n").unwrap();
    fs::rename(&replacement, &program).unwrap();
    let empty = memory_file(c"test").unwrap();
    let config = BootConfig {
        program: &program,
        kernel: &empty,
        initramfs: &empty,
        files: &[hashed],
        cpu: &CpuPlan::default(),
        extra_parameters: "",
    };
    let error = config.check_unchanged().unwrap_err();
    assert!(error.to_string().contains("it was replaced after"), "{error}");
    assert!(error.hint().is_some());
}

/// Connects to a fake QEMU that gives these responses to commands.
fn fake_qemu(responses: &[&str]) -> Qmp {
    use std::io::Write as _;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let lines = ["{\"QMP\":{}}", "{\"return\":{}}"].iter().chain(responses);
    lines.for_each(|line| writeln!(theirs, "{line}").unwrap());
    // It reads to the end, so that the client does not write to a closed socket.
    std::thread::spawn(move || io::copy(&mut theirs, &mut io::sink()));
    Qmp::start(ours).unwrap()
}

#[test]
fn a_snapshot_that_is_not_loaded_or_saved_within_the_time_limit_is_an_error() {
    let loading = "{\"return\":{\"status\":\"inmigrate\"}}";
    let error = wait_until_loaded(&mut fake_qemu(&[loading; 2]), &|| true).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    let loaded = "{\"return\":{\"status\":\"paused\"}}";
    assert!(wait_until_loaded(&mut fake_qemu(&[loading, loaded]), &|| false).is_ok());
    let saving = "{\"return\":{\"status\":\"active\"}}";
    let error = wait_until_saved(&mut fake_qemu(&[saving; 2]), &|| true).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    let saved = "{\"return\":{\"status\":\"completed\"}}";
    assert!(wait_until_saved(&mut fake_qemu(&[saving, saved]), &|| false).is_ok());
}
