//! Fits a disk profile to the reads of a real disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, stop};
use fsdyno_disk::fit::{self, Drive, Facts, Fitted};
use fsdyno_disk::{Queue, WriteCache};
use fsdyno_media::Probed;
use fsdyno_record::Nanos;

/// The sector size of disk models in bytes.
const SECTOR: u64 = 512;

/// The queue depth if sysfs does not report one: that of NCQ.
const DEFAULT_DEPTH: u32 = 32;

/// Measures a drive for about `seconds` and fits a disk profile; returns `None` if the user stopped it.
///
/// # Errors
/// A drive that cannot be read, or whose times fit no model.
pub fn disk(path: &Path, seconds: u64, rpm: Option<u32>) -> Result<Option<String>, Failure> {
    let stop = stop::flag()?;
    let drive = Probed::open(path, Arc::clone(&stop))?;
    check_direct_io(&drive)?;
    let non_rotating = drive.attribute("queue/rotational").as_deref() == Some("0");
    if let Some(rpm) = rpm.filter(|_| non_rotating) {
        return Err(Failure::invalid_use(format!(
            "--rpm {rpm}: '{}' does not rotate (/sys/block/{}/queue/rotational is 0); remove --rpm",
            drive.path().display(),
            drive.name().unwrap_or_default()
        )));
    }
    let facts = facts(&drive, rpm);
    announce(&drive, seconds);
    let sectors = drive.size().0 / SECTOR;
    let mut device = Device(drive);
    let measured = rotates(&mut device, non_rotating, &facts)
        .and_then(|rotates| measure(&mut device, rotates, seconds, &facts, sectors));
    let fitted = match measured {
        Ok(fitted) => fitted?,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
        Err(error) => {
            let device = path.display();
            return Err(Failure::invalid_use(format!("failed to read '{device}': {error}")));
        }
    };
    let text = fitted.text(&facts).map_err(|error| {
        Failure::invalid_use(format!("failed to write the disk profile: {error}"))
    })?;
    fitted.errors().iter().for_each(|line| say(&format!("fsdyno: {line}")));
    Ok(Some(text))
}

/// Refuses a loop device without direct I/O: even for O_DIRECT reads of the device, it reads its file through the page
/// cache.
fn check_direct_io(drive: &Probed) -> Result<(), Failure> {
    let Some(file) = drive.attribute("loop/backing_file").filter(|_| !drive.is_file()) else {
        return Ok(());
    };
    if drive.attribute("loop/dio").as_deref() == Some("1") {
        return Ok(());
    }
    Err(Failure::invalid_use(format!(
        "'{}' reads its file '{file}' through the page cache, so its times would be those of memory; give the \
         drive below that file, or set up the loop device with losetup --direct-io=on",
        drive.path().display()
    )))
}

/// Half a revolution at 15,000 rpm: if random reads take longer on average, they wait for a rotating disk.
const HALF_REVOLUTION: Nanos = Nanos(2_000_000);

/// Returns true if the drive rotates. The kernel's report of a non-rotating drive is trusted. A rotating
/// drive is the kernel's default, so that report is checked by measuring random reads, unless the speed is known.
fn rotates(drive: &mut dyn Drive, non_rotating: bool, facts: &Facts) -> io::Result<bool> {
    if non_rotating || facts.rpm.is_some() {
        return Ok(!non_rotating);
    }
    let mean = fit::mean_read_time(drive)?;
    if mean < HALF_REVOLUTION {
        say(&format!(
            "fsdyno: random reads take {mean} on average, so this is fitted as a solid-state drive; for a \
             rotating disk behind a cache give --rpm"
        ));
    }
    Ok(mean >= HALF_REVOLUTION)
}

fn announce(drive: &Probed, seconds: u64) {
    if drive.is_file() {
        say(
            "fsdyno: this is a file; the fit describes the storage below it, including the file system",
        );
    }
    if drive.is_mounted() || drive.is_file() {
        say("fsdyno: it is in use: nothing is written to it, but any other load distorts the fit");
    }
    say(&format!("fsdyno: reading {} for about {seconds} s", drive.path().display()));
}

/// Measures a drive and fits a model of a hard disk or of flash.
fn measure(
    drive: &mut dyn Drive,
    rotates: bool,
    seconds: u64,
    facts: &Facts,
    sectors: u64,
) -> io::Result<Result<Fitted, Failure>> {
    let mut step = |what: &str| say(&format!("fsdyno: {what}"));
    let fitted = match rotates {
        true => fit::fit(&fit::probe(drive, seconds, &mut step)?, facts, sectors),
        false => {
            let samples = fit::probe_flash(drive, facts.nvme, seconds, &mut step)?;
            step("fitting");
            fit::fit_flash(&samples, facts, sectors)
        }
    };
    Ok(fitted.map_err(Failure::from))
}

/// A real drive, with the interface that the fit uses.
struct Device(Probed);

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Drive for Device {
    fn sectors(&self) -> u64 {
        self.0.size().0 / SECTOR
    }

    fn read(&mut self, sector: u64, sectors: u32) -> io::Result<Nanos> {
        self.0.read(sector, sectors).map(nanos)
    }

    fn read_all(&mut self, starts: &[u64], sectors: u32, depth: u32) -> io::Result<Nanos> {
        self.0.read_all(starts, sectors, depth).map(nanos)
    }
}

/// Returns the kernel's facts about the drive. The serial number is omitted for privacy.
fn facts(drive: &Probed, rpm: Option<u32>) -> Facts {
    let model = drive.attribute("device/model").or_else(|| drive.name());
    let model = model.unwrap_or_else(|| "a drive without a name".into());
    let rpm = rpm.map(|rpm| (rpm, "given with --rpm".to_string()));
    let reported =
        || Some((drive.rpm()?, "the drive's own page B1h of block device characteristics".into()));
    let now = fsdyno_venue::clock::now();
    let day = now.split('T').next().unwrap_or_default();
    let through_file = if drive.is_file() { ", through a file on it" } else { "" };
    Facts {
        about: format!("{model}, {}, fitted to its reads on {day}", drive.size()),
        queue: queue(drive),
        rpm: rpm.or_else(reported),
        ata: drive.attribute("device/vendor").as_deref() == Some("ATA"),
        nvme: is_nvme(drive),
        probed: format!("[RUN] on {day}, on a {model} of {} bytes{through_file}", drive.size().0),
    }
}

/// Returns true if the drive, or the one below a file, uses the NVMe driver, by the kernel's name for it.
fn is_nvme(drive: &Probed) -> bool {
    drive.name().is_some_and(|name| name.starts_with("nvme"))
}

/// Returns the queue's settings in effect; settings missing from sysfs have Linux's defaults for a rotating disk.
fn queue(drive: &Probed) -> Queue {
    let text = |name: &str| drive.attribute(&format!("queue/{name}"));
    let number =
        |name: &str, default: u64| text(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let number_u32 =
        |name: &str, default: u32| u32::try_from(number(name, default.into())).unwrap_or(default);
    // NVMe has no device queue depth; without a scheduler, its tags are the requests.
    let tags = if is_nvme(drive) { "queue/nr_requests" } else { "device/queue_depth" };
    let depth = drive.attribute(tags).and_then(|text| text.parse().ok());
    let is_write_back = text("write_cache").is_none_or(|cache| cache == "write back");
    Queue {
        rotational: true,
        depth: depth.unwrap_or(DEFAULT_DEPTH).clamp(1, 1024),
        max_sectors_kb: number_u32("max_sectors_kb", 1280).clamp(4, 32 << 10),
        read_ahead_kb: number_u32("read_ahead_kb", 128),
        scheduler: text("scheduler")
            .and_then(|text| scheduler_in_effect(&text))
            .unwrap_or("mq-deadline".into()),
        wbt_lat_usec: number("wbt_lat_usec", 0),
        write_cache: if is_write_back { WriteCache::WriteBack } else { WriteCache::WriteThrough },
        fua: number("fua", 0) == 1,
        logical_block_size: number_u32("logical_block_size", 512),
        physical_block_size: number_u32("physical_block_size", 4096),
        discard: number("discard_max_bytes", 0) > 0,
        nr_requests: number_u32("nr_requests", 64).clamp(1, 4096),
    }
}

/// Returns the scheduler in brackets: `none [mq-deadline] kyber`.
fn scheduler_in_effect(schedulers: &str) -> Option<String> {
    let (_, after) = schedulers.split_once('[')?;
    Some(after.split_once(']')?.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{check_out, write};
    use fsdyno_disk::fit::Modelled;
    use fsdyno_disk::{DiskSpec, catalog};

    #[test]
    fn a_fit_writes_a_profile_that_the_lab_accepts_and_keeps_other_files() {
        let spec = catalog::get("hdd-7200").unwrap();
        let facts = Facts {
            about: "A drive of a test".into(),
            queue: spec.queue.clone(),
            rpm: None,
            ata: true,
            nvme: false,
            probed: "in a test".into(),
        };
        let mut drive = Modelled::new(&spec, 3);
        let sectors = drive.sectors();
        let fitted = measure(&mut drive, true, 20, &facts, sectors).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine.toml");
        let text = fitted.text(&facts).unwrap();
        check_out(&out).unwrap();
        write(&out, &text).unwrap();
        let (_, found): (String, DiskSpec) = catalog::find(out.to_str().unwrap()).unwrap();
        assert_eq!(found, fitted.spec);
        assert!(text.starts_with("# Fitted by `fsdyno fit`, in a test"), "{text}");
        assert!(text.contains("32 in flight: ") && text.contains(" predicted ("), "{text}");
        // A second fit replaces the file; other files are kept.
        check_out(&out).unwrap();
        write(&out, &text).unwrap();
        for other in ["about = \"mine\"\n", ""] {
            std::fs::write(&out, other).unwrap();
            assert!(check_out(&out).is_err() && write(&out, &text).is_err());
            assert_eq!(std::fs::read_to_string(&out).unwrap(), other);
        }
    }

    #[test]
    fn the_scheduler_in_effect_is_the_one_in_brackets() {
        assert_eq!(scheduler_in_effect("none [mq-deadline] kyber").as_deref(), Some("mq-deadline"));
        assert_eq!(scheduler_in_effect("[none]").as_deref(), Some("none"));
        assert_eq!(scheduler_in_effect("none"), None);
    }
}
