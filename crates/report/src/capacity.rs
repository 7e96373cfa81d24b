//! The capacity of full file systems.

use fsdyno_record::Trial;
use fsdyno_record::trial::Capacity;
use fsdyno_stats::Summary;

use crate::model::{Row, Section};
use crate::number;

/// A line for each row that was filled: `full, ext4: 12,345 files, 5,120 bytes per file; 20,000 inodes left;
/// 18.3 MiB lost to mkfs (7.1 %); data on 91.2 % of the device`. Means over the trials.
pub fn lines(section: &Section<'_>) -> Vec<String> {
    section.rows.iter().filter_map(line).collect()
}

fn line(row: &Row<'_>) -> Option<String> {
    let mean = |figure: &dyn Fn(&Capacity) -> Option<f64>| {
        let value = |trial: &Trial| figure(trial.measured.capacity.as_ref()?);
        let values: Option<Vec<f64>> = row.trials.iter().map(|(trial, _)| value(trial)).collect();
        Summary::of(&values?).map(|summary| summary.mean)
    };
    let files = mean(&|capacity| Some(capacity.files as f64).filter(|files| *files > 0.0))?;
    let each = mean(&|capacity| Some(space_taken(capacity) / capacity.files.max(1) as f64))?;
    let data = mean(&|capacity| Some(capacity.data.0 as f64 / capacity.files.max(1) as f64))?;
    let mut parts = vec![format!(
        "{} files, {} bytes per file ({} of them data)",
        number::count(files.round() as u64),
        number::count(each.round() as u64),
        number::count(data.round() as u64)
    )];
    parts.push(match mean(&|capacity| capacity.inodes_full.map(|remaining| remaining as f64)) {
        Some(remaining) => format!("{} inodes left", number::count(remaining.round() as u64)),
        None => "no inode limit".to_string(),
    });
    if let Some(lost) = mean(&space_lost) {
        let share = |bytes: f64, capacity: &Capacity| Some(bytes / capacity.device?.0 as f64);
        let full = mean(&|capacity| share(capacity.data.0 as f64, capacity)).unwrap_or(0.0);
        let share = mean(&|capacity| share(space_lost(capacity)?, capacity)).unwrap_or(0.0);
        let mib = number::format_scaled(lost / 1048576.0);
        parts.push(format!("{mib} MiB lost to mkfs ({})", number::percent(share)));
        parts.push(format!("data on {} of the device", number::percent(full)));
    }
    Some(number::sanitize(&format!("full, {}: {}", row.in_sentence(), parts.join("; "))))
}

/// The mean number of files that filled the file system, or `None` if it was not filled.
pub fn files(row: &Row<'_>) -> Option<f64> {
    let files = |trial: &Trial| Some(trial.measured.capacity.as_ref()?.files as f64);
    let values: Option<Vec<f64>> = row.trials.iter().map(|(trial, _)| files(trial)).collect();
    Summary::of(&values?).map(|summary| summary.mean).filter(|files| *files > 0.0)
}

/// The space that the files took, in bytes.
fn space_taken(capacity: &Capacity) -> f64 {
    capacity.free_empty.0 as f64 - capacity.free_full.0 as f64
}

/// The space of the device that was never free, in bytes.
fn space_lost(capacity: &Capacity) -> Option<f64> {
    Some(capacity.device?.0 as f64 - capacity.free_empty.0 as f64)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::{fixture, view};

    #[test]
    fn a_filled_file_system_has_a_line_with_its_capacity() {
        let mut trials = fixture::single();
        let capacity = Capacity {
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
        trials[0].measured.capacity = Some(capacity);
        trials[1].measured.capacity =
            Some(Capacity { device: None, inodes_full: None, ..capacity });
        let sections = view::sections(&trials, None);
        assert_eq!(
            lines(&sections[0]),
            [
                "full, ext4: 50,000 files, 4,194 bytes per file (2,684 of them data); 15,000 inodes \
                 left; 32 MiB lost to mkfs (12 %); data on 50 % of the device",
                "full, xfs: 50,000 files, 4,194 bytes per file (2,684 of them data); no inode limit",
            ]
        );
    }

    #[test]
    fn the_file_system_with_the_most_files_is_the_best_however_long_it_took() {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.workload.name == "dirops" && trial.plan.label != "far");
        for trial in &mut trials {
            let (files, seconds) =
                if trial.plan.label == "ext4" { (40_000, 9) } else { (50_000, 90) };
            trial.measured.phases.truncate(1);
            trial.measured.phases[0].durable_ns =
                Some(fsdyno_record::Nanos(seconds * 1_000_000_000));
            let (device, files) = (Some(Bytes(256 << 20)), files + trial.seed);
            trial.measured.capacity = Some(Capacity { device, files, ..Capacity::default() });
        }
        let sections = view::sections(&trials, None);
        let [ext4, xfs] = sections[0].rows.as_slice() else { panic!("two rows") };
        assert!(xfs.best && !ext4.best && sections[0].measure == crate::measure::Measure::Space);
        assert_eq!(xfs.ratio.unwrap().value, 1.0);
        assert!((ext4.ratio.unwrap().value - 1.25).abs() < 1e-3, "{ext4:?}");
        let text = crate::answer::sentences(&sections, None).join(" ");
        assert!(text.starts_with("xfs holds the most files in dirops create."), "{text}");
        assert!(
            text.contains("ext4 took 1.25 times as much device space per file as xfs"),
            "{text}"
        );
        let against = view::sections(&trials, Some("ext4"));
        let text = crate::answer::sentences(&against, Some("ext4")).join(" ");
        assert!(
            text.starts_with("Against ext4, xfs is more space-efficient in dirops create."),
            "{text}"
        );
        let table = crate::columns::table(&sections[0], &sections, &[]);
        let files = table.heads.iter().position(|head| head.text == "files").unwrap();
        let cells: Vec<&str> = table.rows.iter().map(|row| row.cells[files].as_str()).collect();
        assert_eq!(cells, ["40,002", "50,002"]);
        let ratio = table.heads.iter().find(|head| head.text == "vs best").unwrap();
        assert!(ratio.meaning.starts_with("the device space per file"), "{ratio:?}");
    }
}
