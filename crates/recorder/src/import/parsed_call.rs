//! A call read from an imported text, and the parsing of its arguments.

use fsdyno_trace::CallKind;

use super::symbols::number;

/// A call read from an imported text.
#[derive(Clone, Debug, Default)]
pub struct ParsedCall<'t> {
    /// Its name, such as `openat`.
    pub name: &'t str,
    /// Its arguments, unparsed: quoted strings, numbers, flags.
    pub args: Vec<&'t str>,
    /// Its result, or a negative errno.
    pub result: i64,
    /// The thread that made it.
    pub thread: i64,
    /// Nanoseconds since the first call.
    pub start: u64,
    /// Its duration in nanoseconds.
    pub duration: u64,
}

/// The reason why a call cannot be read.
pub type ParseError = String;

impl ParsedCall<'_> {
    /// Returns an unparsed argument.
    pub fn arg(&self, at: usize) -> Result<&str, ParseError> {
        self.args
            .get(at)
            .copied()
            .ok_or_else(|| format!("{} has no argument {}", self.name, at + 1))
    }

    /// Parses an argument that is a number or flags.
    pub fn number(&self, at: usize) -> Result<i64, ParseError> {
        let text = self.arg(at)?;
        number(text).ok_or_else(|| format!("'{text}' is neither a number nor flags"))
    }

    /// Parses an argument that is a number or flags; 0 if it is missing.
    pub fn optional(&self, at: usize) -> i64 {
        self.args.get(at).and_then(|text| number(text)).unwrap_or(0)
    }

    /// Parses an argument that is a quoted string.
    pub fn text(&self, at: usize) -> Result<Vec<u8>, ParseError> {
        let text = self.arg(at)?;
        unquoted(text).ok_or_else(|| format!("'{text}' is not a quoted string, or is truncated"))
    }

    /// True if the call failed.
    pub fn fails(&self) -> bool {
        self.result < 0
    }

    /// True if the object of the path existed: the call did not fail with ENOENT or ENOTDIR.
    pub fn existed(&self) -> bool {
        let missing = [i64::from(-libc::ENOENT), i64::from(-libc::ENOTDIR)];
        !missing.contains(&self.result)
    }
}

/// Parses a descriptor, with the path that strace -y shows: `3</path>`, `4<pipe:[123]>`.
pub fn descriptor(text: &str) -> Option<(i32, Option<Vec<u8>>)> {
    let (digits, rest) = text.split_at(text.find('<').unwrap_or(text.len()));
    let number = match digits.trim() {
        "AT_FDCWD" => libc::AT_FDCWD,
        digits => digits.parse().ok()?,
    };
    let path = rest.strip_prefix('<').and_then(|it| it.rsplit_once('>')).map(|it| it.0);
    // -yy shows more after the path of a device.
    let path = path.map(|it| it.strip_suffix(" (deleted)").unwrap_or(it));
    Some((number, path.and_then(|it| unquoted(&format!("\"{it}\"")))))
}

/// Returns the bytes of a quoted string with the escapes of strace(1); None if it is not quoted, or is shortened.
pub fn unquoted(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' {
            out.push(inner[at]);
            at += 1;
            continue;
        }
        at += 1;
        match inner.get(at)? {
            b'x' => {
                let digits = std::str::from_utf8(inner.get(at + 1..at + 3)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            }
            b'0'..=b'7' => {
                let digits = inner[at..].iter().take(3).take_while(|it| (b'0'..=b'7').contains(it));
                let value = digits.clone().fold(0u32, |sum, it| sum * 8 + u32::from(it - b'0'));
                out.push(u8::try_from(value).ok()?);
                at += digits.count();
            }
            other => {
                out.push(match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 11,
                    b'f' => 12,
                    other => *other,
                });
                at += 1;
            }
        }
    }
    Some(out)
}

/// Returns a field of a structure, such as `st_size` in `{st_mode=S_IFREG|0644, st_size=5, ...}`.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let at = text.find(&format!("{name}="))? + name.len() + 1;
    let rest = &text[at..];
    Some(rest[..rest.find([',', '}']).unwrap_or(rest.len())].trim())
}

/// Returns the kind of a call by its name; None for a call that a trace cannot represent.
pub fn kind(name: &str) -> Option<CallKind> {
    use CallKind as K;
    Some(match name {
        "open" | "openat" | "openat2" | "creat" => K::Open,
        "read" | "readv" | "pread64" | "pread" | "preadv" | "preadv2" => K::Read,
        "write" | "writev" | "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => K::Write,
        "lseek" => K::Seek,
        "sendfile" | "sendfile64" | "copy_file_range" | "splice" => K::Copy,
        "truncate" | "ftruncate" => K::Truncate,
        "fallocate" => K::Fallocate,
        "fsync" | "fdatasync" | "sync_file_range" | "syncfs" => K::Sync,
        "sync" => K::SyncAll,
        "stat" | "lstat" | "fstat" | "newfstatat" | "fstatat64" | "statx" => K::Stat,
        "access" | "faccessat" | "faccessat2" => K::Access,
        "readlink" | "readlinkat" => K::Readlink,
        "getdents" | "getdents64" => K::Readdir,
        "mkdir" | "mkdirat" => K::Mkdir,
        "rmdir" => K::Rmdir,
        "unlink" | "unlinkat" => K::Unlink,
        "rename" | "renameat" | "renameat2" => K::Rename,
        "link" | "linkat" => K::Link,
        "symlink" | "symlinkat" => K::Symlink,
        "mknod" | "mknodat" => K::Mknod,
        "chmod" | "fchmod" | "fchmodat" | "fchmodat2" => K::Chmod,
        "chown" | "fchown" | "lchown" | "fchownat" => K::Chown,
        "utime" | "utimes" | "futimesat" | "utimensat" => K::Utimes,
        "setxattr" | "lsetxattr" | "fsetxattr" => K::Setxattr,
        "getxattr" | "lgetxattr" | "fgetxattr" => K::Getxattr,
        "listxattr" | "llistxattr" | "flistxattr" => K::Listxattr,
        "removexattr" | "lremovexattr" | "fremovexattr" => K::Removexattr,
        "flock" => K::Lock,
        "chdir" | "fchdir" => K::Chdir,
        "statfs" | "fstatfs" => K::Statfs,
        "fadvise64" | "readahead" => K::Advise,
        "mmap" => K::Map,
        _ => return None,
    })
}
