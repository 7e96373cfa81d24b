use super::*;
use fsdyno_record::Bytes;
use fsdyno_record::plan::{
    AccelPlan, BootPlan, DiskPlan, EphemeralPlan, EphemeralSize, FilesystemPlan, InputPlan,
    IssuerPlan, KernelPlan, LabPlan, MediumPlan, ModelledPlan, Target, VenuePlan, VerifyMode,
    WorkloadPlan,
};

pub(crate) fn plan() -> Plan {
    let disk = DiskPlan { name: "hdd".into(), spec: "disk".into() };
    Plan {
        label: "ext4".into(),
        workload: WorkloadPlan {
            name: "dirops".into(),
            params: [("files".to_string(), "10".to_string())].into(),
            input: None,
        },
        filesystem: Some(FilesystemPlan {
            kind: "ext4".into(),
            spec: "ext4".into(),
            ..FilesystemPlan::default()
        }),
        medium: MediumPlan::Modelled(ModelledPlan { size: Some(Bytes(8 << 30)), ..disk.into() }),
        venue: VenuePlan::Lab(LabPlan::new("6.1", Bytes(1 << 30))),
        threads: 1,
        issuer: IssuerPlan::Sync,
        verify: VerifyMode::Full,
        sysctls: BTreeMap::new(),
        hash: String::new(),
    }
}

fn with(change: impl FnOnce(&mut Plan)) -> Plan {
    let mut plan = plan();
    change(&mut plan);
    plan
}

fn in_lab(change: impl FnOnce(&mut LabPlan)) -> Plan {
    with(|plan| {
        change(plan.lab_mut().unwrap());
    })
}

fn modelled(change: impl FnOnce(&mut ModelledPlan)) -> Plan {
    with(|plan| change(plan.medium.modelled_mut().unwrap()))
}

fn filesystem(change: impl FnOnce(&mut FilesystemPlan)) -> Plan {
    with(|plan| change(plan.filesystem.as_mut().unwrap()))
}

fn on(medium: MediumPlan) -> Plan {
    with(|plan| (plan.medium, plan.venue) = (medium, VenuePlan::Host))
}

fn device(text: &str, raid: Option<&str>, journal: Option<u64>) -> Plan {
    let Target::Ephemeral(EphemeralSize { kind, size }) = Target::parse(text).unwrap() else {
        return on(MediumPlan::Drive { path: text.into() });
    };
    let (raid, journal_size) = (raid.map(|raid| raid.parse().unwrap()), journal.map(Bytes));
    on(EphemeralPlan { size, raid, journal_size }.with_kind(kind))
}

fn directory(path: &str) -> Plan {
    on(MediumPlan::Directory { path: path.into() })
}

fn aged(text: &str) -> Plan {
    filesystem(|filesystem| filesystem.age = Some(text.parse().unwrap()))
}

fn period(year: &str) -> Plan {
    let mut plan = filesystem(|filesystem| filesystem.period = Some(year.into()));
    plan.sysctls.insert("vm.dirty_ratio".into(), "40".into());
    plan
}

fn rows(plans: &[Plan]) -> Vec<String> {
    let plans: Vec<Plan> = plans.iter().cloned().map(Plan::with_hash).collect();
    let names = RowNames::of(&plans);
    plans.iter().map(|plan| names.row(plan)).collect()
}

#[test]
fn every_axis_in_which_rows_differ_is_named_and_nothing_else_is() {
    let journal = |name: &str, size| {
        modelled(|lab| {
            lab.journal = Some(DiskPlan { name: name.into(), spec: "disk".into() });
            lab.journal_size = Some(Bytes(size));
        })
    };
    let kernel = |file: &str| KernelPlan { release: "6.1".into(), request: Some(file.into()) };
    let disk = |name: &str| modelled(|lab| lab.disk.name = name.into());
    let ram = in_lab(|lab| lab.ram = Bytes(512 << 20));
    let memory = |size| with(|plan| plan.medium = MediumPlan::Memory { size: Some(Bytes(size)) });
    let model = |size| {
        let disk = DiskPlan { name: "hdd".into(), spec: "disk".into() };
        let modelled = ModelledPlan { size: Some(Bytes(size)), ..disk.into() };
        with(|plan| {
            plan.medium = MediumPlan::Modelled(modelled);
            plan.venue = VenuePlan::Model { block_size: 4096 };
        })
    };
    for (a, b, names) in [
        (plan(), with(|plan| plan.label = "xfs".into()), ["ext4", "xfs"]),
        (
            plan(),
            filesystem(|filesystem| filesystem.spec = "ext4 -I 128".into()),
            ["ext4, ext4", "ext4, ext4 -I 128"],
        ),
        (plan(), device("loop:8G", None, None), ["ext4, lab", "ext4, loop:8G"]),
        (plan(), directory("/a"), ["ext4, lab", "ext4, directory"]),
        (
            device("loop:8G", None, None),
            device("ram:1G", None, None),
            ["ext4, loop:8G", "ext4, ram:1G"],
        ),
        (
            device("/dev/a", None, None),
            device("/dev/b", None, None),
            ["ext4, /dev/a", "ext4, /dev/b"],
        ),
        (directory("/a"), directory("/b"), ["ext4, /a", "ext4, /b"]),
        (
            model(1 << 30),
            model(2 << 30),
            ["ext4, file system of 1 GiB", "ext4, file system of 2 GiB"],
        ),
        (plan(), disk("ssd"), ["ext4, hdd", "ext4, ssd"]),
        (
            plan(),
            modelled(|lab| lab.raid = "5x3".parse().ok()),
            ["ext4, no RAID", "ext4, RAID 5x3"],
        ),
        (
            device("loop:8G", None, None),
            device("loop:8G", Some("0x2"), None),
            ["ext4, no RAID", "ext4, RAID 0x2"],
        ),
        (
            journal("hdd", 1 << 20),
            journal("ssd", 1 << 20),
            ["ext4, journal on hdd", "ext4, journal on ssd"],
        ),
        (
            journal("hdd", 1 << 20),
            journal("hdd", 2 << 20),
            ["ext4, journal of 1 MiB", "ext4, journal of 2 MiB"],
        ),
        (
            device("loop:8G", None, Some(1 << 20)),
            device("loop:8G", None, Some(2 << 20)),
            ["ext4, journal of 1 MiB", "ext4, journal of 2 MiB"],
        ),
        (
            plan(),
            modelled(|lab| lab.size = Some(Bytes(1 << 30))),
            ["ext4, file system of 8 GiB", "ext4, file system of 1 GiB"],
        ),
        (
            plan(),
            modelled(|lab| lab.size = None),
            ["ext4, file system of 8 GiB", "ext4, the whole disk"],
        ),
        (
            memory(1 << 30),
            memory(2 << 30),
            ["ext4, file system of 1 GiB", "ext4, file system of 2 GiB"],
        ),
        // The sysctls of a period are part of it.
        (plan(), period("2008"), ["ext4, current", "ext4, as in 2008"]),
        (period("2006"), period("2008"), ["ext4, as in 2006", "ext4, as in 2008"]),
        (plan(), in_lab(|lab| lab.kernel = "6.12".into()), ["ext4, 6.1", "ext4, 6.12"]),
        // Two builds of one release.
        (
            in_lab(|lab| lab.kernel = kernel("a/bzImage")),
            in_lab(|lab| lab.kernel = kernel("b/bzImage")),
            ["ext4, 6.1@a/bzImage", "ext4, 6.1@b/bzImage"],
        ),
        (plan(), in_lab(|lab| lab.accel = AccelPlan::Kvm), ["ext4, tcg", "ext4, kvm"]),
        (
            plan(),
            in_lab(|lab| lab.boot = BootPlan::Snapshot),
            ["ext4, boot cold", "ext4, boot snapshot"],
        ),
        (plan(), in_lab(|lab| lab.cpu = "1/2".parse().unwrap()), ["ext4, CPU 1", "ext4, CPU 1/2"]),
        (plan(), ram, ["ext4, RAM 1 GiB", "ext4, RAM 512 MiB"]),
        (
            plan(),
            in_lab(|lab| lab.cacheable = Some(Bytes(64 << 20))),
            ["ext4, all cacheable", "ext4, 64 MiB cacheable"],
        ),
        (
            plan(),
            in_lab(|lab| lab.scheduler = Some("bfq".into())),
            ["ext4, the disk's scheduler", "ext4, scheduler bfq"],
        ),
        (plan(), with(|plan| plan.threads = 4), ["ext4, 1 thread", "ext4, 4 threads"]),
        (plan(), with(|plan| plan.issuer = IssuerPlan::Null), ["ext4, sync", "ext4, null"]),
        (
            plan(),
            with(|plan| plan.verify = VerifyMode::Names),
            ["ext4, verify full", "ext4, verify names"],
        ),
        (plan(), aged("fill=80%"), ["ext4, fresh", "ext4, aged 80% churn 1"]),
        (
            aged("fill=80%,files=4K"),
            aged("fill=80%,files=8K"),
            ["ext4, aged with files 4K", "ext4, aged with files 8K"],
        ),
        (
            aged("fill=80%"),
            aged("fill=80%,seed=7"),
            ["ext4, aged by the trial's seed", "ext4, aged by seed 7"],
        ),
        (
            plan(),
            with(|plan| drop(plan.sysctls.insert("vm.swappiness".into(), "1".into()))),
            ["ext4", "ext4, vm.swappiness=1"],
        ),
    ] {
        assert_eq!(rows(&[a, b]), names);
    }
}

#[test]
fn a_row_without_a_disk_is_not_distinguished_by_the_disk() {
    let tmpfs = with(|plan| {
        plan.label = "tmpfs".into();
        plan.medium = MediumPlan::Memory { size: None };
    });
    assert_eq!(rows(&[plan(), tmpfs]), ["ext4", "tmpfs"]);
}

#[test]
fn several_axes_are_named_in_a_fixed_order_and_common_values_are_omitted() {
    let kernel = |kernel: &str, disk: &str| {
        let mut plan = in_lab(|lab| lab.kernel = kernel.into());
        plan.medium.modelled_mut().unwrap().disk.name = disk.into();
        plan
    };
    let plans = [kernel("6.1", "hdd"), kernel("6.12", "hdd"), kernel("6.1", "ssd")];
    assert_eq!(rows(&plans), ["ext4, hdd, 6.1", "ext4, hdd, 6.12", "ext4, ssd, 6.1"]);
    assert_eq!(rows(&plans[..1]), ["ext4"]);
}

#[test]
fn a_host_is_named_by_the_kernel_that_its_trial_ran_under() {
    let plan = directory("/a").with_hash();
    let under = |host_kernel| Subject { host_kernel, ..Subject::from(&plan) };
    let (old, new) = (under("6.1.0 #1 SMP"), under("6.12.3 #1 SMP"));
    let names = RowNames::of([old, new]);
    assert_eq!([old, new].map(|plan| names.row(plan)), ["ext4, 6.1.0", "ext4, 6.12.3"]);
}

#[test]
fn two_hosts_with_one_kernel_are_distinguished_by_their_cpus_but_guests_are_not() {
    let (here, guest) = (directory("/a").with_hash(), in_lab(|_| {}).with_hash());
    let on = |plan, host_cpu| Subject { host_cpu, ..Subject::from(plan) };
    let names = |a, b| RowNames::of([a, b]).row(b);
    assert_eq!(names(on(&here, "Epyc"), on(&here, "Xeon")), "ext4, Xeon");
    assert_eq!(names(on(&guest, "QEMU 7"), on(&guest, "QEMU 8")), "ext4");
}

#[test]
fn equal_names_of_different_plans_or_labs_get_the_start_of_the_differing_hash() {
    let mut other = plan();
    other.medium.modelled_mut().unwrap().disk.spec = "another disk".into();
    let (one, other) = (plan().with_hash(), other.with_hash());
    let names = RowNames::of([&one, &other]);
    assert_eq!(names.row(&one), format!("ext4, plan {}", &one.hash[..6]));
    let subject = |lab_id| Subject { lab_id, ..Subject::from(&one) };
    let names =
        RowNames::of([subject(Some("abcdefghi")), subject(Some("xyzxyzxyz")), subject(None)]);
    assert_eq!(names.row(subject(Some("xyzxyzxyz"))), "ext4, lab xyzxyz");
    assert_eq!(names.row(subject(None)), "ext4");
}

#[test]
fn a_workload_is_named_by_its_parameters_and_an_input_by_its_bytes() {
    let files =
        |files: &str| with(|plan| drop(plan.workload.params.insert("files".into(), files.into())));
    let input = |path: &str, sha256: &str| {
        with(|plan| {
            plan.workload.params.insert("archive".into(), path.into());
            let (parameter, bytes) = ("archive".to_string(), Bytes(1));
            plan.workload.input = Some(InputPlan { parameter, sha256: sha256.into(), bytes });
        })
    };
    let named = |plans: [Plan; 2]| {
        let names = RowNames::of(&plans);
        plans.each_ref().map(|plan| names.workload(plan))
    };
    assert_eq!(named([files("10"), files("10")].map(Plan::with_hash)), ["dirops", "dirops"]);
    let both = ["dirops files=10", "dirops files=20"];
    assert_eq!(named([files("10"), files("20")].map(Plan::with_hash)), both);
    let same = [input("/a", "1"), input("/b", "1")].map(Plan::with_hash);
    assert_eq!(named(same), ["dirops", "dirops"]);
    let other = [input("/a", "1"), input("/b", "2")].map(Plan::with_hash);
    assert_eq!(named(other), ["dirops archive=/a", "dirops archive=/b"]);
}

#[test]
fn a_replay_is_named_after_its_recording() {
    let replay = |path: &str, sha256: &str| {
        let mut plan = plan();
        plan.workload.name = "replay".into();
        plan.workload.params.insert("trace".into(), path.into());
        let (parameter, bytes) = ("trace".to_string(), Bytes(1));
        plan.workload.input = Some(InputPlan { parameter, sha256: sha256.into(), bytes });
        plan.with_hash()
    };
    let named = |plans: [Plan; 2]| {
        let names = RowNames::of(&plans);
        plans.each_ref().map(|plan| names.workload(plan))
    };
    let two = [replay("/a/make.trace", "1"), replay("/a/git.trace", "2")];
    assert_eq!(named(two), ["replay of make", "replay of git"]);
    let namesakes = [replay("/a/make.trace", "1"), replay("/b/make.trace", "2")];
    let both = ["replay of make trace=/a/make.trace", "replay of make trace=/b/make.trace"];
    assert_eq!(named(namesakes), both);
}

#[test]
fn the_subject_of_a_comparison_is_named_only_if_one_side_has_several_values() {
    let kernel = |kernel: &str| in_lab(|lab| lab.kernel = kernel.into()).with_hash();
    let (old, new) = (kernel("6.1"), kernel("6.12"));
    let names = RowNames::of_comparison([&old], [&new]);
    assert_eq!([&old, &new].map(|plan| names.row(plan)), ["ext4", "ext4"]);
    let names = RowNames::of_comparison([&old, &new], [&new]);
    assert_eq!([&old, &new].map(|plan| names.row(plan)), ["ext4, 6.1", "ext4, 6.12"]);
    let (hdd, ssd) = (plan().with_hash(), modelled(|lab| lab.disk.name = "ssd".into()).with_hash());
    let names = RowNames::of_comparison([&hdd], [&ssd]);
    assert_eq!([&hdd, &ssd].map(|plan| names.row(plan)), ["ext4, hdd", "ext4, ssd"]);
}

/// Returns a plan for a machine with this name, disk and RAM in GiB.
fn machine(name: Option<&str>, disk: &str, ram: u64) -> Plan {
    let mut plan = modelled(|modelled| modelled.disk.name = disk.into());
    let lab = plan.lab_mut().unwrap();
    (lab.machine, lab.ram) = (name.map(String::from), Bytes(ram << 30));
    plan
}

#[test]
fn machines_are_named_and_their_parts_are_not() {
    let plans = [machine(Some("server"), "nvme", 4), machine(Some("pc"), "hdd", 1)];
    assert_eq!(rows(&plans), ["ext4, server", "ext4, pc"]);
    let plans = [
        machine(Some("server"), "nvme", 4),
        machine(Some("server"), "ssd", 4),
        machine(Some("pc"), "hdd", 1),
    ];
    assert_eq!(rows(&plans), ["ext4, server, nvme", "ext4, server, ssd", "ext4, pc"]);
}

#[test]
fn rows_with_and_without_a_machine_are_named_by_the_parts_that_differ() {
    let plans = [machine(Some("server"), "nvme", 1), machine(None, "hdd", 1)];
    assert_eq!(rows(&plans), ["ext4, nvme", "ext4, hdd"]);
    // The same parts have the same name, so that older results without a machine can be compared.
    let (new, old) =
        (machine(Some("pc"), "hdd", 1).with_hash(), machine(None, "hdd", 1).with_hash());
    let names = RowNames::of_comparison([&old], [&new]);
    assert_eq!((names.row(&old), names.row(&new)), ("ext4".to_string(), "ext4".to_string()));
    let new = machine(Some("pc"), "ssd", 1).with_hash();
    let names = RowNames::of_comparison([&old], [&new]);
    assert_ne!(names.row(&old), names.row(&new));
}
