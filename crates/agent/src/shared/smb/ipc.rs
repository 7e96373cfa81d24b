//! The requests of the kernel's SMB server to user space and their answers, through generic netlink.
//!
//! On a real server, the daemon ksmbd.mountd answers. Here, there is only one user and one share, so all answers are
//! known in advance. The server sends requests only while a client mounts or unmounts.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fsdyno_filesystem::shared::smb;

use crate::shared::netlink::{Body, Netlink};
use crate::shared::network::HOST_END;

/// The share of the served folder.
pub const SHARE: &str = "share";

/// The share through which clients would call remote procedures; none of them is called.
const PIPES: &str = "ipc$";

/// The only user, who is root on the server.
pub const USER: &str = "fsdyno";

/// The password of the user.
pub const PASSWORD: &str = "password";

/// The MD4 hash of the password in UTF-16, which the server compares.
const HASH: [u8; 16] = [
    0x88, 0x46, 0xf7, 0xea, 0xee, 0x8f, 0xb1, 0x17, 0xad, 0x06, 0xbd, 0xd8, 0x30, 0xb7, 0x58, 0x6c,
];

/// include/uapi/linux/genetlink.h.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The name of the server's family, and the version of its messages.
const FAMILY: &str = "SMBD_GENL";
const VERSION: u8 = 1;

/// Events; the answer to a request has the next number.
const STARTING_UP: u8 = 2;
const LOGIN: u8 = 4;
const SHARE_CONFIG: u8 = 6;
const TREE_CONNECT: u8 = 8;
const RPC: u8 = 12;

/// Settings of the server.
const LEASES: u32 = 1;
const DURABLE_HANDLES: u32 = 1 << 4;
/// Messages are signed if a client requests it (server signing = auto).
const SIGNING_AUTO: u32 = 2;

/// Settings of a share.
const AVAILABLE: u32 = 1;
const BROWSEABLE: u32 = 1 << 1;
const WRITEABLE: u32 = 1 << 2;
const STORE_DOS_ATTRIBUTES: u32 = 1 << 6;
const OPLOCKS: u32 = 1 << 7;
const PIPE: u32 = 1 << 8;
const HIDE_DOT_FILES: u32 = 1 << 9;
const CROSS_MOUNTS: u32 = 1 << 15;
/// No user or group replaces that of the login.
const NONE_FORCED: u16 = u16::MAX;

/// Statuses.
const USER_OK: u16 = 1;
const USER_BAD: u16 = 1 << 3;
const TREE_OK: u16 = 0;
const TREE_WRITABLE: u16 = 1 << 2;
const RPC_NOT_IMPLEMENTED: u32 = 0x40;

/// Lengths of the fixed texts.
const ACCOUNT_LENGTH: usize = 48;
const SHARE_LENGTH: usize = 64;

/// The maximum length of a request.
const MAX_REQUEST: usize = 4096;

/// The socket through which the server is started and sends its requests.
pub struct Daemon {
    netlink: Netlink,
    family: u16,
    folder: PathBuf,
    settings: smb::Server,
}

impl Daemon {
    /// Opens the socket.
    pub fn open(folder: PathBuf, settings: smb::Server) -> io::Result<Daemon> {
        let mut netlink = Netlink::open_for(libc::NETLINK_GENERIC)?;
        let mut body = Body(vec![GET_FAMILY, VERSION, 0, 0]);
        body.text(FAMILY_NAME, FAMILY);
        netlink.send(CONTROLLER, 0, body)?;
        let mut memory = [0; MAX_REQUEST];
        let family = netlink.receive(&mut memory)?.and_then(family_of);
        let family = family.ok_or_else(|| io::Error::other("ksmbd has no netlink family"))?;
        Ok(Daemon { netlink, family, folder, settings })
    }

    /// Starts the server. Its answer, if it refuses, is received by [`Daemon::answer_all`].
    pub fn start_server(&mut self) -> io::Result<()> {
        let request = startup(self.settings);
        self.send(STARTING_UP, request.0)
    }

    /// Answers the server's requests until this process is killed.
    pub fn answer_all(&mut self) -> io::Result<()> {
        let mut memory = [0; MAX_REQUEST];
        loop {
            let Some(message) = self.netlink.receive(&mut memory)? else { continue };
            // The generic header, and that of the only attribute.
            let (Some(&event), Some(request)) = (message.first(), message.get(8..)) else {
                return Err(io::Error::other("a request from ksmbd is too short"));
            };
            let answer = self.answer(event, request);
            if let Some(answer) = answer {
                self.send(event + 1, answer.0)?;
            }
        }
    }

    /// Returns the answer to a request; `None` for a message that requires none.
    fn answer(&self, event: u8, request: &[u8]) -> Option<Fields> {
        let handle = request.get(..4)?;
        match event {
            LOGIN => Some(login(handle, text(request, 4, ACCOUNT_LENGTH)?)),
            SHARE_CONFIG => Some(self.share(handle, text(request, 4, SHARE_LENGTH)?)),
            TREE_CONNECT => {
                let mut answer = Fields(handle.to_vec());
                answer.half_word(TREE_OK).half_word(TREE_WRITABLE).pad(72);
                Some(answer)
            }
            RPC => {
                let mut answer = Fields(handle.to_vec());
                answer.word(RPC_NOT_IMPLEMENTED).word(0);
                Some(answer)
            }
            _ => None,
        }
    }

    /// Returns a struct ksmbd_share_config_response.
    fn share(&self, handle: &[u8], name: &[u8]) -> Fields {
        let is_pipe = name.eq_ignore_ascii_case(PIPES.as_bytes());
        let set = |flag: u32, on: bool| if on { flag } else { 0 };
        let flags = match is_pipe {
            true => AVAILABLE | PIPE,
            false => {
                AVAILABLE
                    | BROWSEABLE
                    | WRITEABLE
                    | HIDE_DOT_FILES
                    | CROSS_MOUNTS
                    | set(OPLOCKS, self.settings.oplocks)
                    | set(STORE_DOS_ATTRIBUTES, self.settings.store_dos_attributes)
            }
        };
        let path = if is_pipe { &[][..] } else { self.folder.as_os_str().as_bytes() };
        let mut answer = Fields(handle.to_vec());
        answer.word(flags);
        // The masks of the modes of files and directories, and the modes that are forced on all of them.
        [0o744, 0o755, 0, 0].into_iter().for_each(|mode| {
            answer.half_word(mode);
        });
        answer.half_word(NONE_FORCED).half_word(NONE_FORCED).text(name, SHARE_LENGTH).pad(528);
        answer.word(path.len() as u32 + 1).word(0).text(path, path.len() + 1);
        answer
    }

    fn send(&mut self, event: u8, message: Vec<u8>) -> io::Result<()> {
        let mut body = Body(vec![event, VERSION, 0, 0]);
        body.attribute(u16::from(event), &message);
        self.netlink.send(self.family, 0, body)
    }
}

/// Returns a struct ksmbd_startup_request: the settings of ksmbd.conf(5), where 0 is the server's own default.
fn startup(settings: smb::Server) -> Fields {
    let set = |flag: u32, on: bool| if on { flag } else { 0 };
    let flags = set(LEASES, settings.leases) | set(DURABLE_HANDLES, settings.durable_handles);
    let mut request = Fields::default();
    request.word(flags).word(SIGNING_AUTO);
    request.text(b"SMB2_10", 16).text(b"SMB3_11", 16);
    request.text(b"SERVER", 16).text(b"WORKGROUP", 64).text(b"SMB SERVER", 64);
    // The port, no heartbeat, no dead connections, open files.
    request.half_word(445).half_word(0).word(0).word(10_000);
    // The sizes of write, read and trans; sparse files.
    request.word(0).word(0).word(0).word(64);
    // The server's part of security identifiers; credits, size of RDMA, connections.
    request.word(1).word(2).word(3).word(8192).word(0).word(0);
    // Only the interface below; connections of one address, and reserved space.
    request.0.push(1);
    request.word(0).pad(740);
    request.word(HOST_END.len() as u32 + 1).text(HOST_END.as_bytes(), HOST_END.len() + 1);
    request
}

/// Returns a struct ksmbd_login_response.
fn login(handle: &[u8], account: &[u8]) -> Fields {
    let status = if account == USER.as_bytes() { USER_OK } else { USER_BAD };
    let mut answer = Fields(handle.to_vec());
    answer
        .word(0)
        .word(0)
        .text(account, ACCOUNT_LENGTH)
        .half_word(status)
        .half_word(HASH.len() as u16);
    answer.text(&HASH, 18).pad(148);
    answer
}

/// Returns the number of the family in the controller's answer: the generic header, and attributes.
fn family_of(answer: &[u8]) -> Option<u16> {
    let mut rest = answer.get(4..)?;
    while let [low, high, kind_low, kind_high, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        if u16::from_ne_bytes([kind_low, kind_high]) == FAMILY_ID {
            return Some(u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// Returns the text in a fixed field, which ends with a NUL.
fn text(message: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    message.get(at..at + length)?.split(|byte| *byte == 0).next()
}

/// The fields of a message.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn half_word(&mut self, number: u16) -> &mut Fields {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn word(&mut self, number: u32) -> &mut Fields {
        self.0.extend(number.to_ne_bytes());
        self
    }

    /// Adds a text in a field of this length.
    fn text(&mut self, text: &[u8], length: usize) -> &mut Fields {
        let end = self.0.len() + length;
        self.0.extend(text);
        self.pad(end)
    }

    /// Adds zeros up to this length of the whole message.
    fn pad(&mut self, length: usize) -> &mut Fields {
        self.0.resize(length, 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: smb::Server = smb::Server {
        oplocks: true,
        leases: true,
        durable_handles: false,
        store_dos_attributes: false,
    };

    fn word(message: &Fields, at: usize) -> u32 {
        u32::from_ne_bytes(message.0[at..at + 4].try_into().unwrap())
    }

    /// Lengths and offsets as a C compiler lays out the structures of ksmbd_netlink.h.
    #[test]
    fn messages_have_the_layout_of_the_kernels_structures() {
        let request = startup(SETTINGS);
        assert_eq!(request.0.len(), 744 + HOST_END.len() + 1);
        assert_eq!((word(&request, 0), word(&request, 4)), (LEASES, SIGNING_AUTO));
        assert_eq!(&request.0[184..188], [0xbd, 1, 0, 0]);
        assert_eq!(
            (word(&request, 192), word(&request, 208), word(&request, 224)),
            (10_000, 64, 8192)
        );
        assert_eq!((request.0[236], word(&request, 740)), (1, HOST_END.len() as u32 + 1));
        let answer = login(&[7, 0, 0, 0], USER.as_bytes());
        assert_eq!((answer.0.len(), word(&answer, 0), word(&answer, 60)), (148, 7, 0x10_0001));
        assert_eq!(&answer.0[64..80], HASH);
        assert_eq!(word(&login(&[7, 0, 0, 0], b"other"), 60) & 0xffff, u32::from(USER_BAD));
    }

    #[test]
    fn a_share_has_its_folder_and_the_share_of_pipes_has_none() {
        let netlink = Netlink::open_for(libc::NETLINK_GENERIC).unwrap();
        let daemon = Daemon { netlink, family: 0, folder: "/mnt.below".into(), settings: SETTINGS };
        let share_config = |name: &[u8]| {
            let mut request = Fields::default();
            request.word(9).text(name, SHARE_LENGTH).pad(132);
            daemon.answer(SHARE_CONFIG, &request.0).unwrap()
        };
        let share = share_config(SHARE.as_bytes());
        assert_eq!((word(&share, 0), word(&share, 528), share.0.len()), (9, 11, 536 + 11));
        assert_eq!(&share.0[536..], b"/mnt.below\0");
        let flags = word(&share, 4);
        assert!(flags & OPLOCKS != 0 && flags & STORE_DOS_ATTRIBUTES == 0, "{flags:x}");
        let pipes = share_config(b"IPC$");
        assert_eq!((word(&pipes, 4), pipes.0.len()), (AVAILABLE | PIPE, 536 + 1));
        let tree = daemon.answer(TREE_CONNECT, &[0; 276]).unwrap();
        assert_eq!((tree.0.len(), word(&tree, 4)), (72, u32::from(TREE_WRITABLE) << 16));
        // A heartbeat, and a message without a handle.
        assert!(daemon.answer(1, &[0; 4]).is_none() && daemon.answer(LOGIN, &[0; 3]).is_none());
    }

    #[test]
    fn the_family_is_found_among_other_attributes() {
        let answer = [
            1, 2, 0, 0, 14, 0, 2, 0, b'S', b'M', b'B', b'D', 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1, 0,
            35, 0,
        ];
        assert_eq!(family_of(&answer), Some(35));
        assert_eq!(family_of(&answer[..20]), None);
    }
}
