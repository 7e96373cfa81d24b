use std::collections::BTreeSet;

use fsdyno_record::plan::{KernelPlan, LabPlan};

use super::*;
use crate::matrix_request::{DEFAULT_DEADLINE, DEFAULT_JOURNAL, LabPlace, Size};

fn lab() -> LabPlace {
    LabPlace::with_defaults("hdd-7200", "6.1.0")
}

fn request(workloads: &[&str], filesystems: &[&str]) -> MatrixRequest {
    let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    MatrixRequest {
        deadline: DEFAULT_DEADLINE,
        workloads: strings(workloads),
        filesystems: strings(filesystems),
        threads: 1,
        issuer: IssuerPlan::Sync,
        ..MatrixRequest::default()
    }
}

fn refusal(matrix_request: &MatrixRequest, lab: LabPlace) -> String {
    matrix(matrix_request, &Place::Lab(lab)).unwrap_err().to_string()
}

#[test]
fn an_external_journal_gets_a_disk_and_a_size_and_an_array_gets_its_disks() {
    let matrix_request = request(&["dirops"], &["far=ext4 -J device={journal}", "ext4"]);
    let raid = Some("5x3:64K".parse().unwrap());
    let cells = matrix(&matrix_request, &Place::Lab(LabPlace { raid, ..lab() })).unwrap();
    let media: Vec<&MediumPlan> = cells.iter().map(|cell| &cell.plan.medium).collect();
    assert_eq!(media[0].journal_size(), Some(DEFAULT_JOURNAL));
    assert_eq!((media[0].disks(), media[1].disks()), (4, 3));
    assert_eq!((media[1].journal(), media[1].journal_size()), (None, None));
}

#[test]
fn every_combination_becomes_a_cell_with_a_unique_hash() {
    let matrix_request = request(&["dirops", "tarball"], &["ext4", "small=ext4 -I 128", "xfs"]);
    let disks = vec!["hdd-7200".into(), "instant".into()];
    let cells = matrix(&matrix_request, &Place::Lab(LabPlace { disks, ..lab() })).unwrap();
    assert_eq!(cells.len(), 2 * 2 * 3);
    let hashes: BTreeSet<&String> = cells.iter().map(|cell| &cell.plan.hash).collect();
    assert_eq!(hashes.len(), cells.len());
    assert_eq!(cells[1].plan.label, "small");
    assert!(cells.iter().all(|cell| cell.ops() > 0));
}

#[test]
fn a_curve_becomes_a_cell_for_each_of_its_points() {
    let curve = |parameters: &[&str]| {
        let parameters = parameters.iter().map(ToString::to_string).collect();
        matrix(
            &MatrixRequest { parameters, ..request(&["dirops"], &["ext4", "xfs"]) },
            &Place::Lab(lab()),
        )
    };
    let cells = curve(&["curve=100..10000x10"]).unwrap();
    let files: Vec<&str> =
        cells.iter().map(|cell| cell.plan.workload.params["files"].as_str()).collect();
    assert_eq!(files, ["100", "100", "1000", "1000", "10000", "10000"]);
    assert!(cells.iter().all(|cell| cell.plan.workload.params["curve"] == "100..10000x10"));
    let text = curve(&["curve=10..20/5", "files=7"]).unwrap_err().to_string();
    assert!(text.contains("leave one of them out"), "{text}");
    let text = curve(&["curve=10..5/1"]).unwrap_err().to_string();
    assert!(text.contains("FROM..TO/STEP"), "{text}");
}

#[test]
fn a_missing_feature_of_a_file_system_is_a_reason_to_skip_before_any_work() {
    let skips = |work: &str, filesystem: &str| {
        let cells = matrix(&request(&[work], &[filesystem]), &Place::Lab(lab())).unwrap();
        cells[0].skip.clone().unwrap_or_default()
    };
    assert!(skips("maildir", "vfat").contains("maildir' cannot run on vfat: names of a Mail"));
    assert_eq!(skips("dirops", "vfat"), "");
    assert_eq!(skips("maildir", "ext4"), "");
    assert!(skips("source-tree", "overlayfs:ext4").is_empty());
}

#[test]
fn a_file_system_in_memory_has_no_disk_and_one_row_for_several_disks() {
    let disks = vec!["hdd-7200".to_string(), "instant".to_string()];
    let size = Size::Exactly(Bytes(64 << 20));
    let place = Place::Lab(LabPlace { disks, size, ..lab() });
    let small = |filesystems: &[&str]| MatrixRequest {
        parameters: vec!["files=100".into()],
        ..request(&["dirops"], filesystems)
    };
    let cells = matrix(&small(&["ext4", "tmpfs", "overlayfs:tmpfs"]), &place).unwrap();
    let labels: Vec<&str> = cells.iter().map(|cell| cell.plan.label.as_str()).collect();
    assert_eq!(labels, ["ext4", "tmpfs", "overlayfs:tmpfs", "ext4"]);
    let size = Some(Bytes(64 << 20));
    assert_eq!(cells[1].plan.medium, MediumPlan::Memory { size });
    assert_eq!(cells[1].plan.medium.disks(), 0);
    let filesystem = |index: usize| cells[index].plan.filesystem.clone().unwrap();
    assert_eq!(filesystem(1).mount_options, "size=67108864");
    assert_eq!(filesystem(2).below.unwrap().mount_options, "size=67108864");
    let cells = matrix(&small(&["tmpfs @ size=1m"]), &place).unwrap();
    assert_eq!(cells[0].plan.filesystem.as_ref().unwrap().mount_options, "size=1m");
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    assert!(refusal(&request(&["dirop"], &["ext4"]), lab()).contains("'dirops'"));
    assert!(refusal(&request(&["dirops"], &["ext5"]), lab()).contains("ext"));
    let disks = vec!["hdd-720".into()];
    let text = refusal(&request(&["dirops"], &["ext4"]), LabPlace { disks, ..lab() });
    assert!(text.contains("'hdd-7200'"), "{text}");
    let scheduler = Some("mq-dedline".into());
    let text = refusal(
        &request(&["dirops"], &["ext4"]),
        LabPlace { guest: LabPlan { scheduler, ..lab().guest }, ..lab() },
    );
    assert!(text.contains("'mq-deadline'"), "{text}");
}

#[test]
fn two_kernels_make_rows_with_the_same_labels() {
    let kernels = vec!["5.10.0-9-amd64".into(), "6.1.0-44-amd64".into()];
    let cells =
        matrix(&request(&["dirops"], &["ext4", "xfs"]), &Place::Lab(LabPlace { kernels, ..lab() }));
    let labels: Vec<String> = cells.unwrap().into_iter().map(|cell| cell.plan.label).collect();
    assert_eq!(labels, ["ext4", "xfs", "ext4", "xfs"]);
}

#[test]
fn an_age_adds_a_row_next_to_the_fresh_one_and_leaves_less_space() {
    let aged = |ages: &[&str], lab: LabPlace| {
        let age = |text: &&str| match *text {
            "none" => None,
            text => Some(text.parse().unwrap()),
        };
        let ages = ages.iter().map(age).collect();
        matrix(&MatrixRequest { ages, ..request(&["dirops"], &["ext4", "xfs"]) }, &Place::Lab(lab))
    };
    let cells = aged(&["none", "fill=80%"], lab()).unwrap();
    let fills: Vec<Option<u32>> =
        cells.iter().map(|cell| cell.plan.age().map(|age| age.fill)).collect();
    assert_eq!(fills, [None, Some(80), None, Some(80)]);
    assert_ne!(cells[0].plan.hash, cells[1].plan.hash);
    let text = |ages: &[&str], lab| aged(ages, lab).unwrap_err().to_string();
    assert!(text(&["none", "none"], lab()).contains("twice"));
    assert!(text(&["fill=80%,files=4K..1M"], lab()).contains("4K-1M"));
    let raid = Some("1x2".parse().unwrap());
    assert!(aged(&["fill=80%"], LabPlace { raid, ..lab() }).is_ok());
    let tight = LabPlace { size: Size::Exactly(Bytes(1 << 30)), ..lab() };
    assert!(aged(&["none"], tight.clone()).is_ok());
    let parameters = vec!["files=40000".to_string(), "size=16K".to_string()];
    let full = MatrixRequest {
        parameters,
        ages: vec![Some("fill=95%".parse().unwrap())],
        ..request(&["dirops"], &["ext4"])
    };
    let refused = matrix(&full, &Place::Lab(tight)).unwrap_err().to_string();
    assert!(refused.contains("writes"), "{refused}");
}

#[test]
fn only_the_file_systems_of_a_found_kernel_are_checked() {
    let matrix_request = request(&["dirops"], &["ext4", "reiserfs"]);
    let cells = |kernel: &str, found| {
        let kernels = vec![kernel.into()];
        matrix(&matrix_request, &Place::Lab(LabPlace { kernels, found, ..lab() })).unwrap()
    };
    for kernel in ["6", "6.1", "/boot/vmlinuz", "default"] {
        assert!(cells(kernel, false).iter().all(|cell| cell.skip.is_none()), "{kernel}");
    }
    let found = cells("6.13.2-amd64", true);
    assert_eq!(found[0].skip, None);
    assert!(found[1].skip.as_ref().unwrap().contains("no longer has reiserfs"));
}

#[test]
fn one_kernel_twice_is_refused_and_two_builds_of_a_release_are_two_rows() {
    let kernels = vec!["6.1.0".into(); 2];
    let text = refusal(&request(&["dirops"], &["ext4"]), LabPlace { kernels, ..lab() });
    assert!(text.contains("6.1.0 twice"), "{text}");
    let build = |file: &str| KernelPlan { release: "6.13.0".into(), request: Some(file.into()) };
    let kernels = vec![build("old"), build("new")];
    let matrix_request = request(&["dirops"], &["ext4", "reiserfs"]);
    let cells = matrix(&matrix_request, &Place::Lab(LabPlace { kernels, ..lab() })).unwrap();
    assert_ne!(cells[0].plan.hash, cells[2].plan.hash);
    assert_eq!(cells[0].plan.lab().unwrap().kernel.release, "6.13.0");
    assert!(cells[1].skip.is_some() && cells[2].skip.is_none());
}

#[test]
fn kvm_refuses_options_of_virtual_time() {
    let accel = fsdyno_record::plan::AccelPlan::Kvm;
    let matrix_request = request(&["dirops"], &["ext4"]);
    assert!(
        matrix(
            &matrix_request,
            &Place::Lab(LabPlace { guest: LabPlan { accel, ..lab().guest }, ..lab() })
        )
        .is_ok()
    );
    let boot = fsdyno_record::plan::BootPlan::Snapshot;
    let text = refusal(
        &matrix_request,
        LabPlace { guest: LabPlan { accel, boot, ..lab().guest }, ..lab() },
    );
    assert!(text.contains("--boot snapshot"), "{text}");
    let cpu = "1/2".parse().unwrap();
    assert!(
        refusal(
            &matrix_request,
            LabPlace { guest: LabPlan { accel, cpu, ..lab().guest }, ..lab() }
        )
        .contains("--cpu")
    );
}

#[test]
fn threads_need_workloads_that_can_share_a_phase() {
    let requested =
        |workloads: &[&str], threads| MatrixRequest { threads, ..request(workloads, &["ext4"]) };
    let cells = matrix(&requested(&["dirops"], 8), &Place::Lab(lab())).unwrap();
    assert_eq!(cells[0].plan.threads, 8);
    assert_eq!(cells[0].phases[0].1[&OpKind::Open], 8, "each opens the directory");
    let text = refusal(&requested(&["dirops", "tarball"], 2), lab());
    assert!(text.contains("--threads 2") && text.contains("'tarball'"), "{text}");
    for threads in [0, 513] {
        let text = refusal(&requested(&["dirops"], threads), lab());
        assert!(text.contains("1 to 512"), "{text}");
    }
}

#[test]
fn io_uring_runs_only_on_the_host_and_null_also_in_the_lab() {
    let issued = |threads, issuer: &str| MatrixRequest {
        threads,
        issuer: issuer.parse().unwrap(),
        ..request(&["dirops"], &[])
    };
    let host =
        Place::Directory { path: "/tmp".into(), label: "tmpfs".into(), max_name_length: None };
    let cells = matrix(&issued(2, "io_uring:16"), &host).unwrap();
    assert_eq!(cells[0].phases[0].1[&OpKind::Open], 32, "each op in flight has a share");
    let text = matrix(&issued(2, "io_uring:4096"), &host).unwrap_err().to_string();
    assert!(text.contains("8192 ops in flight"), "{text}");
    let in_lab = MatrixRequest { filesystems: vec!["ext4".into()], ..issued(1, "io_uring:4") };
    assert!(refusal(&in_lab, lab()).contains("the lab does not run io_uring"));
    let null = MatrixRequest { issuer: IssuerPlan::Null, ..request(&["dirops"], &["ext4"]) };
    assert_eq!(matrix(&null, &Place::Lab(lab())).unwrap()[0].plan.issuer, IssuerPlan::Null);
    assert!(matrix(&issued(1, "null"), &host).is_ok());
}

#[test]
fn one_label_for_two_rows_is_refused() {
    let text = refusal(&request(&["dirops"], &["a=ext4", "a=xfs"]), lab());
    assert!(text.contains("called 'a'"), "{text}");
}

#[test]
fn a_directory_accepts_no_file_system() {
    let place =
        Place::Directory { path: "/tmp".into(), label: "tmpfs".into(), max_name_length: Some(40) };
    let parameters = vec!["prefix=aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd".to_string()];
    let long =
        matrix(&MatrixRequest { parameters, ..request(&["dirops"], &[]) }, &place).unwrap_err();
    assert!(long.to_string().contains("names of 47 bytes, and tmpfs allows 40"), "{long}");
    assert!(matrix(&request(&["dirops"], &["ext4"]), &place).is_err());
    assert_eq!(matrix(&request(&["dirops"], &[]), &place).unwrap().len(), 1);
}

#[test]
fn impossible_sizes_are_refused() {
    let matrix_request = request(&["dirops"], &["ext4"]);
    let size = Size::Exactly(Bytes(1 << 50));
    assert!(refusal(&matrix_request, LabPlace { size, ..lab() }).contains("more than disk"));
    let size = Size::Exactly(Bytes(4096));
    assert!(refusal(&matrix_request, LabPlace { size, ..lab() }).contains("too small"));
    assert!(
        refusal(
            &matrix_request,
            LabPlace { guest: LabPlan { ram: Bytes(1000), ..lab().guest }, ..lab() }
        )
        .contains("--ram")
    );
    for mib in [31, 961, 2048] {
        let place = LabPlace {
            guest: LabPlan { cacheable: Some(Bytes(mib << 20)), ..lab().guest },
            ..lab()
        };
        assert!(
            refusal(&matrix_request, place).contains("64 MiB of the RAM"),
            "{mib} MiB of 1 GiB"
        );
    }
    let (raid, disks) = (Some("5x3".parse().unwrap()), vec!["instant".to_string()]);
    let text = refusal(&matrix_request, LabPlace { raid, disks, ..lab() });
    assert!(text.contains("cannot be a RAID member"), "{text}");
    let journal_size = Some(Bytes(1 << 30));
    let text = refusal(&matrix_request, LabPlace { journal_size, ..lab() });
    assert!(text.contains("names {journal}, and none does"), "{text}");
    let outer = request(&["dirops"], &["ext4 -J device={journal}"]);
    for invalid in [Bytes(1000), Bytes(1 << 50)] {
        let text = refusal(&outer, LabPlace { journal_size: Some(invalid), ..lab() });
        assert!(text.contains("whole mebibytes"), "{text}");
    }
}

#[test]
fn a_sysctl_that_could_leave_proc_sys_is_refused() {
    let read = |text: &str, period: Option<&str>| super::sysctls(&[text.to_string()], period);
    for invalid in ["vm.dirty_ratio", "../../etc/passwd=x", "vm..x=1", "=1", "a b.c=1"] {
        assert!(read(invalid, None).is_err(), "{invalid}");
    }
    assert_eq!(read("vm.dirty_ratio=10", None).unwrap()["vm.dirty_ratio"], "10");
    let of_period = read("vm.dirty_ratio=11", Some("2004")).unwrap();
    assert_eq!(of_period["vm.dirty_ratio"], "11", "explicit settings win");
    assert_eq!(of_period["vm.dirty_background_ratio"], "10");
    let bytes = read("vm.dirty_bytes=9000000", Some("2004")).unwrap();
    assert!(!bytes.contains_key("vm.dirty_ratio"), "{bytes:?}");
}

#[test]
fn explicit_options_override_a_period_and_unknown_file_systems_are_refused() {
    let of_period = |name: &str, filesystems: &[&str]| {
        let periods = vec![Some(name.into())];
        matrix(&MatrixRequest { periods, ..request(&["dirops"], filesystems) }, &Place::Lab(lab()))
    };
    let cells = of_period("2004", &["ext3 -T news @ noatime", "xfs"]).unwrap();
    let plan = |index: usize| cells[index].plan.filesystem.as_ref().unwrap();
    assert_eq!(plan(0).period.as_deref(), Some("2004"));
    assert_eq!(plan(0).mount_options, "barrier=0,noatime");
    assert!(plan(1).mkfs.join(" ").contains("size=16m"), "a log for 32 GiB");
    let cache = |index: usize| {
        let spec = &cells[index].plan.medium.disk().unwrap().spec;
        spec["queue"]["write_cache"].as_str().unwrap().to_string()
    };
    assert_eq!((cache(0), cache(1)), ("write back".into(), "write through".into()));
    assert_eq!(cells[0].plan.sysctls["vm.dirty_ratio"], "40");
    let text = of_period("2004", &["btrfs"]).unwrap_err().to_string();
    assert!(text.contains("--period 2004 has no btrfs; it has ext2, ext3"), "{text}");
    let text = of_period("2005", &["ext3"]).unwrap_err().to_string();
    assert!(text.contains("no period '2005'"), "{text}");
}

#[test]
fn several_periods_are_rows_of_one_table_and_the_present_may_be_one_of_them() {
    let periods = vec![None, Some("2004".to_string()), Some("2008".to_string())];
    let matrix_request = MatrixRequest { periods, ..request(&["dirops"], &["ext3", "xfs"]) };
    let cells = matrix(&matrix_request, &Place::Lab(lab())).unwrap();
    let names = fsdyno_axes::naming::RowNames::of(cells.iter().map(|cell| &cell.plan));
    let rows: Vec<String> = cells.iter().map(|cell| names.row(&cell.plan)).collect();
    assert_eq!(
        rows,
        [
            "ext3, current",
            "ext3, as in 2004",
            "ext3, as in 2008",
            "xfs, current",
            "xfs, as in 2004",
            "xfs, as in 2008"
        ]
    );
    assert!(cells[0].plan.sysctls.is_empty());
    assert_eq!(cells[1].plan.sysctls["vm.dirty_ratio"], "40");
    let twice = vec![Some("2004".to_string()), Some("2004".to_string())];
    let matrix_request = MatrixRequest { periods: twice, ..matrix_request };
    let text = matrix(&matrix_request, &Place::Lab(lab())).unwrap_err().to_string();
    assert!(text.contains("--period names 2004 twice"), "{text}");
}
