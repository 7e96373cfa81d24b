//! Assigns trees to the ranks that read them after a phase, and collects their observations.

use fsdyno_record::plan::VerifyMode;
use fsdyno_record::ranks::View;

use super::course::Course;
use super::{GroupError, Peer, State};
use crate::messages::{Seen, TreeOf};

impl State {
    /// Returns the trees that each rank reads. The first rank of each client reads the common tree; a rank on a
    /// different client (if there is only one client, the next rank) reads a rank's own tree.
    /// If caches are not dropped before the first phase, each rank also reads its own tree, so that the phase finds it
    /// in the cache.
    pub(super) fn readers(&self, course: &Course<'_>, phase: Option<usize>) -> Vec<Vec<TreeOf>> {
        let mut readers = vec![Vec::new(); self.peers.len()];
        let Some(phase) = phase else {
            for rank in 0..self.peers.len() as u32 {
                let tree = TreeOf { of: Some(course.plan.share_of(rank, 0)), done: Vec::new() };
                let (own, other) = (rank as usize, other(&self.peers, rank));
                readers[other].push(tree.clone());
                if other != own && course.stays_in_cache() {
                    readers[own].push(tree);
                }
            }
            return readers;
        };
        if !course.plan.own {
            let done = course.done_by_directory(phase).first().cloned().unwrap_or_default();
            for leader in self.leaders() {
                if let Some(trees) = readers.get_mut(leader as usize) {
                    trees.push(TreeOf { of: None, done: done.clone() });
                }
            }
            return readers;
        }
        for (share, done) in (0..).zip(course.done_by_directory(phase)) {
            let reader = other(&self.peers, course.plan.rank_of(share, phase));
            if let Some(trees) = readers.get_mut(reader) {
                trees.push(TreeOf { of: Some(share), done: done.clone() });
            }
        }
        readers
    }
}

/// Returns a rank on a client different from that of `rank`: a different one for each rank, as far as possible.
fn other(peers: &[Peer], rank: u32) -> usize {
    let clients: Vec<u32> = peers.iter().map(|peer| peer.client).collect();
    other_of(&clients, rank as usize)
}

fn other_of(clients: &[u32], rank: usize) -> usize {
    let Some(own) = clients.get(rank) else { return 0 };
    let together = clients.iter().filter(|client| *client == own).count();
    let count = clients.len();
    let around = (0..count).map(|step| (rank + together + step) % count);
    let mut elsewhere = around.filter(|at| clients[*at] != *own);
    elsewhere.next().unwrap_or((rank + 1) % count)
}

/// Adds the observations to the measured values.
///
/// # Errors
/// A difference remained; the message contains the first one.
pub(super) fn add(
    course: &mut Course<'_>,
    phase: Option<usize>,
    mode: VerifyMode,
    readers: &[Vec<TreeOf>],
    seen: &[Vec<Seen>],
) -> Result<(), GroupError> {
    let total = &mut course.measured.verify;
    total.mode = mode;
    let mut first = None;
    for (rank, (trees, all)) in (0..).zip(readers.iter().zip(seen)) {
        for (tree, one) in trees.iter().zip(all) {
            let Seen { report, stale, settled } = one;
            total.files += report.files;
            total.directories += report.directories;
            total.bytes = total.bytes + report.bytes;
            total.problems += report.problems;
            total.missing += report.missing;
            total.extra += report.extra;
            total.elapsed_ns = total.elapsed_ns.max(report.elapsed_ns);
            let by = format!("as rank {rank} sees it, ");
            total.examples.extend(report.examples.iter().map(|text| format!("{by}{text}")));
            if first.is_none() {
                first = total.examples.first().cloned();
            }
            let view = View {
                rank,
                of: tree.of,
                files: report.files,
                missing: report.missing,
                extra: report.extra,
                wrong: report.problems.saturating_sub(report.missing + report.extra),
                stale: *stale,
                settled_ns: *settled,
            };
            if let Some(ranks) = phase.and_then(|phase| course.ranks.phases.get_mut(phase)) {
                ranks.views.push(view);
            }
        }
    }
    let place = match phase {
        Some(phase) => format!("after phase {}", course.phases[phase].name),
        None => "before the first phase".to_string(),
    };
    let stale: u64 = seen.iter().flatten().map(|one| one.stale).sum();
    if stale > 0 {
        let longest = seen.iter().flatten().map(|one| one.settled).max().unwrap_or_default();
        course.notes.push(format!(
            "{place} clients showed {stale} entries in an earlier state for up to {longest}; a file system that \
             caches attributes is allowed to do this (close-to-open consistency; nfs(5), acregmax and acdirmax)"
        ));
    }
    match first {
        Some(first) => Err(GroupError::Failed(format!(
            "verify found {} differences {place}: {first}",
            course.measured.verify.problems
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_by_another_client_where_there_is_one() {
        let readers_of = |clients: &[u32]| -> Vec<usize> {
            (0..clients.len()).map(|rank| other_of(clients, rank)).collect()
        };
        assert_eq!(readers_of(&[0, 0, 1, 1]), [2, 3, 0, 1]);
        assert_eq!(readers_of(&[0, 1, 0, 1]), [3, 0, 1, 2]);
        assert_eq!(readers_of(&[0, 0, 0]), [1, 2, 0]);
        assert_eq!(readers_of(&[0]), [0]);
        assert_eq!(readers_of(&[0, 0, 1]), [2, 2, 0]);
    }
}
