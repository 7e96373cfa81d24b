//! Drives that other devices or programs use: volumes, arrays, encryption, loop devices, open files.

use std::path::Path;

use crate::bench::{Bench, MIB, command, feed, md_superblock, put, quiet, succeeds, tool};
use crate::{Made, Request, made, needs, plain};

pub fn lvm(bench: &mut Bench) -> Made {
    made(bench, 24, &["pvcreate", "--quiet", "--yes"])
}

fn mapper() -> Result<(), String> {
    needs(&["dmsetup"])?;
    match succeeds("dmsetup", &["targets"]) {
        true => Ok(()),
        false => Err("this kernel has no device-mapper".into()),
    }
}

pub fn lvm_active(bench: &mut Bench) -> Made {
    mapper()?;
    needs(&["vgcreate"])?;
    let (device, image) = bench.device(32);
    let group = format!("fsdyno{}", std::process::id());
    tool("vgcreate", &["--quiet", "--yes", &group, &device]);
    tool("lvcreate", &["--quiet", "--yes", "--zero", "n", "--extents", "1", "--name", "v", &group]);
    bench.undo(move || quiet("vgremove", &["--force", "--yes", &group]));
    Ok(Request::confirmed(&device, &image))
}

fn map(bench: &mut Bench, device: &str) -> Result<String, String> {
    mapper()?;
    let name = format!("fsdyno-{}-{}", std::process::id(), device.replace('/', "-"));
    tool("dmsetup", &["create", &name, "--table", &format!("0 32768 linear {device} 0")]);
    let gone = name.clone();
    bench.undo(move || quiet("dmsetup", &["remove", &gone]));
    Ok(format!("/dev/mapper/{name}"))
}

pub fn mapped(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    map(bench, &device)?;
    Ok(Request::confirmed(&device, &image))
}

pub fn mapping(bench: &mut Bench) -> Made {
    let (device, _) = bench.device(24);
    plain(&map(bench, &device)?)
}

pub fn md_front(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    put(&device, 4096, &md_superblock(4096));
    Ok(Request::confirmed(&device, &image))
}

pub fn md_end(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let at = 24 * MIB - 8192;
    put(&device, at, &md_superblock(at));
    Ok(Request::confirmed(&device, &image))
}

pub fn md_running(bench: &mut Bench) -> Made {
    needs(&["mdadm"])?;
    if !Path::new("/proc/mdstat").exists() {
        return Err("this kernel has no md".into());
    }
    let (device, image) = bench.device(32);
    let name = "/dev/md/fsdyno-test";
    let words = ["--create", name, "--run", "--force", "--level=1", "--raid-devices=2"];
    tool("mdadm", &[&words[..], &[&device, "missing"]].concat());
    bench.undo(move || quiet("mdadm", &["--stop", name]));
    // The array must be the only reason.
    put(&image, 4096, &[0; 4096]);
    Ok(Request::confirmed(&device, &image))
}

pub fn luks(bench: &mut Bench) -> Made {
    needs(&["cryptsetup"])?;
    let (device, image) = bench.device(24);
    let words =
        ["luksFormat", "--batch-mode", "--type", "luks1", "--pbkdf-force-iterations", "1000"];
    feed("cryptsetup", &[&words[..], &[&device, "-"]].concat(), "secret");
    Ok(Request::confirmed(&device, &image))
}

pub fn under_loop(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    bench.attach(Path::new(&device), &["--read-only"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn over_device(bench: &mut Bench) -> Made {
    let (below, _) = bench.device(24);
    let device = bench.attach(Path::new(&below), &[]);
    Ok(Request::confirmed(&device, Path::new(&below)))
}

pub fn same_file(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(100);
    let other = bench.attach(&image, &["--offset", "73400320"]);
    tool("mke2fs", &["-q", "-t", "ext4", &other]);
    bench.mount(&other, &[]);
    Ok(Request::confirmed(&device, &image))
}

pub fn same_bytes(bench: &mut Bench) -> Made {
    let image = bench.image(48);
    let device = bench.attach(&image, &["--sizelimit", "33554432"]);
    bench.attach(&image, &["--offset", "33550336", "--sizelimit", "8192"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn file_written(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let script = format!("exec 3<>{}; echo ready; exec sleep 1000", image.display());
    bench.process(&mut command("sh", &["-c", &script]));
    Ok(Request::confirmed(&device, &image))
}

pub fn file_swap(bench: &mut Bench) -> Made {
    // File systems in memory support no swap files.
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let path = image.to_string_lossy().into_owned();
    std::fs::write(&image, vec![0; 48 * MIB as usize]).unwrap();
    tool("chmod", &["600", &path]);
    tool("mkswap", &[&path]);
    let on = succeeds("swapon", &[&path]);
    bench.undo(move || {
        quiet("swapoff", &[&path]);
        drop(folder);
    });
    if !on {
        return Err("swapon of a file is refused here".into());
    }
    let device = bench.attach(&image, &["--offset", "4194304"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn written(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let script = format!("exec 3<>{device}; echo ready; exec sleep 1000");
    bench.process(&mut command("sh", &["-c", &script]));
    Ok(Request::confirmed(&device, &image))
}

pub fn held(bench: &mut Bench) -> Made {
    use std::os::unix::fs::OpenOptionsExt;
    let (device, image) = bench.device(24);
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    let file = std::fs::File::options().read(true).custom_flags(exclusive).open(&device).unwrap();
    bench.undo(move || drop(file));
    Ok(Request::confirmed(&device, &image))
}
