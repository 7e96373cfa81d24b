//! Answers calls to the two small ONC RPC programs that the kernel needs to serve and mount NFS version 3: rpcbind
//! (100000), which records where programs listen, and MOUNT (100005), which returns the file handle of an export.
//!
//! RFC 5531 (messages), RFC 1833 (rpcbind), RFC 1813 appendix I (MOUNT). On a real server, the daemons rpcbind and
//! rpc.mountd answer; here, there is only one export, and the ports are fixed.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// The port of rpcbind.
pub const RPCBIND_PORT: u16 = 111;

/// The port of the MOUNT program.
pub const MOUNT_PORT: u16 = 20048;

const RPCBIND: u32 = 100_000;
const MOUNT: u32 = 100_005;
const MOUNT_MNT: u32 = 1;
const AUTH_SYS: u32 = 1;
/// The flag of the last fragment of a record.
const LAST: u32 = 1 << 31;
/// The maximum length of a call.
const MAX_LENGTH: usize = 4096;

/// Answers the calls on a connection until it ends.
pub fn answer_all(mut stream: TcpStream, handle: &[u8]) -> io::Result<()> {
    loop {
        let mut mark = [0; 4];
        match stream.read_exact(&mut mark) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let length = (u32::from_be_bytes(mark) & !LAST) as usize;
        if length > MAX_LENGTH {
            return Err(io::Error::other("a call that is too long"));
        }
        let mut call = vec![0; length];
        stream.read_exact(&mut call)?;
        if let Some(answer) = answer(&call, handle) {
            let mark = (LAST | answer.len() as u32).to_be_bytes();
            stream.write_all(&[&mark[..], &answer].concat())?;
        }
    }
}

/// Listens on a port of an address.
pub fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((address, port))
}

/// Returns the answer to a call, or `None` if the message is not a call.
fn answer(call: &[u8], handle: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_be_bytes(call.get(at * 4..at * 4 + 4)?.try_into().ok()?));
    let (id, is_call, program, procedure) = (word(0)?, word(1)? == 0, word(3)?, word(5)?);
    if !is_call {
        return None;
    }
    let mut out = Vec::new();
    let mut put = |word: u32| out.extend(word.to_be_bytes());
    // An accepted reply, with an empty verifier, and success.
    [id, 1, 0, 0, 0, 0].into_iter().for_each(&mut put);
    match (program, procedure) {
        (_, 0) => {}
        // True in reply to SET and UNSET; no port or address in reply to a query.
        (RPCBIND, 1 | 2) => put(1),
        (RPCBIND, _) => put(0),
        (MOUNT, MOUNT_MNT) => {
            put(0);
            put(handle.len() as u32);
            out.extend(handle);
            out.resize(out.len().next_multiple_of(4), 0);
            for word in [1, AUTH_SYS] {
                out.extend(word.to_be_bytes());
            }
        }
        // UMNT and UMNTALL have no result.
        (MOUNT, 3 | 4) => {}
        // The program or the procedure is not available.
        _ => out[20..24].copy_from_slice(&3u32.to_be_bytes()),
    }
    Some(out)
}
