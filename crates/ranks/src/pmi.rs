//! The text protocol PMI-1 between a process and hydra on an inherited descriptor: each request and each answer is a
//! line of words `key=value` (W. Gropp, E. Lusk, D. Ashton et al.; MPICH, src/pmi).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, RawFd};

/// A connection with the launcher.
pub struct Pmi {
    input: BufReader<File>,
    output: File,
    store: String,
}

impl Pmi {
    /// Opens the connection on a descriptor that the launcher passed.
    ///
    /// # Errors
    /// The descriptor is not open, or the launcher does not use PMI-1.
    pub fn open(fd: RawFd) -> io::Result<Pmi> {
        // SAFETY: fcntl(2) touches no memory; the descriptor is checked to be open.
        if fd < 3 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::other(format!("PMI_FD={fd} is not an open descriptor")));
        }
        // SAFETY: the descriptor is open, and the launcher opened it for this purpose and this process only.
        let output = unsafe { File::from_raw_fd(fd) };
        let input = BufReader::new(output.try_clone()?);
        let mut pmi = Pmi { input, output, store: String::new() };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let answer = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        pmi.store = value(&answer, "kvsname").unwrap_or_default().to_string();
        Ok(pmi)
    }

    /// Stores a value, which all ranks can read after a barrier.
    ///
    /// # Errors
    /// The launcher refuses.
    pub fn put(&mut self, key: &str, value: &str) -> io::Result<()> {
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.store);
        self.ask(&line, "put_result").map(drop)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// The launcher ends meanwhile.
    pub fn barrier(&mut self) -> io::Result<()> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    /// Reads a value; None if no process has stored it.
    ///
    /// # Errors
    /// The launcher refuses.
    pub fn get(&mut self, key: &str) -> io::Result<Option<String>> {
        let line = format!("cmd=get kvsname={} key={key}", self.store);
        let answer = self.exchange(&line, "get_result")?;
        let found = value(&answer, "rc").is_none_or(|code| code == "0");
        Ok(value(&answer, "value").filter(|_| found).map(String::from))
    }

    /// Ends the connection, so that the launcher accepts the end of this process.
    ///
    /// # Errors
    /// The launcher refuses.
    pub fn finalize(&mut self) -> io::Result<()> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    fn ask(&mut self, line: &str, wanted: &str) -> io::Result<String> {
        let answer = self.exchange(line, wanted)?;
        match value(&answer, "rc").is_none_or(|code| code == "0") {
            true => Ok(answer),
            false => Err(io::Error::other(format!("the launcher answered '{answer}' to '{line}'"))),
        }
    }

    fn exchange(&mut self, line: &str, wanted: &str) -> io::Result<String> {
        self.output.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        let answer = answer.trim_end().to_string();
        match value(&answer, "cmd") {
            Some(command) if command == wanted => Ok(answer),
            _ => {
                let text = format!("expected {wanted} of the launcher (PMI-1), got '{answer}'");
                Err(io::Error::other(text))
            }
        }
    }
}

/// Returns the value of a key in a line.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_requests_are_those_of_hydra() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut output = theirs.try_clone().unwrap();
            let mut requests = Vec::new();
            for line in BufReader::new(theirs).lines() {
                let line = line.unwrap();
                let answer = match value(&line, "cmd").unwrap() {
                    "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                    "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0",
                    "put" => "cmd=put_result rc=0 msg=success",
                    "barrier_in" => "cmd=barrier_out",
                    "get" if line.ends_with("key=none") => "cmd=get_result rc=-1 msg=key_not_found",
                    "get" => "cmd=get_result rc=0 msg=success value=a:1",
                    _ => "cmd=finalize_ack",
                };
                output.write_all(format!("{answer}\n").as_bytes()).unwrap();
                requests.push(line);
            }
            requests
        });
        let mut pmi = Pmi::open(ours.into_raw_fd()).unwrap();
        pmi.put("meet", "a:1").unwrap();
        pmi.barrier().unwrap();
        assert_eq!(pmi.get("meet").unwrap().as_deref(), Some("a:1"));
        assert_eq!(pmi.get("none").unwrap(), None);
        pmi.finalize().unwrap();
        drop(pmi);
        let requests = server.join().unwrap();
        assert!(requests.contains(&"cmd=put kvsname=kvs_1_0 key=meet value=a:1".to_string()));
    }
}
