//! One line on the requests to each disk in a phase, for trials with several modelled disks.

use fsdyno_record::trial::DiskRole;

use crate::model::{Row, Section};
use crate::number;

/// A line for each row on several disks: `disks of far: nbd0 412 requests, 31.0 MiB written, busy 1.20 s;
/// nbd1 (journal) ...`, means over its trials.
pub fn lines(section: &Section<'_>) -> Vec<String> {
    section.rows.iter().filter_map(line).collect()
}

fn line(row: &Row<'_>) -> Option<String> {
    let (trial, phase) = row.trials.first()?;
    (!phase.devices.is_empty()).then_some(())?;
    let part = |name: &String| {
        let mean = |value: fn(&fsdyno_record::trial::Device) -> u64| {
            row.mean(|phase| Some(value(phase.devices.get(name)?) as f64)).unwrap_or_default()
        };
        let requests = mean(|device| device.reads + device.writes + device.flushes);
        let written = mean(|device| device.bytes_written.0) / f64::from(1 << 20);
        let busy = row.mean(|phase| Some(phase.devices.get(name)?.busy_ns?.seconds()));
        let busy = busy.map(|busy| format!(", busy {}", number::seconds(busy)));
        let role = trial.conditions.disks.get(name).map(|disk| disk.role);
        let role = if role == Some(DiskRole::Journal) { " (journal)" } else { "" };
        format!(
            "{name}{role} {} requests, {} MiB written{}",
            number::format_scaled(requests),
            number::format_scaled(written),
            busy.unwrap_or_default()
        )
    };
    let parts: Vec<String> = phase.devices.keys().map(part).collect();
    Some(format!("disks of {}: {}", number::sanitize(&row.in_sentence()), parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn each_of_several_disks_is_listed_with_its_role_and_a_single_disk_is_not() {
        let trials = [fixture::on_several_disks()];
        let text = lines(&view::sections(&trials, None)[0]);
        assert_eq!(text.len(), 1, "{text:?}");
        assert!(text[0].starts_with("disks of ext4: nbd0 "), "{text:?}");
        assert!(text[0].contains("; nbd2 (journal) "), "{text:?}");
        assert_eq!(text[0].matches("MiB written, busy").count(), 3, "{text:?}");
        assert!(lines(&view::sections(&fixture::trials(), None)[0]).is_empty());
    }
}
