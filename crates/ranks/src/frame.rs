//! Frames that consist of a length followed by JSON.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length in bytes of a message on an authenticated connection.
pub const MAX_MESSAGE: u32 = 256 << 20;

/// Maximum length in bytes of a message on a connection before authentication.
pub const MAX_UNAUTHENTICATED: u32 = 16 << 10;

/// Writes a message.
///
/// # Errors
/// The message is too long, or the connection is broken.
pub fn write_frame(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_MESSAGE);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    stream.write_all(&frame)
}

/// Reads a message.
///
/// # Errors
/// The connection ended, or the data are not a message.
pub fn read_frame<T: DeserializeOwned>(stream: &mut TcpStream, max_length: u32) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > max_length {
        return Err(io::Error::other("the data is not an fsdyno message"));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
