//! Creates a file system: prepares its disks, runs its journal's command and mkfs, and reads back the features in
//! effect.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::plan::FeatureWord;
use fsdyno_record::trial::{Conditions, DiskRole};

use super::formatted::Formatted;
use super::mounting::Mounting;
use super::{ModelledDisk, array};
use crate::block_queue;
use crate::tool;

/// Number of lines kept from the end of a tool's output.
const TOOL_LINES: usize = 12;

impl Formatted {
    /// Sets up the disks' queues and assembles the array.
    pub(super) fn lay_out(&self, conditions: &mut Conditions) -> io::Result<()> {
        for disk in &self.disks {
            for note in disk.set_queue(self.scheduler.as_deref())? {
                if !conditions.not_in_effect.contains(&note) {
                    conditions.not_in_effect.push(note);
                }
            }
        }
        if let Some(raid) = self.raid {
            let members = self.disks.iter().filter(|disk| disk.role == DiskRole::Member);
            let members: Vec<String> =
                members.map(|disk| disk.path().to_string_lossy().into_owned()).collect();
            self.recheck_devices()?;
            array::create(&self.array, raid, &members, (self.seed, self.uuids), conditions)?;
        }
        if self.mounting.in_memory() {
            return Ok(());
        }
        conditions.queue = block_queue::read_back(self.device_name());
        match self.disks.as_slice() {
            [single] => {
                conditions.partition_start = single.spec.as_ref().map(|_| single.partition.start);
            }
            multiple => {
                let named_conditions =
                    |disk: &ModelledDisk| (disk.device_name().into(), disk.conditions());
                conditions.disks = multiple.iter().map(named_conditions).collect();
            }
        }
        conditions.device_size = Some(Bytes(block_queue::size(self.device_name())?));
        Ok(())
    }

    /// Creates the file system, unless its type needs no mkfs, and adds the commands and the outcome to the conditions.
    pub(super) fn format(&self, conditions: &mut Conditions) -> io::Result<()> {
        if matches!(self.mounting, Mounting::Raw) {
            return Ok(());
        }
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.make.is_empty()) {
            let argv = self.fill_in(&journal.make);
            self.recheck_devices()?;
            tool::run(&argv, &self.plan.env)?.check(&argv)?;
            conditions.before_mkfs.push(argv);
        }
        if self.plan.mkfs.is_empty() {
            return Ok(());
        }
        conditions.mkfs = self.fill_in(&self.plan.mkfs);
        self.recheck_devices()?;
        let result = tool::run(&conditions.mkfs, &self.plan.env)?;
        conditions.mkfs_output = result.last_lines(TOOL_LINES);
        result.check(&conditions.mkfs)?;
        // If no separate command prints the features, mkfs has just printed them.
        let features_output = if self.plan.features.is_empty() {
            result
        } else {
            tool::run(&self.fill_in(&self.plan.features), &self.plan.env)?
        };
        conditions.features =
            fsdyno_filesystem::features(&features_output.output, &self.plan.feature_keys);
        let mut read_errors = Vec::new();
        read_errors.extend(
            (features_output.exit != Some(0)).then(|| features_output.last_lines(1).join(" ")),
        );
        for word in &self.plan.feature_words {
            let value = feature_word(&self.device_path(), word)?;
            conditions.features.insert(word.key.clone(), value.to_string());
        }
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.features.is_empty()) {
            let features_output = tool::run(&self.fill_in(&journal.features), &self.plan.env)?;
            let features =
                fsdyno_filesystem::features(&features_output.output, &journal.feature_keys);
            let journal_entries =
                features.into_iter().map(|(key, value)| (format!("journal: {key}"), value));
            conditions.features.extend(journal_entries);
            read_errors.extend(
                (features_output.exit != Some(0)).then(|| features_output.last_lines(1).join(" ")),
            );
        }
        let bytes =
            fsdyno_filesystem::journal_bytes(&conditions.features, &self.plan.journal_bytes);
        conditions.features.extend(bytes.map(|bytes| ("journal bytes".into(), bytes.to_string())));
        let note = |message| format!("the features in effect could not be read back: {message}");
        conditions.notes.extend(read_errors.into_iter().map(note));
        // The command that created a pool has also imported it.
        self.export_pool()
    }

    /// Performs the first mount of a new file system in advance.
    pub(super) fn settle(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        self.mount()?;
        self.unmount()?;
        conditions.notes.push(format!(
            "after mkfs, {} was mounted and unmounted once, untimed: the first mount of a new file system does \
             work that no later mount does",
            self.plan.made_kind()
        ));
        Ok(())
    }
}

/// Reads a 32-bit word that a file system stores at a fixed offset of its device.
fn feature_word(device: &Path, word: &FeatureWord) -> io::Result<u32> {
    let mut bytes = [0; 4];
    File::open(device)?.read_exact_at(&mut bytes, word.at)?;
    let mask = u32::MAX.checked_shr(32u32.saturating_sub(word.bits)).unwrap_or(0);
    Ok(u32::from_le_bytes(bytes) & mask)
}
