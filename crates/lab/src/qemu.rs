//! The machine: the command lines of QEMU and of the kernel, with a reason for each argument.
//!
//! Everything here affects results, so it is fixed, and its parts are components of the lab identity.
//! Only RAM and disks differ between trials; those belong to the plan.

use std::os::fd::RawFd;

use fsdyno_record::guest::{DISK_SLOT, INIT_ARGUMENTS, INPUT_SLOT, LOG_SLOT, MAILBOX_SLOT};
use fsdyno_record::mailbox;
use fsdyno_record::plan::{AccelPlan, CpuPlan};

use crate::machine::{Attach, DiskRegion, Machine, StartMode};

/// The machine's QEMU arguments that are part of the identity: component, option, value.
///
/// - `accel`, `icount`: one guest instruction is 1 ns (more on a slower CPU, see [`clock`]), one vCPU,
///   idle time jumps to the next timer.
/// - `-M pc-q35-7.1`: later machine types pass Linux a random seed. It has no controller that the guest would
///   probe, and it has an hpet, since the kernel does not use the APIC timer (see [`KERNEL_PARAMETERS`]).
/// - `-cpu`: a named model, so that a different QEMU version adds no features; it has neither rdrand nor
///   rdseed (random), nor erms and fsrm (`rep movsb` counts as one instruction per byte).
/// - `-rtc`: the same date in every trial.
/// - `pvpanic`: stops a booted guest at the point where it can be saved ([`StartMode`]); a guest that is not saved
///   has it too, so that both execute the same instructions.
pub const MACHINE_ARGUMENTS: &[(&str, &str, &str)] = &[
    ("accelerator", "-accel", "tcg,thread=single"),
    ("machine", "-M", "pc-q35-7.1,sata=off,usb=off,smbus=off,vmport=off,smm=off,i8042=off,hpet=on"),
    ("cpu", "-cpu", "Nehalem-v1"),
    ("rtc", "-rtc", "base=2020-01-01,clock=vm"),
    ("stop", "-device", "pvpanic"),
];

/// Returns QEMU's instruction clock for a CPU, which is also part of the identity: an instruction takes
/// 2^shift ns. It cannot take less time than 1 ns; see [`clock_parameter`].
pub fn clock(cpu: &CpuPlan) -> String {
    format!("shift={},sleep=off", cpu.shift())
}

/// Returns the parameter for a kernel whose clock runs at a speed different from QEMU's; `None` for other kernels.
///
/// The guest's own clock is slowed down: QEMU's time stamp counter advances by one per instruction, and the
/// kernel assumes k per nanosecond. Clocks, timers, delays and CPU accounting of Linux all use that counter.
/// The hpet that wakes the kernel still counts QEMU's time: it fires too early by a factor of k, and is set
/// again for the remainder. With a processor profile, the hpet is slowed down as well ([`crate::processor`]).
fn clock_parameter(cpu: &CpuPlan) -> Option<String> {
    cpu.instructions_per_us_of_own_clock().map(|per_us| format!("tsc_early_khz={}", per_us * 1000))
}

/// The oldest suitable machine type, without options; QEMU must support it.
pub const MACHINE_TYPE: &str = "pc-q35-7.1";

/// The arguments of the kernel's command line, with the reason for each.
pub const KERNEL_PARAMETERS: &[(&str, &str)] = &[
    ("console=ttyS0", "for panics; the trial itself writes nothing there"),
    ("loglevel=1", "a console line costs 7 ms of guest time at 115200 baud"),
    ("panic=-1", "a panic reboots at once, and a reboot ends QEMU"),
    ("oops=panic", "results from a damaged kernel are meaningless"),
    ("norandmaps", "the same addresses in every process of every trial"),
    ("mitigations=off", "instruction counts nearer to those of a modern CPU"),
    ("init_on_alloc=0", "clearing pages makes a create 2 % slower, and a stat even more"),
    ("hardened_usercopy=off", "as above"),
    ("lsm=", "no security module between a workload and its file system"),
    ("audit=0", "as above"),
    ("cgroup_disable=memory", "as above: no accounting of pages to groups"),
    (
        "noapictimer",
        "calibrating it spins for 0.1 virtual seconds, 3 host seconds; the hpet is used instead",
    ),
    ("tsc=reliable", "the clock of the guest is exact; no watchdog needs to check it"),
    ("no_timer_check", "the timer is known to work; skips the loop that tests it"),
    ("cryptomgr.notests", "self-tests of ciphers take 0.7 virtual seconds of boot"),
    ("initcall_blacklist=load_system_certificate_list", "unused keys, 0.13 s of boot"),
];

/// Returns the kernel's whole command line, including `extra` parameters (none if empty) and the arguments of PID 1.
pub fn kernel_command_line(cpu: &CpuPlan, extra: &str) -> String {
    let fixed = KERNEL_PARAMETERS.iter().map(|(word, _)| word.to_string());
    let extra = (!extra.is_empty()).then(|| extra.to_string());
    let parameters: Vec<String> = fixed.chain(clock_parameter(cpu)).chain(extra).collect();
    format!("{} -- {}", parameters.join(" "), INIT_ARGUMENTS.join(" "))
}

/// Open files that QEMU inherits, as /proc/self/fd/N.
#[derive(Debug)]
pub struct Inherited {
    /// The kernel.
    pub kernel: RawFd,
    /// The mailbox's memory.
    pub mailbox: RawFd,
    /// The output of the serial console.
    pub console: RawFd,
    /// The initramfs.
    pub initramfs: RawFd,
    /// A socket for QEMU's control protocol, if the machine is saved or restored.
    pub control: Option<RawFd>,
    /// The workload's input, and its size in bytes.
    pub input: Option<(RawFd, u64)>,
    /// One file for each of the machine's disks.
    pub disks: Vec<RawFd>,
    /// The log of the requests to the disks, and its size in bytes.
    pub log: Option<(RawFd, u64)>,
}

/// Returns QEMU's arguments.
pub fn arguments(
    cpu: &CpuPlan,
    extra_parameters: &str,
    machine: &Machine,
    start_mode: StartMode,
    files: &Inherited,
) -> Vec<String> {
    let mut out = Arguments(Vec::new());
    machine_arguments(&mut out, cpu, machine);
    let stop = if start_mode == StartMode::Save { "pause" } else { "none" };
    out.add("-action", format!("panic={stop}"));
    if let Some(socket) = files.control {
        out.add("-chardev", format!("socket,id=control,fd={socket}"));
        out.add("-mon", "chardev=control,mode=control".into());
    }
    if start_mode == StartMode::Restore {
        out.add("-incoming", "defer".into());
    }
    out.add("-display", "none".into());
    out.add("-monitor", "none".into());
    out.add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny".into());
    out.add("-chardev", format!("file,id=console,path={}", path(files.console)));
    out.add("-serial", "chardev:console".into());
    shared_memory(&mut out, machine, files);
    out.add("-kernel", path(files.kernel));
    out.add("-initrd", path(files.initramfs));
    let command_line = kernel_command_line(cpu, extra_parameters);
    out.add(
        "-append",
        match machine.accel {
            AccelPlan::Tcg => command_line,
            // KVM implements the APIC's timer.
            AccelPlan::Kvm => command_line.replace("noapictimer ", ""),
        },
    );
    let mut out = out.0;
    out.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(String::from));
    out
}

/// QEMU's arguments: pairs of an option and its value.
struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, key: &str, value: String) {
        self.0.extend([key.to_string(), value]);
    }
}

/// Adds the machine, its clock and its RAM.
fn machine_arguments(out: &mut Arguments, cpu: &CpuPlan, machine: &Machine) {
    let pmem: u64 = pmem_disks(machine).map(DiskRegion::size).sum();
    for (component, key, value) in MACHINE_ARGUMENTS {
        let nvdimm = if *component == "machine" && pmem > 0 { ",nvdimm=on" } else { "" };
        let value = match (machine.accel, *component) {
            (AccelPlan::Kvm, "accelerator") => "kvm",
            _ => value,
        };
        out.add(key, format!("{value}{nvdimm}"));
    }
    if machine.accel.is_exact() {
        out.add("-icount", clock(cpu));
    }
    let slots = pmem_disks(machine).count();
    let slot_settings = match pmem {
        0 => String::new(),
        // Address space between the RAM and the first slot, 1 GiB per slot, for alignment.
        _ => format!(",slots={slots},maxmem={}B", machine.ram.0 + pmem + ((slots as u64) << 30)),
    };
    out.add("-m", format!("size={}B{slot_settings}", machine.ram.0));
}

/// Adds the memory that the guest sees as devices: mailbox, disks, log and input.
fn shared_memory(out: &mut Arguments, machine: &Machine, files: &Inherited) {
    out.add("-object", memory("mailbox", files.mailbox, mailbox::SIZE as u64));
    out.add("-device", shared("mailbox", MAILBOX_SLOT.into()));
    for (index, (disk, file)) in machine.disks.iter().zip(&files.disks).enumerate() {
        let name = format!("disk{index}");
        out.add("-object", memory(&name, *file, disk.size()));
        match disk.attach {
            Attach::Nbd => {
                let slot = usize::from(DISK_SLOT) + index;
                out.add("-device", shared(&name, slot));
            }
            Attach::Pmem => out.add("-device", format!("nvdimm,id=nv{index},memdev={name}")),
        }
    }
    if let Some((file, size)) = files.log {
        out.add("-object", memory("log", file, size));
        out.add("-device", shared("log", LOG_SLOT.into()));
    }
    if let Some((file, size)) = files.input {
        let backend = memory("input", file, size);
        out.add("-object", format!("{backend},readonly=on"));
        out.add("-device", shared("input", INPUT_SLOT.into()));
    }
}

fn pmem_disks(machine: &Machine) -> impl Iterator<Item = &DiskRegion> {
    machine.disks.iter().filter(|disk| disk.attach == Attach::Pmem)
}

fn memory(name: &str, file: RawFd, size: u64) -> String {
    format!("memory-backend-file,id={name},mem-path={},size={size}B,share=on", path(file))
}

/// Returns the argument for a region of shared memory in a PCI slot. With `master=on`, QEMU can save the
/// machine; the memory itself is not saved.
fn shared(name: &str, slot: usize) -> String {
    format!("ivshmem-plain,memdev={name},addr={slot:#x},master=on")
}

/// Returns the path by which a child process can open an inherited file.
pub fn path(file: RawFd) -> String {
    format!("/proc/self/fd/{file}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fsdyno_record::Bytes;

    use super::*;

    fn machine(disks: Vec<DiskRegion>) -> Machine {
        Machine {
            ram: Bytes(512 << 20),
            accel: AccelPlan::Tcg,
            disks,
            image: None,
            input: None,
            log: None,
            workdir: "/tmp".into(),
            stall: Duration::from_secs(60),
            deadline: Duration::from_secs(600),
        }
    }

    /// Returns open files of a guest with only its disks.
    fn files() -> Inherited {
        Inherited {
            kernel: 8,
            mailbox: 3,
            console: 4,
            initramfs: 5,
            control: None,
            input: None,
            disks: vec![6, 7],
            log: None,
        }
    }

    fn line_with(files: &Inherited, start_mode: StartMode, disks: Vec<DiskRegion>) -> String {
        arguments(&CpuPlan::default(), "", &machine(disks), start_mode, files).join(" ")
    }

    fn line(disks: Vec<DiskRegion>) -> String {
        line_with(&files(), StartMode::GoOn, disks)
    }

    #[test]
    fn kvm_has_its_own_timer_and_no_instruction_count() {
        let machine = Machine { accel: AccelPlan::Kvm, ..machine(one_disk()) };
        let cpu = CpuPlan::default();
        let line = arguments(&cpu, "", &machine, StartMode::GoOn, &files()).join(" ");
        assert!(line.contains("-accel kvm ") && line.contains("-cpu Nehalem-v1 "), "{line}");
        assert!(!line.contains("icount") && !line.contains("noapictimer"), "{line}");
    }

    fn one_disk() -> Vec<DiskRegion> {
        vec![DiskRegion { region: Bytes(1 << 30), attach: Attach::Nbd }]
    }

    #[test]
    fn an_input_is_a_separate_read_only_region() {
        let files = Inherited { input: Some((9, 1 << 20)), ..files() };
        let with = line_with(&files, StartMode::GoOn, one_disk());
        let added = " -object memory-backend-file,id=input,mem-path=/proc/self/fd/9,\
                     size=1048576B,share=on,readonly=on -device ivshmem-plain,memdev=input,addr=0xf,\
                     master=on";
        assert_eq!(with.replacen(added, "", 1), line(one_disk()));
        assert!(with.contains(added), "{with}");
    }

    #[test]
    fn the_log_is_a_separate_region() {
        let files = Inherited { log: Some((9, 1 << 20)), ..files() };
        let with = line_with(&files, StartMode::GoOn, one_disk());
        let added = " -object memory-backend-file,id=log,mem-path=/proc/self/fd/9,\
                     size=1048576B,share=on -device ivshmem-plain,memdev=log,addr=0xe,\
                     master=on";
        assert_eq!(with.replacen(added, "", 1), line(one_disk()));
        assert!(with.contains(added), "{with}");
    }

    #[test]
    fn the_whole_command_line_of_a_guest_with_one_disk() {
        let disk = DiskRegion { region: Bytes(5 << 30), attach: Attach::Nbd };
        let expected = "-accel tcg,thread=single \
            -M pc-q35-7.1,sata=off,usb=off,smbus=off,vmport=off,smm=off,i8042=off,hpet=on \
            -cpu Nehalem-v1 -rtc base=2020-01-01,clock=vm -device pvpanic -icount shift=0,sleep=off \
            -m size=536870912B -action panic=none -display none \
            -monitor none -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny \
            -chardev file,id=console,path=/proc/self/fd/4 -serial chardev:console \
            -object memory-backend-file,id=mailbox,mem-path=/proc/self/fd/3,size=16777216B,share=on \
            -device ivshmem-plain,memdev=mailbox,addr=0x10,master=on \
            -object memory-backend-file,id=disk0,mem-path=/proc/self/fd/6,size=8589934592B,share=on \
            -device ivshmem-plain,memdev=disk0,addr=0x11,master=on \
            -kernel /proc/self/fd/8 -initrd /proc/self/fd/5 -append console=ttyS0 loglevel=1 panic=-1 \
            oops=panic norandmaps mitigations=off init_on_alloc=0 hardened_usercopy=off lsm= audit=0 \
            cgroup_disable=memory noapictimer tsc=reliable no_timer_check cryptomgr.notests \
            initcall_blacklist=load_system_certificate_list -- --guest \
            -nodefaults -no-user-config -no-reboot";
        assert_eq!(line(vec![disk]), expected);
    }

    #[test]
    fn a_slower_cpu_changes_the_clock_and_a_faster_one_the_kernel_parameters() {
        let cpu = |text: &str| text.parse::<CpuPlan>().unwrap();
        let clocks = ["1/64", "1/2", "1", "4"].map(|text| clock(&cpu(text)));
        assert_eq!(
            clocks.map(|clock| clock.replace(",sleep=off", "")),
            ["shift=6", "shift=1", "shift=0", "shift=0"]
        );
        let line = kernel_command_line(&cpu("4"), "");
        assert!(line.contains(" tsc_early_khz=4000000 -- --guest"), "{line}");
        assert_eq!(kernel_command_line(&cpu("1/2"), ""), kernel_command_line(&cpu("1"), ""));
        assert!(!kernel_command_line(&cpu("1"), "").contains("tsc_early_khz"));
        assert!(kernel_command_line(&cpu("1"), "x=1").contains(" x=1 -- --guest"));
    }

    #[test]
    fn a_machine_that_is_saved_or_restored_is_the_same_machine() {
        let line = |start_mode, control| {
            line_with(&Inherited { control, ..files() }, start_mode, one_disk())
        };
        let control = " -chardev socket,id=control,fd=9 -mon chardev=control,mode=control";
        let (cold, saved) = (line(StartMode::GoOn, None), line(StartMode::Save, Some(9)));
        assert!(saved.contains(control), "{saved}");
        assert_eq!(saved.replace(control, "").replace("panic=pause", "panic=none"), cold);
        let restored = line(StartMode::Restore, Some(9));
        let incoming = format!("{control} -incoming defer");
        assert!(restored.contains(&incoming), "{restored}");
        assert_eq!(restored.replace(&incoming, ""), cold);
    }

    #[test]
    fn an_nvdimm_gets_a_slot_and_address_space_and_no_pci_address() {
        let line = line(vec![DiskRegion { region: Bytes(1 << 30), attach: Attach::Pmem }]);
        assert!(line.contains("hpet=on,nvdimm=on"), "{line}");
        assert!(line.contains("-m size=536870912B,slots=1,maxmem=2684354560B"), "{line}");
        assert!(line.contains("-device nvdimm,id=nv0,memdev=disk0"), "{line}");
        assert!(!line.contains("addr=0x11"), "{line}");
    }

    #[test]
    fn regions_are_powers_of_two() {
        let size = |region, attach| DiskRegion { region: Bytes(region), attach }.size();
        assert_eq!(size(5 << 30, Attach::Nbd), 8 << 30);
        assert_eq!(size(0, Attach::Nbd), 4096);
        assert_eq!(size(u64::MAX, Attach::Nbd), 1 << 63);
        assert_eq!(size(5 << 30, Attach::Pmem), 5 << 30);
        assert_eq!(size((5 << 30) + 1, Attach::Pmem), (5 << 30) + (2 << 20));
    }
}
