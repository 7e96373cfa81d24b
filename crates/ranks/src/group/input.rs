//! Sends the input file of a trial to all ranks: one process of each host receives it, and the others open it there.

use std::time::{Duration, Instant};

use super::collect::Watch;
use super::{GroupError, State};
use crate::input::{Offer, Place, TrialInput};
use crate::messages::{FromRank, ToRank};
use crate::wire::MAX_BYTES;

/// Maximum time for sending a file to all ranks; a rank that receives nothing for [`super::Timeouts::stuck`] ends the
/// transfer earlier.
const SENDING: Duration = Duration::from_secs(24 * 3600);

/// The state of an input file at a rank.
enum InputState {
    /// The file, and where other processes of its host can open it.
    File(Option<Place>),
    /// Nothing, on this host.
    Nothing(Option<String>),
}

impl State {
    /// Sends an input file to all ranks that do not have it.
    pub(super) fn send_input(
        &mut self,
        input: &TrialInput<'_>,
        watch: Watch<'_>,
    ) -> Result<(), GroupError> {
        if self.sent_inputs.iter().any(|sent| sent == input.sha256) {
            return Ok(());
        }
        self.input = Some(input.input.clone());
        let bytes = input.input.bytes().len() as u64;
        let offer = |place: Option<Place>, fetch| Offer {
            sha256: input.sha256.to_string(),
            bytes,
            place,
            fetch,
        };
        // On the host of this process its own file is opened.
        let local_offer = offer(Place::of(input.file), false);
        let mut got = self.offer(&|_| local_offer.clone(), watch)?;
        if any_lacks(&got) {
            // One rank of every other host receives it.
            let first = first_of_homes(&got);
            got = self.offer(&|rank| offer(None, first[rank]), watch)?;
        }
        if any_lacks(&got) {
            // The others open it there, or receive it, too, if they cannot.
            let places: Vec<Place> = got.iter().filter_map(place).collect();
            let local_place = |rank: usize| match &got[rank] {
                InputState::Nothing(Some(home)) => {
                    places.iter().find(|it| it.home == *home).cloned()
                }
                _ => None,
            };
            self.offer(&|rank| offer(local_place(rank), true), watch)?;
        }
        self.input = None;
        self.sent_inputs.push(input.sha256.to_string());
        Ok(())
    }

    /// Offers each rank an input file; returns the state at each rank after that.
    fn offer(
        &mut self,
        offer: &dyn Fn(usize) -> Offer,
        watch: Watch<'_>,
    ) -> Result<Vec<InputState>, GroupError> {
        for (rank, peer) in self.peers.iter().enumerate() {
            // A peer that cannot be reached is detected because it stays silent.
            let _ = peer.wire.send(&ToRank::Input(Box::new(offer(rank))));
        }
        self.collect(
            "while it received the input file",
            Instant::now() + SENDING,
            watch,
            &|answer| match answer {
                FromRank::HasInput { place } => Some(InputState::File(place)),
                FromRank::LacksInput { home } => Some(InputState::Nothing(home)),
                _ => None,
            },
        )
    }

    /// Sends a rank the part of the input file that it waits for.
    pub(super) fn send_part(&self, rank: u32, from: u64) {
        let (Some(input), Some(peer)) = (&self.input, self.peers.get(rank as usize)) else {
            return;
        };
        let bytes = input.bytes();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        let part = &bytes[from..bytes.len().min(from + MAX_BYTES as usize)];
        // A peer that cannot be reached is detected because it stays silent.
        let chunk = ToRank::Chunk { from: from as u64, length: part.len() as u32 };
        let _ = peer.wire.send_with_bytes(&chunk, part);
    }
}

fn any_lacks(got: &[InputState]) -> bool {
    got.iter().any(|got| matches!(got, InputState::Nothing(_)))
}

fn place(got: &InputState) -> Option<Place> {
    match got {
        InputState::File(place) => place.clone(),
        InputState::Nothing(_) => None,
    }
}

/// Returns true for each rank that is the first one on its host to lack the file; on an unknown host, for all.
fn first_of_homes(got: &[InputState]) -> Vec<bool> {
    let home = |got: &InputState| match got {
        InputState::Nothing(home) => Some(home.clone()),
        InputState::File(_) => None,
    };
    let homes: Vec<Option<Option<String>>> = got.iter().map(home).collect();
    let is_first = |(rank, home): (usize, &Option<Option<String>>)| match home {
        None => false,
        Some(None) => true,
        Some(_) => !homes[..rank].contains(home),
    };
    homes.iter().enumerate().map(is_first).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use fsdyno_record::canonical::Hash;
    use fsdyno_workload::Input;

    use super::*;
    use crate::launcher::Kind;
    use crate::secret::Secret;
    use crate::wire::{Hello, call};
    use crate::worker::{Join, serve};
    use crate::{Group, Timeouts};

    const RANKS: u32 = 3;

    /// The bytes of a file that is sent in several parts.
    fn bytes() -> Vec<u8> {
        (0..3 * MAX_BYTES + 5).map(|at| (at % 251) as u8).collect()
    }

    fn sha256(bytes: &[u8]) -> String {
        let mut hash = Hash::default();
        hash.update(bytes);
        hash.hex()
    }

    /// Sends an input file to workers, which are threads of this process: they find `file` in /proc, and rank 0 sends
    /// `sent`. Before, each worker receives a part that it no longer waits for.
    fn give(file: &[u8], sent: Vec<u8>, sha256: &str) -> Result<(), GroupError> {
        let (secret, listener) =
            (Secret::draw().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let at = listener.local_addr().unwrap();
        let worker = |rank: u32| {
            let secret = secret.clone();
            let (meeting, on) = (String::new(), std::path::PathBuf::new());
            let join = Join { meeting, rank, ranks: RANKS, on, patience: 1, tied: false };
            std::thread::spawn(move || {
                let (version, host) = ("1".to_string(), format!("host{rank}"));
                let hello = Hello { rank, ranks: RANKS, version, host, ..Hello::default() };
                let (wire, reader) =
                    call(TcpStream::connect(at).unwrap(), &secret, &hello).unwrap();
                serve(&join, wire, reader).unwrap();
            })
        };
        let workers: Vec<_> = (0..RANKS).map(worker).collect();
        let kind = (Kind::Environment, RANKS);
        let group =
            Group::gather(listener, &secret, kind, "1", Timeouts::default(), &|| false).unwrap();
        let mut found: File = tempfile::tempfile().unwrap();
        found.write_all(file).unwrap();
        let input = TrialInput { sha256, input: Input::new(sent), file: &found };
        let mut state = group.state.lock().unwrap();
        for peer in &state.peers {
            peer.wire.send_with_bytes(&ToRank::Chunk { from: 0, length: 5 }, b"stale").unwrap();
        }
        let result = state.send_input(&input, &mut |_| true);
        drop(state);
        drop(group);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        result
    }

    #[test]
    fn a_file_on_the_host_is_opened_and_replaced_only_if_it_differs() {
        let (right, wrong) = (bytes(), vec![0; bytes().len()]);
        let expected = sha256(&right);
        give(&right, wrong.clone(), &expected).unwrap();
        give(&wrong, right.clone(), &expected).unwrap();
        give(&[], right, &expected).unwrap();
    }

    #[test]
    fn bytes_that_differ_from_rank_0s_are_an_error_with_both_hashes() {
        let (right, wrong) = (bytes(), vec![0; bytes().len()]);
        let (expected, other) = (sha256(&right), sha256(&wrong));
        let error = give(&wrong, wrong.clone(), &expected).unwrap_err().to_string();
        assert!(error.contains("rank 0 on host0"), "{error}");
        assert!(error.contains(&format!("{other} here, and {expected} at rank 0")), "{error}");
    }

    #[test]
    fn the_first_rank_of_every_host_receives_a_file_and_on_unknown_hosts_all_do() {
        let nothing =
            |home: &str| InputState::Nothing((!home.is_empty()).then(|| home.to_string()));
        let got = [
            InputState::File(None),
            nothing("a"),
            nothing("b"),
            nothing("a"),
            nothing(""),
            nothing(""),
        ];
        assert_eq!(first_of_homes(&got), [false, true, true, false, true, true]);
        assert!(any_lacks(&got) && !any_lacks(&got[..1]));
    }
}
