//! What file systems held when they were full.

use fsdyno_record::trial::Capacity;
use fsdyno_stats::Summary;

use crate::number;
use crate::view::{Row, Section};

/// A line for each row that was filled: `full, ext4: 12,345 files, 5,120 bytes a file; 20,000 inodes left;
/// 18.3 MiB lost to mkfs (7.1 %); data on 91.2 % of the device`. Means over the trials.
pub fn lines(section: &Section<'_>) -> Vec<String> {
    section.rows.iter().filter_map(line).collect()
}

fn line(row: &Row<'_>) -> Option<String> {
    let mean = |of: &dyn Fn(&Capacity) -> Option<f64>| {
        let one = |trial: &fsdyno_record::Trial| of(trial.measured.capacity.as_ref()?);
        let values: Option<Vec<f64>> = row.trials.iter().map(|(trial, _)| one(trial)).collect();
        Summary::of(&values?).map(|summary| summary.mean)
    };
    let files = mean(&|it| Some(it.files as f64).filter(|files| *files > 0.0))?;
    let each = mean(&|it| Some(taken(it) / it.files.max(1) as f64))?;
    let data = mean(&|it| Some(it.data.0 as f64 / it.files.max(1) as f64))?;
    let mut parts = vec![format!(
        "{} files, {} bytes a file ({} of them data)",
        number::count(files.round() as u64),
        number::count(each.round() as u64),
        number::count(data.round() as u64)
    )];
    parts.push(match mean(&|it| it.inodes_full.map(|left| left as f64)) {
        Some(left) => format!("{} inodes left", number::count(left.round() as u64)),
        None => "no limit of inodes".to_string(),
    });
    if let Some(lost) = mean(&lost) {
        let share = |bytes: f64, it: &Capacity| Some(bytes / it.device?.0 as f64);
        let full = mean(&|it| share(it.data.0 as f64, it)).unwrap_or(0.0);
        let share = mean(&|it| share(self::lost(it)?, it)).unwrap_or(0.0);
        let mib = number::short(lost / 1048576.0);
        parts.push(format!("{mib} MiB lost to mkfs ({})", number::percent(share)));
        parts.push(format!("data on {} of the device", number::percent(full)));
    }
    Some(number::clean(&format!("full, {}: {}", row.name, parts.join("; "))))
}

/// Free space that was taken.
fn taken(held: &Capacity) -> f64 {
    held.free_empty.0 as f64 - held.free_full.0 as f64
}

/// Bytes of the device that were never free.
fn lost(held: &Capacity) -> Option<f64> {
    Some(held.device?.0 as f64 - held.free_empty.0 as f64)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::{fixture, view};

    #[test]
    fn a_row_that_was_filled_says_what_it_held() {
        let mut trials = fixture::single();
        let held = Capacity {
            device: Some(Bytes(256 << 20)),
            total: Bytes(240 << 20),
            free_empty: Bytes(224 << 20),
            free_full: Bytes(24 << 20),
            inodes_empty: Some(65_000),
            inodes_full: Some(15_000),
            files: 50_000,
            directories: 50,
            data: Bytes(128 << 20),
        };
        trials[0].measured.capacity = Some(held);
        trials[1].measured.capacity = Some(Capacity { device: None, inodes_full: None, ..held });
        let sections = view::sections(&trials, None);
        assert_eq!(
            lines(&sections[0]),
            [
                "full, ext4: 50,000 files, 4,194 bytes a file (2,684 of them data); 15,000 inodes \
                 left; 32 MiB lost to mkfs (12 %); data on 50 % of the device",
                "full, xfs: 50,000 files, 4,194 bytes a file (2,684 of them data); no limit of inodes",
            ]
        );
    }
}
