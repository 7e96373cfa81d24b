//! Runs a real kernel in QEMU in virtual time: kernel, modules, initramfs, QEMU, the lab identity.
//!
//! [`Lab::find`] finds a QEMU, and finds or downloads a kernel; [`Lab::prepare`] packs the agent, tools and modules
//! into a [`Guest`] and computes its identity; [`Guest::run`] runs one job in it. A guest may run in several threads at
//! the same time. A run uses only nameless files, and QEMU dies with the thread that waits for it, so nothing is left
//! behind however a run ends.

mod apt;
mod archive;
pub mod build;
mod cache;
mod caches;
mod change;
pub mod config;
mod digest;
mod download;
mod elf;
mod error;
mod fetch;
mod file_cache;
mod finished;
mod guard;
mod identity;
mod image;
mod initramfs;
mod kernel;
mod kernel_root;
mod kvm;
mod lists;
mod machine;
mod modules;
mod packages;
mod payload;
mod probe;
mod processor;
mod profile;
mod program;
mod qemu;
mod qmp;
mod release;
mod run;
mod series;
mod snapshot;
mod tool_set;
mod tools;
mod vmlinux;
mod vmstate;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsdyno_record::Nanos;
use fsdyno_record::bounded::{self, PARTS};
use fsdyno_record::guest::MODULE_LIST;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::{CpuPlan, KernelPlan};

pub use cache::Cache;
pub use caches::{caches, clear_caches};
pub use change::Change;
pub use download::download as download_tools;
pub use error::{LabError, RunError};
pub use file_cache::{CacheUse, FileCache};
pub use finished::{Cut, Finished, Watch};
pub use identity::lab_id;
pub use image::{Image, ImageResult};
pub use kernel::{
    Available as AvailableKernel, Kernel, available as kernels_available, default_kernel,
    expand as expand_kernels, expected_kernel_release, local_kernels,
};
pub use machine::{Attach, DiskRegion, Machine};
pub use modules::{Module, Modules};
pub use probe::{Qemu, probe_qemu};
pub use profile::{Code, Counts, Node, PausedStage};
pub use program::{program_bytes, section};
pub use qemu::{KERNEL_PARAMETERS, MACHINE_TYPE};
pub use run::StageCallback;
pub use series::Series;
pub use snapshot::Snapshot;
pub use tool_set::can_download as can_download_tools;
pub use tools::find as find_program;

use identity::Components;
use initramfs::Archive;
use probe::HashedFile;
use vmlinux::Bootable;

/// The options of a lab.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// A release (`6.1.0-56-amd64`), the beginning of one (`6.1`), an image, or `IMAGE:MODULES`;
    /// see `kernel.rs`.
    pub kernel: Option<String>,
    /// A QEMU to use instead of the one in PATH.
    pub qemu: Option<PathBuf>,
    /// The cache of kernels.
    pub cache: Cache,
    /// True if downloads are forbidden.
    pub offline: bool,
}

/// A kernel and a QEMU that can run it.
#[derive(Debug)]
pub struct Lab {
    qemu: Qemu,
    kernel: Kernel,
    /// The request that distinguishes the kernel from other builds of its release, if any.
    request: Option<String>,
    modules: Modules,
    bootable: Arc<Bootable>,
}

/// The parts of a guest.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The agent's file, which becomes /init.
    pub agent: PathBuf,
    /// Programs such as `mke2fs`, from PATH or the sbin folders, with their libraries.
    pub tools: Vec<String>,
    /// Programs that run on the host but affect the result: the check of a file system. They are looked up on the host
    /// and are part of the identity.
    pub host_tools: Vec<String>,
    /// Kernel modules; their dependencies are added. `nbd nbds_max=1` sets a module parameter.
    pub modules: Vec<String>,
    /// Additional files: path in the guest, contents.
    pub files: Vec<(String, Vec<u8>)>,
    /// The guest's CPU.
    pub cpu: CpuPlan,
    /// Additional parameters on the kernel's command line; see [`Change`].
    pub extra_parameters: String,
}

/// A guest that is ready to run any number of times.
#[derive(Debug)]
pub struct Guest {
    qemu: PathBuf,
    bootable: Arc<Bootable>,
    initramfs: File,
    /// The files that runs open by name, with their state when they were hashed.
    files: Vec<HashedFile>,
    /// The snapshots used so far, by key.
    snapshots: Mutex<BTreeMap<String, Arc<Snapshot>>>,
    cpu: CpuPlan,
    extra_parameters: String,
    components: Components,
    lab_id: String,
    modules: Vec<Module>,
}

impl Lab {
    /// Finds QEMU and the requested kernel, and downloads the kernel if necessary. `say` receives progress
    /// messages.
    ///
    /// # Errors
    /// [`LabError`], with a hint for what is missing.
    pub fn find(options: &LabOptions, say: &dyn Fn(&str)) -> Result<Lab, LabError> {
        let qemu = probe_qemu(options.qemu.as_deref())?;
        let kernel = kernel::find(options.kernel.as_deref(), &options.cache, options.offline, say)?;
        let modules = Modules::of(&kernel)?;
        let bootable = Arc::new(vmlinux::of(&kernel, &options.cache)?);
        Ok(Lab { qemu, kernel, request: None, modules, bootable })
    }

    /// Returns the kernel's release, as in `uname -r`.
    pub fn kernel_release(&self) -> &str {
        &self.kernel.release
    }

    /// Reports whether another lab has the same kernel: the same image and modules.
    pub fn has_kernel_of(&self, other: &Lab) -> bool {
        (&self.kernel.image, &self.kernel.modules) == (&other.kernel.image, &other.kernel.modules)
    }

    /// Returns the kernel as plans name it.
    pub fn kernel_plan(&self) -> KernelPlan {
        KernelPlan { release: self.kernel.release.clone(), request: self.request.clone() }
    }

    /// Sets the request that, in plans, distinguishes this kernel from other builds of its release.
    pub fn requested_as(self, request: Option<String>) -> Lab {
        Lab { request, ..self }
    }

    /// Checks, with a probe of a few seconds, that the lab's guests can run on this host's own CPU.
    ///
    /// # Errors
    /// [`LabError::NoKvm`].
    pub fn probe_kvm(&self) -> Result<(), LabError> {
        kvm::probe(&self.qemu.path, &self.bootable.file).map_err(LabError::NoKvm)
    }

    /// Returns the kernel's files.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the lab's QEMU.
    pub fn qemu(&self) -> &Qemu {
        &self.qemu
    }

    /// Reports whether the kernel has a module, loadable or built in.
    pub fn has_module(&self, name: &str) -> bool {
        self.modules.has(name)
    }

    /// Packs the parts of a guest and computes its identity.
    ///
    /// # Errors
    /// [`LabError`] for a missing tool, library or module.
    pub fn prepare(&self, parts: &Parts) -> Result<Guest, LabError> {
        let (release, kernel_sha256) = (&self.kernel.release, &self.bootable.sha256);
        let extra = &parts.extra_parameters;
        let mut components =
            identity::of_machine(&self.qemu, release, kernel_sha256, &parts.cpu, extra);
        if let Some(origin) = build::origin(&self.kernel.modules) {
            components.insert("kernel build".into(), origin);
        }
        let mut archive = Archive::new();
        let mut add = |kind: &str, path: &str, contents: Vec<u8>| {
            identity::add_file(&mut components, kind.to_string(), &contents);
            archive.file(path, contents);
        };
        add("agent", "/init", read(&parts.agent)?);
        let mut libraries = tools::Files::new();
        let found = parts.tools.iter().map(|tool| tools::find(tool));
        let found: Vec<PathBuf> = found.collect::<Result<_, _>>()?;
        // All programs of a guest share one loader and one C library.
        let root = found.iter().find_map(|program| Some(tool_set::downloaded(program)?.root));
        tools::add_libraries(&parts.agent, root.as_deref(), &mut libraries)?;
        for (tool, program) in parts.tools.iter().zip(found) {
            let program = tool_set::downloaded(&program).map_or(program, |it| it.program);
            tools::add_libraries(&program, root.as_deref(), &mut libraries)?;
            add(&format!("tool {tool}"), &tools::in_guest(tool), read(&program)?);
        }
        for (path, file) in &libraries {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            add(&format!("library {name}"), path, read(file)?);
        }
        let modules = self.modules_into(parts, &mut add)?;
        for (path, contents) in &parts.files {
            add(&format!("file {path}"), path, contents.clone());
        }
        let builds = modules.iter().filter_map(|module| self.modules.build_of(&module.name));
        components.extend(builds.map(|(name, origin)| (format!("module build {name}"), origin)));
        let mut files = self.qemu.files.clone();
        for tool in &parts.host_tools {
            let (file, contents) = HashedFile::read(&tools::find(tool)?)?;
            identity::add_file(&mut components, format!("host tool {tool}"), &contents);
            files.push(file);
        }
        self.seal(&archive, components, parts, (modules, files))
    }

    /// Adds the modules with their dependencies, and the list of modules that the agent loads.
    fn modules_into(
        &self,
        parts: &Parts,
        add: &mut impl FnMut(&str, &str, Vec<u8>),
    ) -> Result<Vec<Module>, LabError> {
        let (names, parameters) = split_parameters(&parts.modules);
        let mut list = String::new();
        let modules = self.modules.resolve(&names)?;
        for module in &modules {
            let path = format!("/lab/ko/{}.ko", module.name);
            let text = parameters.get(&module.name).map(|text| format!(" {text}"));
            list.push_str(&format!("{path}{}\n", text.unwrap_or_default()));
            add(&format!("module {}", module.name), &path, module.contents.clone());
        }
        add("modules", MODULE_LIST, list.into_bytes());
        Ok(modules)
    }

    fn seal(
        &self,
        archive: &Archive,
        mut components: Components,
        parts: &Parts,
        (modules, files): (Vec<Module>, Vec<HashedFile>),
    ) -> Result<Guest, LabError> {
        let bytes = archive.bytes();
        identity::add_file(&mut components, "initramfs".into(), &bytes);
        let memory = Path::new("memory for the initramfs");
        let initramfs = fsdyno_child::sealed_file(c"fsdyno-initramfs", &bytes)
            .map_err(LabError::io("create", memory))?;
        Ok(Guest {
            qemu: self.qemu.path.clone(),
            bootable: Arc::clone(&self.bootable),
            initramfs,
            files,
            snapshots: Mutex::default(),
            cpu: parts.cpu.clone(),
            extra_parameters: parts.extra_parameters.clone(),
            lab_id: identity::lab_id(&components),
            components,
            modules,
        })
    }
}

impl Guest {
    /// Returns the identity: SHA-256, in hex, of the canonical JSON of [`Guest::components`].
    pub fn lab_id(&self) -> &str {
        &self.lab_id
    }

    /// Returns the components of the identity, by readable names.
    pub fn components(&self) -> &BTreeMap<String, String> {
        &self.components
    }

    /// Runs one job. `watch` is called about a hundred times per second of host time, from the calling thread.
    ///
    /// # Errors
    /// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
    pub fn run(
        &self,
        machine: &Machine,
        job: &[u8],
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Finished, RunError> {
        run::run(self.boot_config(), machine, None, job, watch)
    }

    /// Profiles one job: counts executed instructions by the code of the guest's kernel, and calls `on_begun` at the
    /// start of each stage, while the machine is paused. This is invisible to the guest.
    ///
    /// # Errors
    /// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
    pub fn profile(
        &self,
        machine: &Machine,
        snapshot: Option<&Snapshot>,
        job: &[u8],
        (code, on_begun): (&Code, StageCallback<'_>),
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Finished, RunError> {
        run::profile(self.boot_config(), machine, snapshot, job, Some((code, on_begun)), watch)
    }

    /// Returns the bytes of the kernel image that the guest boots.
    ///
    /// # Errors
    /// The error of read(2).
    pub fn kernel_image(&self) -> io::Result<Vec<u8>> {
        let mut image = vec![0; self.bootable.file.metadata()?.len() as usize];
        self.bootable.file.read_exact_at(&mut image, 0)?;
        Ok(image)
    }

    /// Returns the modules that the guest loads, in load order.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Runs one job and kills QEMU, like a power cut, at the first poll of its progress for which `now` returns
    /// true. Polls follow host time, as in [`Guest::run`].
    ///
    /// # Errors
    /// [`RunError`]; also [`RunError::Died`] if the job ended before the cut.
    pub fn cut(
        &self,
        machine: &Machine,
        job: &[u8],
        now: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Cut, RunError> {
        run::cut(self.boot_config(), machine, job, now)
    }

    /// Returns a snapshot of this guest, booted on this machine and without a job: from `cache`, or a new one, which
    /// takes as long as a boot; `say` then receives a message, and `watch` may stop it. A cached snapshot is read and
    /// hashed once; all runs from it read the same open file.
    ///
    /// # Errors
    /// [`RunError`]; in any case, QEMU has ended.
    pub fn snapshot(
        &self,
        machine: &Machine,
        cache: &Cache,
        say: &dyn Fn(&str),
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Arc<Snapshot>, RunError> {
        static SAID: AtomicBool = AtomicBool::new(false);
        let key = identity::of_snapshot(&self.components, machine);
        let used = || self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = used().get(&key) {
            return Ok(Arc::clone(snapshot));
        }
        let watch = RefCell::new(watch);
        let mut go_on = || watch.borrow_mut()(&NOTHING_YET) == Watch::GoOn;
        let snapshot = snapshot::get(&snapshot::file_cache(cache), &key, &mut go_on, |file| {
            // Guests differ in the components that their file systems need, so a command may need several snapshots.
            let is_first = !SAID.swap(true, Ordering::Relaxed);
            let a = if is_first { "a guest" } else { "a further kind of guest" };
            say(&format!("booting {a} once to save a snapshot (--boot snapshot)"));
            run::save(self.boot_config(), machine, file, &mut |progress| {
                watch.borrow_mut()(progress)
            })
        })?;
        Ok(Arc::clone(used().entry(key).or_insert(Arc::new(snapshot))))
    }

    /// Returns the key of the snapshot of this guest on such a machine if `cache` does not contain it, so that
    /// [`Guest::snapshot`] would boot a guest.
    pub fn missing_snapshot(&self, machine: &Machine, cache: &Cache) -> Option<String> {
        let key = identity::of_snapshot(&self.components, machine);
        (!snapshot::file_cache(cache).contains(&key)).then_some(key)
    }

    /// Returns the disks that a job creates ([`fsdyno_record::job::Task::Prepare`]) in this guest on this machine,
    /// either from `cache` or created now by a guest that boots or resumes like the trial's own guest. The job's text
    /// and the guest's identity form their key.
    ///
    /// # Errors
    /// [`RunError`]; in any case, QEMU has ended. A job that fails to make them is not an error: its report contains
    /// the reason.
    pub fn image(
        &self,
        snapshot: Option<&Snapshot>,
        machine: &Machine,
        job: &[u8],
        cache: &Cache,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<ImageResult, RunError> {
        let components = snapshot.map_or(self.components.clone(), |it| self.components_from(it));
        let mut inputs = identity::of_booted(&components, machine);
        identity::add_file(&mut inputs, "job".into(), job);
        let watch = RefCell::new(watch);
        let mut go_on = || watch.borrow_mut()(&NOTHING_YET) == Watch::GoOn;
        let mut run = || {
            run::run(self.boot_config(), machine, snapshot, job, &mut |seen| {
                watch.borrow_mut()(seen)
            })
        };
        image::get(&image::file_cache(cache), &identity::lab_id(&inputs), &mut go_on, &mut run)
    }

    /// Runs one job as [`Guest::run`] does, in a guest that resumes from a snapshot.
    ///
    /// # Errors
    /// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
    pub fn run_from(
        &self,
        snapshot: &Snapshot,
        machine: &Machine,
        job: &[u8],
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Finished, RunError> {
        run::run(self.boot_config(), machine, Some(snapshot), job, watch)
    }

    /// Returns the components of the identity of this guest when it resumes from a snapshot.
    pub fn components_from(&self, snapshot: &Snapshot) -> BTreeMap<String, String> {
        let mut components = self.components.clone();
        components.insert("snapshot".into(), format!("sha256:{}", snapshot.sha256()));
        components
    }

    fn boot_config(&self) -> run::BootConfig<'_> {
        run::BootConfig {
            program: &self.qemu,
            kernel: &self.bootable.file,
            initramfs: &self.initramfs,
            files: &self.files,
            cpu: &self.cpu,
            extra_parameters: &self.extra_parameters,
        }
    }
}

/// The progress of a guest that has not started yet.
const NOTHING_YET: Progress = Progress {
    stage: Stage::Starting,
    phase: 0,
    phases: 0,
    ops_done: 0,
    ops_total: 0,
    now: Nanos(0),
    requests: 0,
};

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    bounded::read(path, &PARTS).map_err(LabError::io("read", path))
}

/// Splits entries such as `nbd nbds_max=1` into the module names, and the parameters by name.
fn split_parameters(modules: &[String]) -> (Vec<String>, BTreeMap<String, String>) {
    let mut names = Vec::new();
    let mut parameters = BTreeMap::new();
    for module in modules {
        let (name, values) = module.split_once(' ').unwrap_or((module, ""));
        names.push(name.to_string());
        if !values.is_empty() {
            parameters.insert(name.replace('-', "_"), values.to_string());
        }
    }
    (names, parameters)
}
