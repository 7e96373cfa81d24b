//! Decodes the arguments of calls that open, create, remove or rename.

use fsdyno_trace::{Call, Kind, Object};
use libc::{c_long, pid_t};

use crate::decode::{CWD, Decoded};
use crate::inode::{Key, key, kind};
use crate::recorder::Recorder;
use crate::resolve::{Outside, Place};
use crate::sys::CallEntry;

/// Returns directory, path and mode of a call whose older variant, with this number, takes no directory.
fn dir_path_mode(entry: &CallEntry, older: c_long) -> (i32, u64, u32) {
    let args = entry.args;
    let (dir, path, mode) = if entry.number == older {
        (CWD, args[0], args[1])
    } else {
        (args[0] as i32, args[1], args[2])
    };
    (dir, path, mode as u32)
}

/// Returns directory and path of each of a call's two names.
fn two_names(entry: &CallEntry, older: c_long) -> ((i32, u64), (i32, u64)) {
    let args = entry.args;
    match entry.number == older {
        true => ((CWD, args[0]), (CWD, args[1])),
        false => ((args[0] as i32, args[1]), (args[2] as i32, args[3])),
    }
}

/// Returns the inode that is removed with this name.
fn removed_inode(place: &Place) -> Option<Key> {
    let last = |stat: &rustix::fs::Stat| stat.st_nlink == 1 || kind(stat) == Kind::Directory;
    place.stat.as_ref().filter(|stat| last(stat)).map(key)
}

impl Recorder {
    /// Decodes open(2) and its variants.
    pub fn open(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
        let (dir, path, flags, mode) = match entry.number {
            libc::SYS_open => (CWD, args[0], args[1], args[2]),
            libc::SYS_creat => (CWD, args[0], creat, args[1]),
            libc::SYS_openat => (args[0] as i32, args[1], args[2], args[3]),
            _ => {
                let [flags, mode] =
                    self.words::<2>(tid, args[2]).ok_or(Outside(Object::None, 0))?;
                (args[0] as i32, args[1], flags, mode)
            }
        };
        let flags = flags as u32;
        let makes =
            flags & (libc::O_CREAT | libc::O_TMPFILE) as u32 & !(libc::O_DIRECTORY as u32) != 0;
        let exclusive = (libc::O_CREAT | libc::O_EXCL) as u32;
        let follow = flags & libc::O_NOFOLLOW as u32 == 0 && flags & exclusive != exclusive;
        let at = self.place(tid, dir, path, follow)?.at;
        let mode = if makes { mode as u32 & 0o7777 } else { 0 };
        Ok(Call::Open { at, flags, mode, created: None, file: None })
    }

    /// Decodes execve(2), execveat(2).
    pub fn exec(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let at = match entry.number {
            libc::SYS_execve => self.place(tid, CWD, args[0], true)?.at,
            _ => self.place(tid, args[0] as i32, args[1], true)?.at,
        };
        let program = at.name.clone().ok_or(Outside(Object::None, 0))?;
        Ok(Call::Exec { program, at: Some(at) })
    }

    /// Decodes mkdir(2), mkdirat(2).
    pub fn mkdir(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let (dir, path, mode) = dir_path_mode(entry, libc::SYS_mkdir);
        let at = self.place(tid, dir, path, false)?.at;
        Ok(Call::Mkdir { at, mode: mode & 0o7777, created: None })
    }

    /// Decodes mknod(2), mknodat(2).
    pub fn mknod(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let (dir, path, mode) = dir_path_mode(entry, libc::SYS_mknod);
        let at = self.place(tid, dir, path, false)?.at;
        let file = matches!(mode & libc::S_IFMT, 0 | libc::S_IFREG);
        let node = if file { Kind::File } else { Kind::Special };
        Ok(Call::Mknod { at, node, mode: mode & 0o7777, created: None })
    }

    /// Decodes rmdir(2), unlink(2), unlinkat(2).
    pub fn unlink(&mut self, tid: pid_t, entry: &CallEntry) -> Decoded {
        let args = entry.args;
        let at_dir = entry.number == libc::SYS_unlinkat;
        let (dir, path) = if at_dir { (args[0] as i32, args[1]) } else { (CWD, args[0]) };
        let place = self.place(tid, dir, path, false)?;
        let removed = removed_inode(&place);
        let removes_dir =
            entry.number == libc::SYS_rmdir || at_dir && args[2] as i32 & libc::AT_REMOVEDIR != 0;
        let at = place.at;
        Ok((if removes_dir { Call::Rmdir { at } } else { Call::Unlink { at } }, removed))
    }

    /// Decodes rename(2), renameat(2), renameat2(2).
    pub fn rename(&mut self, tid: pid_t, entry: &CallEntry) -> Decoded {
        let (from, to) = two_names(entry, libc::SYS_rename);
        let flags = if entry.number == libc::SYS_renameat2 { entry.args[4] as u32 } else { 0 };
        let old = self.place(tid, from.0, from.1, false)?;
        let new = self.place(tid, to.0, to.1, false)?;
        // Exchanged or identical files stay.
        let stays = flags & libc::RENAME_EXCHANGE != 0 || old.at.node == new.at.node;
        let removed = removed_inode(&new).filter(|_| !stays);
        Ok((Call::Rename { from: old.at, to: new.at, flags }, removed))
    }

    /// Decodes link(2), linkat(2).
    pub fn link(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let (from, to) = two_names(entry, libc::SYS_link);
        let flags = if entry.number == libc::SYS_link { 0 } else { entry.args[4] as i32 };
        let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
        let from = self.at_or_file(tid, from.0, from.1, flags, follow)?;
        Ok(Call::Link { from, to: self.place(tid, to.0, to.1, false)?.at })
    }

    /// Decodes symlink(2), symlinkat(2).
    pub fn symlink(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (dir, path) = if entry.number == libc::SYS_symlink {
            (CWD, args[1])
        } else {
            (args[1] as i32, args[2])
        };
        let length = match &self.seen {
            Some(seen) => seen.more[0] as u32,
            None => self.text(tid, args[0]).map_or(0, |it| it.len() as u32),
        };
        let at = self.place(tid, dir, path, false)?.at;
        Ok(Call::Symlink { at, length, created: None })
    }
}
