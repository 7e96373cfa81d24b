//! Runs a real kernel in QEMU in virtual time: kernel, modules, initramfs, QEMU, the lab identity.
//!
//! [`Lab::find`] finds a QEMU, and finds or downloads a kernel; [`Lab::prepare`] packs the agent, tools and modules
//! into a [`Guest`] and computes its identity; [`Guest::run`] runs one job in it. Several threads may run the same
//! [`Guest`] at the same time. A run uses only nameless files, and QEMU dies with the thread that waits for it, so
//! nothing is left behind however a run ends.

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
mod guest;
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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fsdyno_record::bounded::{self, PARTS};
use fsdyno_record::guest::MODULE_LIST;
use fsdyno_record::plan::{CpuPlan, KernelPlan};

pub use cache::Cache;
pub use caches::{caches, clear_caches};
pub use change::Change;
pub use download::download as download_tools;
pub use error::{LabError, RunError};
pub use file_cache::{CacheUse, FileCache};
pub use finished::{Cut, Finished, Watch};
pub use guest::Guest;
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
pub use series::{Series, SeriesRange};
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
