//! The table of axes, one row each, in their order in row names and commands.

use fsdyno_record::plan::{
    AccelPlan, AgePlan, BootPlan, IssuerPlan, MediumPlan, Target, VerifyMode,
};

use crate::TargetKind::{Drive, Ephemeral, Lab, Model};
use crate::values::{
    ALL_TARGETS, ROW, default_or, lab_value, label, machine_part, network, on_disks, parse,
    parse_name, path, size, target, whole_number, within_label,
};
use crate::{Axis, Crash, HOST_SETTINGS, Size, Value, bytes};

/// The period name that selects today's defaults.
pub const TODAY: &str = "today";

/// The maximum number of clients of a shared file system.
pub const MAX_CLIENTS: u32 = 64;

/// The maximum number of threads of a trial.
pub const MAX_THREADS: u32 = 512;

/// All axes.
pub const AXES: &[Axis] = &[
    Axis {
        key: "fs",
        value_name: "[NAME=]SPEC",
        help: "A file system with its mkfs and mount options: '[NAME=]KIND [mkfs options] [@ mount,options]'. May be \
               repeated; plain names may be separated by commas (ext4,xfs). 'overlayfs[,options]:SPEC' is an overlay \
               over SPEC; 'nfs:SPEC' or 'smb:SPEC' is SPEC on a server, used by clients; 'fuse: [MKFS ... ;] COMMAND ... \
               {device} {mount}' is any FUSE file system, given by its command [default: ext4; with --on model: all \
               three models; with a directory: the file system that it is on]",
        many: true,
        joined: true,
        targets: ALL_TARGETS,
        crash: Crash::Many,
        set: |request, text| {
            request.filesystems.push(text.into());
            Ok(())
        },
        value: |plan| Value::or_absent(plan.filesystem_request()),
        labels: &[within_label(|s| Some(s.plan.filesystem.as_ref()?.spec.clone())).compared()],
        names_rows: true,
        ..ROW
    },
    Axis {
        key: "on",
        value_name: "lab|DIR|loop:SIZE|ram:SIZE|DRIVE|model",
        help: "The target: 'lab' (a guest in virtual time on a modelled disk); a directory of this host; as root \
               'loop:SIZE' (a loop device over a sparse file in the result folder) or 'ram:SIZE' (a loop device over \
               a file in memory), created for each trial and removed after it; a whole drive, such as \
               /dev/disk/by-id/..., reformatted for each trial (only by fsdyno run, with --erase); or 'model' (models \
               of ext2's directory code as of 2001, run without a kernel: classic-ext2, cached-ext2, indexed-ext2). \
               May be repeated",
        default: "lab",
        many: true,
        targets: ALL_TARGETS,
        crash: Crash::Unsupported("it runs in the lab only"),
        set: |request, text| {
            request.on.push(text.into());
            Ok(())
        },
        value: |plan| Value::or_default(Some(plan.target()).filter(|on| *on != Target::Lab)),
        labels: &[label(|s| Some(target(s.plan))), label(|s| path(s.plan)).compared()],
        ..ROW
    },
    Axis {
        key: "machine",
        value_name: "NAME|FILE",
        help: "The lab's machine: its disk, CPU and RAM are the defaults of --disk, --cpu and --ram; a name from \
               `fsdyno list machines`, or a file (FILE.toml); may be repeated [default: $FSDYNO_MACHINE, or server-2026; \
               in study files: classic]",
        many: true,
        set: |request, text| {
            request.machines.push(text.into());
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| Value::or_default(lab.machine.as_ref())),
        labels: &[label(|s| s.plan.lab()?.machine.clone())],
        setting: true,
        ..ROW
    },
    Axis {
        key: "disk",
        value_name: "NAME|FILE",
        help: "The lab's disk: a name from `fsdyno list disks`, or a disk profile (FILE.toml); may be repeated \
               [default: that of --machine; with --on model: ide-2001]",
        many: true,
        joined: true,
        targets: &[Lab, Model],
        of_machine: true,
        set: |request, text| {
            request.disks.push(text.into());
            Ok(())
        },
        value: |plan| Value::or_absent(plan.medium.disk().map(|disk| &disk.name)),
        labels: &[machine_part(|s| Some(s.plan.medium.disk()?.name.clone()))],
        ..ROW
    },
    Axis {
        key: "raid",
        value_name: "LEVELxN[:CHUNK]",
        help: "Combine N disks (the lab's, or loop devices with --on loop:SIZE) into an md array, such as 0x2, 1x2, \
               5x3:64K, 10x4: level 0, 1, 5 or 10, up to 8 disks, chunk a power of two from 4K to 1M [default chunk: \
               mdadm's]",
        targets: &[Lab, Ephemeral],
        crash: Crash::Unsupported("it logs the bytes of one disk only"),
        set: |request, text| {
            request.raid = Some(parse(text)?);
            Ok(())
        },
        value: |plan| match on_disks(plan) {
            true => Value::or_default(plan.medium.raid()),
            false => Value::Absent,
        },
        labels: &[label(|s| {
            let raid = s.plan.medium.raid();
            let text = raid.map_or("no RAID".to_string(), |raid| format!("RAID {raid}"));
            on_disks(s.plan).then_some(text)
        })],
        ..ROW
    },
    Axis {
        key: "journal-disk",
        value_name: "NAME|FILE",
        help: "The lab's second disk, for specs that name {journal} [default: a second disk of the --disk kind]",
        crash: Crash::Unsupported("it logs the bytes of one disk only"),
        set: |request, text| {
            request.journal_disk = Some(text.into());
            Ok(())
        },
        value: |plan| Value::or_absent(plan.medium.journal().map(|disk| &disk.name)),
        labels: &[within_label(|s| Some(format!("journal on {}", s.plan.medium.journal()?.name)))],
        ..ROW
    },
    Axis {
        key: "journal-size",
        value_name: "SIZE",
        help: "Size of the journal's partition or loop device, in whole mebibytes [default: 256M]",
        targets: &[Lab, Ephemeral],
        crash: Crash::Unsupported("it logs the bytes of one disk only"),
        set: |request, text| {
            request.journal_size = Some(parse(text)?);
            Ok(())
        },
        value: |plan| Value::or_absent(plan.medium.journal_size().map(bytes)),
        labels: &[within_label(|s| Some(format!("journal of {}", s.plan.medium.journal_size()?)))],
        ..ROW
    },
    Axis {
        key: "size",
        value_name: "SIZE",
        help: "Size of the file system on the lab's disk, or 'whole' [default: 32G, or the whole of a smaller disk]",
        targets: &[Lab, Model],
        unsupported_reason: "; for loop:SIZE and ram:SIZE the size is part of --on",
        set: |request, text| {
            request.size = match text {
                "whole" => Size::Whole,
                _ => Size::Exactly(parse(text).map_err(|error| format!("{error}, or 'whole'"))?),
            };
            Ok(())
        },
        // The size of a file system in memory is in its spec, or is that of the file systems it is compared with.
        value: |plan| match plan.medium.modelled() {
            Some(modelled) => Value::Set(modelled.size.map_or("whole".into(), bytes)),
            None => Value::Absent,
        },
        labels: &[
            label(|s| size(s.plan).filter(|_| on_disks(s.plan))),
            within_label(|s| size(s.plan).filter(|_| !on_disks(s.plan))),
        ],
        ..ROW
    },
    Axis {
        key: "period",
        value_name: "YEAR|today",
        help: "Use that year's mkfs, mount, sysctl and disk-cache defaults in the lab; explicit options override \
               them; 'today' means no period; may be repeated; see `fsdyno list periods`",
        default: TODAY,
        many: true,
        set: |request, text| {
            request.periods.push((text != TODAY).then(|| text.into()));
            Ok(())
        },
        value: |plan| match &plan.filesystem {
            Some(filesystem) => Value::or_default(filesystem.period.as_ref()),
            None => Value::Absent,
        },
        labels: &[label(|s| {
            Some(match s.plan.filesystem.as_ref()?.period.as_deref() {
                Some(period) => format!("as in {period}"),
                None => "current".to_string(),
            })
        })],
        ..ROW
    },
    Axis {
        key: "kernel",
        value_name: "WHICH",
        help: "The lab's kernel: a release or the beginning of one (6.1), an image file, or IMAGE:MODULES; 'all' or a \
               range (5.10..7.3) selects, from the cache and Debian's archive, the newest kernel of each series; may be \
               repeated, or several separated by commas (6.1,6.12); other targets run on the host's kernel [default: \
               the one that `fsdyno doctor` shows]",
        many: true,
        list: true,
        joined: true,
        set: |request, text| {
            if text.is_empty() {
                return Err("a kernel is a release, an image file, or IMAGE:MODULES".into());
            }
            request.kernels.push(text.into());
            Ok(())
        },
        value: |plan| Value::or_absent(plan.lab().map(|lab| lab.kernel.request())),
        labels: &[
            label(|s| match s.plan.lab() {
                // Uses the plan's kernel, because a failed trial may not know its kernel, and two builds may have the
                // same release.
                Some(lab) => Some(lab.kernel.to_string()),
                None => s.host_kernel.split_whitespace().next().map(String::from),
            })
            .compared(),
            label(|s| {
                let is_on_host = s.plan.on_hosts();
                Some(s.host_cpu.to_string()).filter(|cpu| is_on_host && !cpu.is_empty())
            })
            .compared()
            .condition(),
        ],
        versions: true,
        ..ROW
    },
    Axis {
        key: "accel",
        value_name: "ACCEL",
        help: "The accelerator that executes the lab's guest",
        default: "tcg",
        names: || AccelPlan::ALL.iter().map(|(name, about, _)| (*name, *about)).collect(),
        crash: Crash::Unsupported("it logs bytes in virtual time only"),
        set: |request, text| {
            request.guest.accel = parse_name(AccelPlan::ALL, text)?;
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| default_or(lab.accel.name(), lab.accel.is_exact())),
        labels: &[label(|s| Some(s.plan.lab()?.accel.name().to_string()))],
        ..ROW
    },
    Axis {
        key: "boot",
        value_name: "BOOT",
        help: "Start the lab's guest by a cold boot or from a snapshot",
        default: "cold",
        names: || BootPlan::ALL.iter().map(|(name, about, _)| (*name, *about)).collect(),
        crash: Crash::Unsupported("its guests boot cold, because each has its own log in memory"),
        set: |request, text| {
            request.guest.boot = parse_name(BootPlan::ALL, text)?;
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| default_or(lab.boot.name(), lab.boot.is_cold())),
        labels: &[label(|s| Some(format!("boot {}", s.plan.lab()?.boot.name()))).compared()],
        setting: true,
        ..ROW
    },
    Axis {
        key: "cpu",
        value_name: "CPU",
        help: "The lab's CPU: a processor profile by name (fsdyno list processors) or by file, or a plain speed in \
               instructions per nanosecond, a power of two from 1/64 to 8: 1 is a CPU of about 2001 to 2006 [default: \
               that of --machine]",
        default: "1",
        of_machine: true,
        set: |request, text| {
            request.guest.cpu = fsdyno_processor::parse(text).map_err(|error| error.to_string())?;
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| Value::Set(lab.cpu.to_string())),
        labels: &[machine_part(|s| Some(format!("CPU {}", s.plan.lab()?.cpu)))],
        setting: true,
        ..ROW
    },
    Axis {
        key: "ram",
        value_name: "SIZE",
        help: "Memory of the lab's guest [default: that of --machine]",
        of_machine: true,
        set: |request, text| {
            request.guest.ram = parse(text)?;
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| Value::Set(bytes(lab.ram))),
        labels: &[machine_part(|s| Some(format!("RAM {}", s.plan.lab()?.ram)))],
        setting: true,
        ..ROW
    },
    Axis {
        key: "cacheable",
        value_name: "SIZE",
        help: "Memory that the lab's guest can use to cache files, 32M or more; the agent locks the rest before the \
               first phase [default: all that the kernel and the agent leave free]",
        set: |request, text| {
            request.guest.cacheable = Some(parse(text)?);
            Ok(())
        },
        value: |plan| lab_value(plan, |lab| Value::or_default(lab.cacheable.map(bytes))),
        labels: &[label(|s| {
            Some(match s.plan.lab()?.cacheable {
                Some(size) => format!("{size} cacheable"),
                None => "all cacheable".to_string(),
            })
        })],
        setting: true,
        ..ROW
    },
    Axis {
        key: "scheduler",
        value_name: "S",
        help: "Block scheduler in the lab [default: that of the disk profile]",
        unsupported_reason: HOST_SETTINGS,
        set: |request, text| {
            request.guest.scheduler = Some(text.into());
            Ok(())
        },
        value: |plan| match plan.medium {
            MediumPlan::Memory { .. } => Value::Absent,
            _ => lab_value(plan, |lab| Value::or_default(lab.scheduler.as_ref())),
        },
        labels: &[label(|s| {
            Some(match &s.plan.lab()?.scheduler {
                Some(scheduler) => format!("scheduler {scheduler}"),
                None => "the disk's scheduler".to_string(),
            })
        })],
        setting: true,
        ..ROW
    },
    Axis {
        key: "threads",
        value_name: "N",
        help: "The number of threads that issue operations, for workloads that can be divided (see `fsdyno list \
               workloads`)",
        default: "1",
        targets: ALL_TARGETS,
        set: |request, text| {
            request.threads = whole_number(1..=u64::from(MAX_THREADS))(text)?;
            Ok(())
        },
        value: |plan| Value::Set(plan.threads.to_string()),
        labels: &[label(|s| {
            let threads = s.plan.threads;
            Some(format!("{threads} thread{}", if threads == 1 { "" } else { "s" }))
        })],
        setting: true,
        ..ROW
    },
    Axis {
        key: "clients",
        value_name: "N",
        help: "The number of clients that mount a file system 'nfs:SPEC' or 'smb:SPEC', each with --threads \
               threads; may be repeated, or several numbers separated by commas (1,2,4,8); server, clients and network \
               share the guest's one processor",
        default: "1",
        many: true,
        list: true,
        joined: true,
        unsupported_reason: "; networks are modelled in the lab only; for a mounted file system, see --ranks",
        crash: Crash::Unsupported("it cuts the power of one machine, and the clients keep running"),
        set: |request, text| {
            whole_number(1..=u64::from(MAX_CLIENTS))(text).map(|count| request.clients.push(count))
        },
        value: |plan| match plan.lab().and_then(|lab| lab.clients) {
            None => Value::Absent,
            Some(clients) => default_or(clients, clients == 1),
        },
        labels: &[label(|s| {
            let clients = s.plan.lab()?.clients?;
            Some(format!("{clients} client{}", if clients == 1 { "" } else { "s" }))
        })],
        setting: true,
        ..ROW
    },
    Axis {
        key: "network",
        value_name: "NAME|FILE",
        help: "The modelled network between the clients and the server of a file system 'nfs:SPEC' or \
               'smb:SPEC': a name from `fsdyno list networks`, or a file (FILE.toml); may be repeated, or several \
               separated by commas",
        default: fsdyno_network::DEFAULT,
        many: true,
        list: true,
        joined: true,
        unsupported_reason: "; networks are modelled in the lab only",
        crash: Crash::Unsupported("it cuts the power of one machine, and the clients keep running"),
        set: |request, text| {
            request.networks.push(network(text)?);
            Ok(())
        },
        value: |plan| match plan.lab().and_then(|lab| lab.network.as_ref()) {
            None => Value::Absent,
            Some(network) => default_or(&network.name, network.name == fsdyno_network::DEFAULT),
        },
        labels: &[label(|s| Some(format!("network {}", s.plan.lab()?.network.as_ref()?.name)))],
        setting: true,
        ..ROW
    },
    Axis {
        key: "issuer",
        value_name: "HOW",
        help: "The way operations are issued: 'sync' (one system call at a time), 'io_uring:DEPTH' (each \
               thread keeps DEPTH operations in flight; not in the lab), or 'null' (no operations are issued: measures \
               the instrument overhead)",
        default: "sync",
        targets: ALL_TARGETS,
        crash: Crash::Unsupported("it logs operations of --issuer sync only"),
        set: |request, text| {
            request.issuer = parse(text)?;
            Ok(())
        },
        value: |plan| default_or(plan.issuer, plan.issuer == IssuerPlan::Sync),
        labels: &[label(|s| Some(s.plan.issuer.to_string()))],
        setting: true,
        ..ROW
    },
    Axis {
        key: "verify",
        value_name: "VERIFY",
        help: "The scope of verification: what is read back from the file system and compared",
        default: "full",
        names: || VerifyMode::ALL.iter().map(|(name, about, _)| (*name, *about)).collect(),
        targets: ALL_TARGETS,
        crash: Crash::Unsupported("it compares each recovered tree in full"),
        set: |request, text| {
            request.verify = parse_name(VerifyMode::ALL, text)?;
            Ok(())
        },
        value: |plan| default_or(plan.verify.name(), plan.verify == VerifyMode::Full),
        labels: &[label(|s| Some(format!("verify {}", s.plan.verify.name())))],
        setting: true,
        ..ROW
    },
    Axis {
        key: "age",
        value_name: "none|SPEC",
        help: "Age the new file system before the first phase: 'none', or 'fill=80%', followed by any of churn=N \
               (replace the whole file population N times), files=SIZES (such as 4K-1M, mix, lognormal:64K:1.5) and \
               seed=N, separated by commas; may be repeated",
        default: "none",
        many: true,
        joined: true,
        targets: &[Lab, Ephemeral, Drive],
        unsupported_reason: "; only newly created file systems are aged",
        crash: Crash::Unsupported("it does not compare files that aging created"),
        set: |request, text| {
            request.ages.push(match text {
                "none" => None,
                _ => Some(parse(text).map_err(|error| format!("{error}, or 'none'"))?),
            });
            Ok(())
        },
        value: |plan| Value::or_default(plan.age()),
        labels: &[
            label(|s| {
                s.plan.filesystem.as_ref()?;
                let aged = |age: &AgePlan| format!("aged {}% churn {}", age.fill, age.churn);
                Some(s.plan.age().map_or("fresh".into(), aged))
            }),
            label(|s| Some(format!("aged with files {}", s.plan.age()?.files))),
            label(|s| {
                Some(match s.plan.age()?.seed {
                    Some(seed) => format!("aged by seed {seed}"),
                    None => "aged by the trial's seed".to_string(),
                })
            }),
        ],
        ..ROW
    },
];

#[cfg(test)]
mod tests;
