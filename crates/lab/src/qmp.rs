//! A client of QEMU's control protocol (QMP), as far as snapshots need it: commands, their responses, and
//! the passing of open files.
//!
//! The protocol (docs/interop/qmp-spec of QEMU) has one JSON object per line: first a greeting, then a `return` or
//! `error` for each command; events may come in between.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// The time limit for QEMU's response to a command; it normally responds within milliseconds.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);

/// A connection to one QEMU process.
#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Qmp {
    /// Reads the greeting and negotiates capabilities.
    ///
    /// # Errors
    /// Those of [`Qmp::command`].
    pub fn start(stream: UnixStream) -> io::Result<Qmp> {
        stream.set_read_timeout(Some(RESPONSE_LIMIT))?;
        let lines = BufReader::new(stream.try_clone()?);
        let mut qmp = Qmp { stream, lines };
        qmp.line()?;
        qmp.command("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Sends a command and returns the value of its response.
    ///
    /// # Errors
    /// QEMU has ended, does not respond, or responds with an error.
    pub fn command(&mut self, name: &str, arguments: &Value) -> io::Result<Value> {
        let line = json!({ "execute": name, "arguments": arguments }).to_string();
        self.stream.write_all(line.as_bytes())?;
        self.answer(name)
    }

    /// Passes an open file to QEMU; later commands refer to it by `name`.
    ///
    /// # Errors
    /// Those of [`Qmp::command`].
    pub fn pass_file(&mut self, file: &File, name: &str) -> io::Result<()> {
        let line = json!({ "execute": "getfd", "arguments": { "fdname": name } }).to_string();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let bytes = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(&self.stream, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&line.as_bytes()[sent..])?;
        self.answer("getfd").map(drop)
    }

    /// Returns the machine's state: `running`, `paused`, `guest-panicked`, `inmigrate`, ...
    ///
    /// # Errors
    /// Those of [`Qmp::command`].
    pub fn status(&mut self) -> io::Result<String> {
        let answer = self.command("query-status", &json!({}))?;
        Ok(answer["status"].as_str().unwrap_or_default().to_string())
    }

    fn answer(&mut self, name: &str) -> io::Result<Value> {
        loop {
            let mut line: Value = serde_json::from_str(&self.line()?)?;
            if let Some(error) = line.get("error") {
                let reason = error["desc"].as_str().unwrap_or("no reason given");
                return Err(io::Error::other(format!("QEMU refused {name}: {reason}")));
            }
            if let Some(value) = line.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU closed the connection")),
            _ => Ok(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects to a fake QEMU that sends these lines.
    fn qemu(lines: &'static str) -> io::Result<Qmp> {
        let (ours, mut theirs) = UnixStream::pair()?;
        theirs.write_all(lines.as_bytes())?;
        // It reads to the end, so that the client does not write to a closed socket.
        std::thread::spawn(move || io::copy(&mut theirs.try_clone()?, &mut io::sink()));
        Qmp::start(ours)
    }

    #[test]
    fn events_between_a_command_and_its_response_are_skipped() {
        let lines = "{\"QMP\":{}}\r\n{\"return\":{}}\r\n{\"event\":\"STOP\"}\r\n\
                    {\"return\":{\"status\":\"guest-panicked\"}}\r\n";
        assert_eq!(qemu(lines).unwrap().status().unwrap(), "guest-panicked");
    }

    #[test]
    fn an_error_has_qemus_description() {
        let lines = "{\"QMP\":{}}\n{\"return\":{}}\n{\"error\":{\"desc\":\"no such file\"}}\n";
        let error = qemu(lines).unwrap().command("migrate", &json!({})).unwrap_err();
        assert_eq!(error.to_string(), "QEMU refused migrate: no such file");
    }

    #[test]
    fn a_qemu_that_has_ended_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(Qmp::start(ours).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_file_arrives_with_its_name() {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"{\"QMP\":{}}\n{\"return\":{}}\n{\"return\":{}}\n").unwrap();
        let mut qmp = Qmp::start(ours).unwrap();
        let mut received = [0; 4096];
        let _ = std::io::Read::read(&mut (&theirs), &mut received).unwrap();
        qmp.pass_file(&tempfile::tempfile().unwrap(), "snapshot").unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [io::IoSliceMut::new(&mut received)];
        let got = recvmsg(&theirs, &mut bytes, &mut control, RecvFlags::empty()).unwrap();
        let files = control.drain().map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.count(),
            _ => 0,
        });
        assert_eq!(files.sum::<usize>(), 1);
        assert!(
            String::from_utf8_lossy(&received[..got.bytes]).contains("\"fdname\":\"snapshot\"")
        );
    }
}
