//! The plan of a trial: everything that determines what is measured, except the seed and the lab.
//!
//! Two trials with the same plan hash, seed and lab identity have the same `measured`, byte for byte. The agent needs
//! only a [`crate::Job`]; it reads no catalog and no options.

mod filesystem;
mod flat;
mod medium;
mod network;
mod raid;
mod run;
mod target;
mod venue;
mod workload;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::age::AgePlan;
pub use crate::processor::CpuPlan;
pub use filesystem::{
    BelowPlan, FeatureWord, FilesystemPlan, NFS, OuterJournalPlan, PoolPlan, SHARED, SMB,
};
pub use flat::{FlatDevice, FlatLab, FlatMedium, FlatModel, FlatPlan};
pub use medium::{DiskPlan, EphemeralKind, EphemeralPlan, EphemeralSize, MediumPlan, ModelledPlan};
pub use network::NetworkPlan;
pub use raid::{MD_DATA_OFFSET, RaidPlan};
pub use run::{IssuerPlan, VerifyMode};
pub use target::Target;
pub use venue::{AccelPlan, BootPlan, KernelPlan, LabPlan, RanksPlan, VenuePlan};
pub use workload::{InputPlan, WorkloadPlan};

/// One cell of a study: a workload on a file system on a medium, at a venue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "StoredPlan")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct Plan {
    /// The row's label in tables; the only field other than `hash` that the hash excludes.
    pub label: String,
    /// The workload.
    pub workload: WorkloadPlan,
    /// The file system to create and mount, or null if the medium is an existing directory.
    pub filesystem: Option<FilesystemPlan>,
    /// The medium that holds the file system.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StoredMedium"))]
    pub medium: MediumPlan,
    /// The venue at which its calls are issued.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "absent"))]
    pub venue: VenuePlan,
    /// Number of threads that issue ops, if the workload does not fix it.
    pub threads: u32,
    /// The way to issue ops.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "absent"))]
    pub issuer: IssuerPlan,
    /// The extent of verification.
    pub verify: VerifyMode,
    /// Sysctls set before the first phase, as `vm.dirty_ratio` → `10`.
    pub sysctls: BTreeMap<String, String>,
    /// SHA-256 of the flat form of all fields above but the label, in hex.
    pub hash: String,
}

/// A plan as stored in records: in its own form, or in the flat form of schema 1, which has no venue.
#[derive(Deserialize)]
struct StoredPlan {
    label: String,
    workload: WorkloadPlan,
    filesystem: Option<FilesystemPlan>,
    medium: Value,
    venue: Option<VenuePlan>,
    threads: u32,
    #[serde(default)]
    issuer: IssuerPlan,
    verify: VerifyMode,
    sysctls: BTreeMap<String, String>,
    hash: String,
}

impl TryFrom<StoredPlan> for Plan {
    type Error = String;

    fn try_from(stored: StoredPlan) -> Result<Plan, String> {
        let StoredPlan { label, workload, filesystem, threads, issuer, .. } = stored;
        let StoredPlan { verify, sysctls, hash, .. } = stored;
        let error_in_medium = |error: serde_json::Error| format!("medium: {error}");
        let (medium, venue) = match stored.venue {
            Some(venue) => (serde_json::from_value(stored.medium).map_err(error_in_medium)?, venue),
            None => serde_json::from_value::<FlatMedium>(stored.medium)
                .map_err(error_in_medium)?
                .try_into()?,
        };
        Ok(Plan {
            label,
            workload,
            filesystem,
            medium,
            venue,
            threads,
            issuer,
            verify,
            sysctls,
            hash,
        })
    }
}

impl Plan {
    /// Returns the value of `--fs` that recreates this file system, with its label; `None` for an existing directory.
    pub fn filesystem_request(&self) -> Option<String> {
        let spec = &self.filesystem.as_ref()?.spec;
        Some(if self.label == *spec { spec.clone() } else { format!("{}={spec}", self.label) })
    }

    /// Returns the plan with its hash computed.
    pub fn with_hash(mut self) -> Plan {
        self.hash = self.compute_hash();
        self
    }

    fn compute_hash(&self) -> String {
        match FlatPlan::try_from(self.clone()) {
            Ok(flat) => flat.compute_hash(),
            Err(_) => flat::hash_of(self, &self.workload),
        }
    }

    /// Returns the number of shares into which a phase with a variable number of threads is split: one for each op that
    /// may be in flight.
    pub fn ranks(&self) -> u32 {
        let clients = self.lab().and_then(|lab| lab.clients).unwrap_or(1);
        self.threads.saturating_mul(clients).saturating_mul(self.issuer.depth())
    }

    /// Returns true if this plan runs in the lab.
    pub fn in_lab(&self) -> bool {
        self.lab().is_some()
    }

    /// Returns true if this plan runs in a model of a file system.
    pub fn in_model(&self) -> bool {
        matches!(self.venue, VenuePlan::Model { .. })
    }

    /// Returns the lab part, if this plan runs in the lab.
    pub fn lab(&self) -> Option<&LabPlan> {
        match &self.venue {
            VenuePlan::Lab(lab) => Some(lab),
            VenuePlan::Host | VenuePlan::Model { .. } | VenuePlan::Ranks(_) => None,
        }
    }

    /// Returns the processes that share the trial, if it runs in several.
    pub fn shared_by(&self) -> Option<&RanksPlan> {
        match &self.venue {
            VenuePlan::Ranks(ranks) => Some(ranks),
            _ => None,
        }
    }

    /// Returns true if its calls are issued to the kernel and timed by the clock of real hosts.
    pub fn on_hosts(&self) -> bool {
        matches!(self.venue, VenuePlan::Host | VenuePlan::Ranks(_))
    }

    /// Returns the lab part mutably, if this plan runs in the lab.
    pub fn lab_mut(&mut self) -> Option<&mut LabPlan> {
        match &mut self.venue {
            VenuePlan::Lab(lab) => Some(lab),
            VenuePlan::Host | VenuePlan::Model { .. } | VenuePlan::Ranks(_) => None,
        }
    }

    /// Returns the value of `--on` that selects the same medium and venue.
    pub fn target(&self) -> Target {
        match (&self.venue, &self.medium) {
            (VenuePlan::Lab(_), _) => Target::Lab,
            (VenuePlan::Model { .. }, _) => Target::Model,
            (
                VenuePlan::Host | VenuePlan::Ranks(_),
                MediumPlan::Directory { path } | MediumPlan::Drive { path },
            ) => Target::Path(path.clone()),
            (VenuePlan::Host | VenuePlan::Ranks(_), medium) => match medium.ephemeral() {
                Some((ephemeral, _)) => Target::Ephemeral(ephemeral),
                None => Target::Lab,
            },
        }
    }

    /// Returns the ageing of its file system before the phases, if any.
    pub fn age(&self) -> Option<&AgePlan> {
        self.filesystem.as_ref()?.age.as_ref()
    }

    /// Returns the name of the disk in tables, if a modelled disk or memory is below the file system.
    pub fn disk_name(&self) -> Option<&str> {
        match &self.medium {
            MediumPlan::Modelled(modelled) => Some(&modelled.disk.name),
            MediumPlan::Memory { .. } => Some("memory"),
            MediumPlan::Directory { .. }
            | MediumPlan::Loop(_)
            | MediumPlan::Ram(_)
            | MediumPlan::Drive { .. } => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::units::Bytes;

    pub fn plan() -> Plan {
        Plan {
            label: "ext4".into(),
            workload: WorkloadPlan {
                name: "dirops".into(),
                params: [("files".to_string(), "10000".to_string())].into(),
                input: None,
            },
            filesystem: None,
            medium: MediumPlan::Directory { path: "/tmp".into() },
            venue: VenuePlan::Host,
            threads: 1,
            issuer: IssuerPlan::Sync,
            verify: VerifyMode::Full,
            sysctls: BTreeMap::new(),
            hash: String::new(),
        }
        .with_hash()
    }

    #[test]
    fn the_hash_excludes_only_the_label() {
        let base = plan();
        let renamed = Plan { label: "other".into(), ..base.clone() }.with_hash();
        let threaded = Plan { threads: 2, ..base.clone() }.with_hash();
        assert_eq!(base.hash, renamed.hash);
        assert_ne!(base.hash, threaded.hash);
    }

    #[test]
    fn the_hash_covers_the_parts_of_a_machine_and_not_its_name() {
        let disk = DiskPlan { name: "hdd".into(), spec: "disk".into() };
        let lab = |machine: Option<&str>, ram: u64| {
            let machine = machine.map(String::from);
            let lab = LabPlan { machine, ..LabPlan::new("6.1", Bytes(ram)) };
            let medium = MediumPlan::Modelled(disk.clone().into());
            Plan { medium, venue: VenuePlan::Lab(lab), ..plan() }.with_hash()
        };
        let named = lab(Some("server"), 1 << 30);
        assert_eq!(named.hash, lab(None, 1 << 30).hash);
        assert_ne!(named.hash, lab(Some("server"), 2 << 30).hash);
        let stored: Plan = serde_json::from_str(&serde_json::to_string(&named).unwrap()).unwrap();
        assert_eq!(stored, named);
    }

    #[test]
    fn the_hash_of_an_input_is_of_its_bytes_and_not_of_its_path() {
        let hash_with = |path: &str, sha256: &str| {
            let mut plan = plan();
            plan.workload.params.insert("archive".into(), path.into());
            let (parameter, bytes) = ("archive".to_string(), Bytes(1));
            plan.workload.input = Some(InputPlan { parameter, sha256: sha256.into(), bytes });
            plan.with_hash().hash
        };
        assert_eq!(hash_with("/a/x.tar", "1"), hash_with("/b/y.tar.gz", "1"));
        assert_ne!(hash_with("/a/x.tar", "1"), hash_with("/a/x.tar", "2"));
        assert_ne!(hash_with("/a/x.tar", "1"), plan().hash);
    }

    /// A medium of each form that schema 1 has, as stored in records of that schema.
    const SCHEMA_1: [&str; 8] = [
        r#"{"kind":"directory","path":"/srv"}"#,
        r#"{"kind":"device","on":"loop:1536M"}"#,
        r#"{"kind":"device","on":"ram:8G","raid":"5x3:64K","journal_size":268435456}"#,
        r#"{"kind":"device","on":"/dev/disk/by-id/x:y"}"#,
        r#"{"kind":"lab","disk":{"name":"hdd","spec":{"rpm":7200}},"size":null,"ram":1073741824,
            "scheduler":null,"kernel":"6.1.0-44-amd64"}"#,
        r#"{"kind":"lab","disk":{"name":"hdd","spec":1},"raid":"0x2","journal":{"name":"ssd","spec":2},
            "journal_size":1048576,"size":8589934592,"ram":1073741824,"cacheable":67108864,"scheduler":"bfq",
            "kernel":"6.1.0@a/bzImage:b@c","cpu":"1/2","boot":"snapshot","accel":"kvm"}"#,
        r#"{"kind":"lab","disk":{"name":"memory","spec":null},"size":1048576,"ram":1073741824,
            "scheduler":null,"kernel":"6.1"}"#,
        r#"{"kind":"model","disk":{"name":"ide","spec":3},"size":1048576,"block_size":1024}"#,
    ];

    #[test]
    fn a_plan_of_schema_1_keeps_its_hash_and_its_flat_form() {
        for medium in SCHEMA_1 {
            let medium: Value = serde_json::from_str(medium).unwrap();
            let mut stored = serde_json::to_value(plan()).unwrap();
            stored.as_object_mut().unwrap().remove("venue");
            stored["medium"] = medium.clone();
            let read: Plan = serde_json::from_value(stored.clone()).unwrap();
            let flat = serde_json::to_value(FlatPlan::try_from(read.clone()).unwrap()).unwrap();
            assert_eq!(flat, stored);
            // The hash of schema 1, computed without any type.
            let fields = stored.as_object_mut().unwrap();
            fields.remove("label");
            fields.remove("hash");
            let hash = crate::canonical::sha256_hex(stored.to_string().as_bytes());
            assert_eq!(read.compute_hash(), hash, "{medium}");
            let current_form = serde_json::to_value(&read).unwrap();
            assert!(current_form["venue"].is_object(), "{current_form}");
            assert_eq!(serde_json::from_value::<Plan>(current_form).unwrap(), read);
        }
    }

    #[test]
    fn plans_beyond_schema_1_have_a_hash_and_invalid_flat_forms_are_refused() {
        let modelled = DiskPlan { name: "hdd".into(), spec: "x".into() };
        let plan_beyond_schema_1 =
            Plan { medium: MediumPlan::Modelled(modelled.into()), ..plan() }.with_hash();
        assert_ne!(plan_beyond_schema_1.hash, plan().hash);
        assert!(FlatPlan::try_from(plan_beyond_schema_1).unwrap_err().contains("modelled"));
        for invalid in [
            r#"{"kind":"device","on":"/dev/sdb","raid":"0x2"}"#,
            r#"{"kind":"device","on":"loop:x"}"#,
            r#"{"kind":"lab","disk":{"name":"memory","spec":null},"raid":"0x2","size":null,
                "ram":1,"scheduler":null,"kernel":"6.1"}"#,
            r#"{"kind":"loop","size":1048576}"#,
        ] {
            let mut stored = serde_json::to_value(plan()).unwrap();
            stored.as_object_mut().unwrap().remove("venue");
            stored["medium"] = serde_json::from_str(invalid).unwrap();
            assert!(serde_json::from_value::<Plan>(stored).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_plan_equals_itself_after_json() {
        let text = serde_json::to_string(&plan()).unwrap();
        let restored: Plan = serde_json::from_str(&text).unwrap();
        assert_eq!(restored, plan());
        assert_eq!(restored.compute_hash(), restored.hash);
    }
}
