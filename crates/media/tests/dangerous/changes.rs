//! Drives that change between look and claim, and drives that fsdyno has claimed before.

use std::path::{Path, PathBuf};

use fsdyno_media::block::check_drive;

use crate::bench::{Bench, command, feed, tool};
use crate::{Made, Request, ext2, needs};

pub fn link(bench: &mut Bench) -> Made {
    let ((mine, image), (other, _)) = (bench.device(24), bench.device(24));
    let link = bench.path("ata-DISK_S3RIAL");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    let request = Request::confirmed(&link.to_string_lossy(), &image);
    Ok(request.then(move |_| {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
    }))
}

pub fn number(bench: &mut Bench) -> Made {
    if !Path::new("/sys/block/loop0/diskseq").exists() {
        return Err("this kernel does not number its disks (5.15 does)".into());
    }
    let ((device, image), other) = (bench.device(24), bench.image(24));
    let request = Request::confirmed(&device, &image);
    Ok(request.then(move |_| {
        tool("losetup", &["--detach", &device]);
        tool("losetup", &[&device, &other.to_string_lossy()]);
    }))
}

pub fn mkfs_between(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.then(move |_| tool("mke2fs", &["-q", "-t", "ext4", &device])))
}

pub fn mount_between(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.then(move |bench| {
        ext2(&device);
        bench.mount(&device, &[]);
    }))
}

pub fn locked(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.then(move |bench| {
        let script = "echo ready; exec sleep 1000";
        bench.process(&mut command("flock", &["--no-fork", &device, "sh", "-c", script]));
    }))
}

/// Returns a blank drive that fsdyno has claimed and released.
fn used(bench: &mut Bench) -> (String, PathBuf) {
    let (device, image) = bench.device(24);
    let erase = image.to_string_lossy().into_owned();
    let claim = check_drive(Path::new(&device), Some(&erase)).unwrap().claim().unwrap();
    ext2(&claim.device().unwrap().path.to_string_lossy());
    claim.release().unwrap();
    (device, image)
}

pub fn claimed(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let request = Request::confirmed(&device, &image);
    let erase = request.erase.clone();
    let claim = check_drive(Path::new(&device), erase.as_deref()).unwrap().claim().unwrap();
    bench.undo(move || drop(claim));
    Ok(request)
}

pub fn copied(bench: &mut Bench) -> Made {
    let (_, image) = used(bench);
    let copy = bench.image(24);
    std::fs::copy(&image, &copy).unwrap();
    let device = bench.attach(&copy, &[]);
    Ok(Request::confirmed(&device, &copy))
}

pub fn taken(bench: &mut Bench) -> Made {
    let (device, image) = used(bench);
    tool("mke2fs", &["-q", "-F", "-t", "ext4", "-E", "offset=1048576", &device, "20M"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn table_by_now(bench: &mut Bench) -> Made {
    needs(&["sfdisk"])?;
    let (device, image) = used(bench);
    feed("sfdisk", &["--quiet", "--no-reread", &device], "label: dos\n");
    Ok(Request::confirmed(&device, &image))
}
