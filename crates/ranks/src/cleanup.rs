//! Cleans up after a run whose rank 0 has ended: one of the other ranks claims the cleanup, and removes the files of
//! the run in the shared directory, or reports where they are.

use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_media::{MediaError, Note, clean, leftovers};
use fsdyno_record::shell::quote;

use crate::launcher::Position;
use crate::meet::{self, Meeting};

/// Time for which ranks on other hosts let a rank on rank 0's host clean up: only that host can determine that rank
/// 0's process has ended.
const NEAR_FIRST: Duration = Duration::from_secs(1);

/// Maximum time for workers to leave the directory.
const LEAVE: Duration = Duration::from_secs(5);

/// Minimum time for which a claim holds: other ranks may notice later that rank 0 is gone.
const CLAIM: Duration = Duration::from_secs(2);

/// A process ID that no process has (proc(5), pid_max): `fsdyno doctor --clean` removes the claim of a killed rank.
const NO_PROCESS: i32 = 4_194_304;

/// Removes `folder`, which a run whose rank 0 is gone created in the shared directory `on`. Returns the message for the
/// user; None if another rank cleans up.
pub fn clean_up(
    position: &Position,
    meeting: &Meeting,
    on: &Path,
    folder: Option<&str>,
) -> Option<String> {
    if meeting.boot != meet::boot() {
        std::thread::sleep(NEAR_FIRST);
    }
    let begin = Instant::now();
    let claim = match Note::claim(on, &claim_name(meeting)) {
        Ok(Some(claim)) => Some(claim),
        Ok(None) => return None,
        // If no file can be created, each rank reports what it knows.
        Err(_) => None,
    };
    meet::forget(position, on, meeting);
    let left = folder.map(|name| remove(on, name)).unwrap_or_default();
    if claim.is_some() {
        std::thread::sleep(CLAIM.saturating_sub(begin.elapsed()));
    }
    let host = meeting.hosts.first().map_or("its host", String::as_str);
    Some(format!(
        "rank 0 on {host} has ended without a message: its process was killed, or its host or the network is down; the \
         other ranks end, too{left}"
    ))
}

fn claim_name(meeting: &Meeting) -> String {
    let proof = meeting.secret.proof(&["cleanup"]);
    format!(".fsdyno-{NO_PROCESS}-{}", proof.get(..16).unwrap_or_default())
}

/// Removes the trial's directory once its owner and the workers have left it. Returns the end of the message.
fn remove(on: &Path, name: &str) -> String {
    let path = on.join(name);
    let begin = Instant::now();
    loop {
        if matches!(path.symlink_metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
        {
            return format!("; '{}' is removed", path.display());
        }
        let leftover = leftovers(on).map(|all| all.into_iter().find(|one| one.path == path));
        let removed = leftover.and_then(|found| found.as_ref().map(clean).transpose());
        let is_late = begin.elapsed() > LEAVE;
        match removed {
            Ok(Some(())) => {}
            Ok(None) if is_late => return remains_message(&path, on, None),
            Err(error) if is_late => return remains_message(&path, on, Some(&error)),
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn remains_message(path: &Path, on: &Path, error: Option<&MediaError>) -> String {
    let why = match error {
        Some(error) => error.to_string(),
        None => "whether the process of rank 0 has ended is known only on its host".into(),
    };
    format!(
        "; '{}' remains ({why}); remove it there with: fsdyno doctor --clean {}",
        path.display(),
        quote(&on.to_string_lossy())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::Kind;
    use crate::secret::Secret;

    fn position() -> Position {
        let run = Some("a".to_string());
        Position { kind: Kind::Environment, rank: 1, ranks: 3, run, pmi: None }
    }

    /// Creates the trial directory of a process that has ended.
    fn create_leftover(on: &Path, boot: &str) -> String {
        let name = format!(".fsdyno-{NO_PROCESS}-0123456789abcdef");
        std::fs::create_dir_all(on.join(&name).join("root/d")).unwrap();
        std::fs::write(on.join(&name).join("root/d/f"), "").unwrap();
        let owner =
            format!("pid {NO_PROCESS}\nboot {boot}\nstarted 5\nnamespace 1\nnode elsewhere\n");
        let text = format!("fsdyno works here; made and removed by it\n{owner}");
        std::fs::write(on.join(&name).join("fsdyno.marker"), text).unwrap();
        name
    }

    fn meeting() -> Meeting {
        let secret = Secret::draw().unwrap();
        Meeting { hosts: vec!["node7".into()], port: 7, secret, boot: meet::boot() }
    }

    #[test]
    fn one_rank_removes_the_directory_and_the_others_print_nothing() {
        let on = tempfile::tempdir().unwrap();
        let meeting = meeting();
        let name = format!(".fsdyno-{NO_PROCESS}-0123456789abcdef");
        std::fs::create_dir(on.path().join(&name)).unwrap();
        let messages: Vec<String> = std::thread::scope(|scope| {
            let each = || scope.spawn(|| clean_up(&position(), &meeting, on.path(), Some(&name)));
            let all: Vec<_> = (0..5).map(|_| each()).collect();
            all.into_iter().filter_map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].contains("rank 0 on node7") && messages[0].contains("is removed"),
            "{messages:?}"
        );
        assert_eq!(std::fs::read_dir(on.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_another_host_may_still_use_is_kept_and_named() {
        let on = tempfile::tempdir().unwrap();
        let name = create_leftover(on.path(), "another");
        let messages = remove(on.path(), &name);
        assert!(messages.contains("remains") && messages.contains("doctor --clean"), "{messages}");
        assert!(on.path().join(&name).join("root/d/f").exists());
    }

    #[test]
    fn the_note_of_the_run_is_removed_and_that_of_another_run_is_not() {
        let on = tempfile::tempdir().unwrap();
        let first = Position { rank: 0, ..position() };
        let (_listener, meeting, note) = meet::open(&first, on.path()).unwrap();
        std::mem::forget(note);
        let other = Meeting { secret: Secret::draw().unwrap(), ..meeting.clone() };
        meet::forget(&position(), on.path(), &other);
        assert_eq!(std::fs::read_dir(on.path()).unwrap().count(), 1);
        meet::forget(&position(), on.path(), &meeting);
        assert_eq!(std::fs::read_dir(on.path()).unwrap().count(), 0);
    }
}
