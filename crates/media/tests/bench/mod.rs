//! Loop devices for tests; everything is cleaned up at the end.
#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const MIB: u64 = 1 << 20;

/// Returns the reason why a test cannot run here.
pub fn skip_reason() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("this kernel has no loop devices");
    }
    None
}

/// A folder of images, and the pending cleanup.
pub struct Bench {
    folder: tempfile::TempDir,
    undo: Vec<Box<dyn FnOnce()>>,
    images: Vec<PathBuf>,
    /// Devices to sync before an image is read.
    devices: Vec<String>,
    mounts: Vec<PathBuf>,
}

impl Bench {
    pub fn new() -> Bench {
        // In memory if possible, because on a busy disk each fsync waits.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (undo, images, devices, mounts) = Default::default();
        Bench { folder, undo, images, devices, mounts }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a new folder.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    pub fn image(&mut self, mebibytes: u64) -> PathBuf {
        let path = self.path(&format!("image{}", self.images.len()));
        std::fs::File::create(&path).unwrap().set_len(mebibytes * MIB).unwrap();
        self.images.push(path.clone());
        path
    }

    /// Attaches a loop device to an image, with more options of losetup.
    pub fn attach(&mut self, image: &Path, more: &[&str]) -> String {
        let output =
            Command::new("losetup").args(["--find", "--show"]).args(more).arg(image).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let device = String::from_utf8_lossy(&output.stdout).trim().to_string();
        let copy = device.clone();
        self.undo(move || quiet("losetup", &["--detach", &copy]));
        self.devices.push(device.clone());
        device
    }

    /// Attaches a loop device to a new image.
    pub fn device(&mut self, mebibytes: u64) -> (String, PathBuf) {
        let image = self.image(mebibytes);
        (self.attach(&image, &[]), image)
    }

    pub fn undo(&mut self, what: impl FnOnce() + 'static) {
        self.undo.push(Box::new(what));
    }

    /// Mounts a device, with options of `mount`.
    pub fn mount(&mut self, device: &str, more: &[&str]) -> PathBuf {
        let at = self.folder(&format!("mount{}", self.undo.len()));
        let path = at.to_string_lossy().into_owned();
        tool("mount", &[more, &[device, &path]].concat());
        // Otherwise the superblock is written some time after the mount.
        tool("sync", &["-f", &path]);
        self.undo(move || quiet("umount", &[&path]));
        self.mounts.push(at.clone());
        at
    }

    /// Starts a process that is killed with the bench, and waits for its first line.
    pub fn process(&mut self, command: &mut Command) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        self.undo(move || end(&mut child));
    }

    /// Returns a hash of all bytes of all images.
    pub fn hashes(&self) -> Vec<u64> {
        for mount in &self.mounts {
            rustix::fs::syncfs(std::fs::File::open(mount).unwrap()).unwrap();
        }
        for device in &self.devices {
            std::fs::File::open(device).unwrap().sync_all().unwrap();
        }
        self.images.iter().map(|image| hash(image)).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn hash(image: &Path) -> u64 {
    let file = std::fs::File::open(image).unwrap();
    let (mut hasher, mut block, mut at) = (DefaultHasher::new(), vec![0; MIB as usize], 0);
    loop {
        let read = file.read_at(&mut block, at).unwrap();
        if read == 0 {
            return hasher.finish();
        }
        hasher.write(&block[..read]);
        at += read as u64;
    }
}

/// Reports whether a tool is installed.
pub fn has(name: &str) -> bool {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    folders.iter().any(|folder| Path::new(folder).join(name).exists())
}

pub fn command(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(words).stdin(Stdio::null()).env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// Runs a tool that must succeed.
pub fn tool(name: &str, words: &[&str]) {
    let output = command(name, words).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {}: {text}", words.join(" "));
}

/// Runs a tool and ignores failure.
pub fn quiet(name: &str, words: &[&str]) {
    let _ = command(name, words).output();
}

/// Reports whether a tool succeeds.
pub fn succeeds(name: &str, words: &[&str]) -> bool {
    command(name, words).output().is_ok_and(|output| output.status.success())
}

/// Runs a tool with input.
pub fn feed(name: &str, words: &[&str], input: &str) {
    let mut child = command(name, words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{name} {}", words.join(" "));
}

/// Writes bytes into a device or image.
pub fn put(path: impl AsRef<Path>, at: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

/// Writes a superblock of an md member, version 1.x, at an offset of an image (md_p.h: a checksum over 32-bit
/// words with the carries added in).
pub fn md_superblock(at: u64) -> Vec<u8> {
    let mut block = vec![0u8; 256 + 4];
    let mut word = |at: usize, value: u32| block[at..at + 4].copy_from_slice(&value.to_le_bytes());
    word(0, 0xa92b_4efc);
    word(4, 1);
    word(16, 0x1234_5678);
    word(32, u32::from_le_bytes(*b"test"));
    word(72, 1);
    word(92, 2);
    word(144, (at / 512) as u32);
    word(220, 2);
    let sum: u64 = block
        .chunks(4)
        .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let sum = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
    block[216..220].copy_from_slice(&sum.to_le_bytes());
    block
}
