//! A guest: kernel, initramfs and QEMU, with its identity and its snapshots.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::CpuPlan;

use crate::cache::Cache;
use crate::error::RunError;
use crate::finished::{Cut, Finished, Watch};
use crate::identity::{self, Components};
use crate::image::{self, ImageResult};
use crate::machine::Machine;
use crate::modules::Module;
use crate::probe::HashedFile;
use crate::profile::Code;
use crate::run::{self, StageCallback};
use crate::snapshot::{self, Snapshot};
use crate::vmlinux::Bootable;

/// A guest that is ready to run any number of times.
#[derive(Debug)]
pub struct Guest {
    pub(crate) qemu: PathBuf,
    pub(crate) bootable: Arc<Bootable>,
    pub(crate) initramfs: File,
    /// The files that runs open by name, with their state when they were hashed.
    pub(crate) files: Vec<HashedFile>,
    /// The snapshots used so far, by key.
    pub(crate) snapshots: Mutex<BTreeMap<String, Arc<Snapshot>>>,
    pub(crate) cpu: CpuPlan,
    pub(crate) extra_parameters: String,
    pub(crate) components: Components,
    pub(crate) lab_id: String,
    pub(crate) modules: Vec<Module>,
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
        static BOOTED: AtomicUsize = AtomicUsize::new(0);
        let key = identity::of_snapshot(&self.components, machine);
        let used = || self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = used().get(&key) {
            return Ok(Arc::clone(snapshot));
        }
        let watch = RefCell::new(watch);
        let mut go_on = || watch.borrow_mut()(&NOTHING_YET) == Watch::GoOn;
        let snapshot = snapshot::get(&snapshot::file_cache(cache), &key, &mut go_on, |file| {
            // Guests differ in the components that their file systems need, so a command may need several snapshots.
            match BOOTED.fetch_add(1, Ordering::Relaxed) {
                0 => say("booting a guest once to save a snapshot (--boot snapshot)"),
                1 => say("booting one more guest for each further kind that the rows need"),
                _ => {}
            }
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
pub(crate) const NOTHING_YET: Progress = Progress {
    stage: Stage::Starting,
    phase: 0,
    phases: 0,
    ops_done: 0,
    ops_total: 0,
    now: Nanos(0),
    requests: 0,
};
