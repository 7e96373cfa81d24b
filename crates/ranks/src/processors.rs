//! The processors on which ranks may run: notes hosts with more ranks than processors.

use std::collections::BTreeSet;

use fsdyno_record::units::counted;

/// Maximum length of a list of processors in a message.
const MAX_TEXT: usize = 4096;

/// Maximum number of processors of a host that are counted; more are ignored.
const MAX_PROCESSORS: usize = 1 << 16;

/// Returns the processors on which this process may run, as the kernel lists them: `0-3,8`; None if unknown.
pub(crate) fn allowed() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    (list.len() <= MAX_TEXT).then(|| list.to_string())
}

/// Returns a sentence for each host that has more ranks than processors. Each rank is given as its host and the
/// processors on which it may run; a launcher may bind each rank to another processor. A host with a rank whose
/// processors are unknown has no sentence.
pub(crate) fn crowded_hosts<'a>(
    ranks: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<String> {
    let mut hosts: Vec<Host<'_>> = Vec::new();
    for (name, list) in ranks {
        let processors = list.and_then(parse);
        match hosts.iter_mut().find(|host| host.name == name) {
            Some(host) => host.add(processors),
            None => hosts.push(Host { name, ranks: 1, processors }),
        }
    }
    hosts.iter().filter_map(Host::sentence).collect()
}

struct Host<'a> {
    name: &'a str,
    ranks: usize,
    /// The processors of all its ranks, if they are known for each rank.
    processors: Option<BTreeSet<u32>>,
}

impl Host<'_> {
    fn add(&mut self, processors: Option<BTreeSet<u32>>) {
        self.ranks += 1;
        self.processors = match (self.processors.take(), processors) {
            (Some(all), Some(more)) => Some(all.into_iter().chain(more).collect()),
            _ => None,
        };
    }

    fn sentence(&self) -> Option<String> {
        let processors = self.processors.as_ref()?.len();
        (processors < self.ranks).then(|| {
            format!(
                "{} on {} of {}: calls wait for a processor, and latencies include that",
                counted(self.ranks, "rank"),
                counted(processors, "processor"),
                self.name
            )
        })
    }
}

/// Parses `0-3,8`; None if the list is empty or has another form.
fn parse(list: &str) -> Option<BTreeSet<u32>> {
    let mut processors = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        processors.extend((first..=last).take(MAX_PROCESSORS.saturating_sub(processors.len())));
    }
    (!processors.is_empty()).then_some(processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_run_on_a_processor() {
        assert!(parse(&allowed().unwrap()).is_some_and(|processors| !processors.is_empty()));
    }

    #[test]
    fn a_list_of_processors_is_parsed() {
        let count = |list: &str| parse(list).map(|processors| processors.len());
        assert_eq!(["0", "0-3,8", "2,2"].map(count), [Some(1), Some(5), Some(1)]);
        assert_eq!(["", "x", "0-", "1,,2", "5-4"].map(count), [None; 5]);
        assert_eq!(count("0-4294967295,7"), Some(MAX_PROCESSORS));
    }

    #[test]
    fn only_a_host_with_more_ranks_than_processors_is_noted() {
        let ranks = [
            ("a", Some("0-1")),
            ("b", Some("0-1")),
            ("a", Some("0-1")),
            ("a", Some("0-1")),
            ("b", Some("0-1")),
        ];
        assert_eq!(
            crowded_hosts(ranks.into_iter()),
            ["3 ranks on 2 processors of a: calls wait for a processor, and latencies include \
                 that"]
        );
        let bound = [("a", Some("0")), ("a", Some("1")), ("a", Some("2"))];
        assert!(crowded_hosts(bound.into_iter()).is_empty(), "each rank has its own");
        let unknown = [("a", Some("0")), ("a", None), ("a", Some("0"))];
        assert!(crowded_hosts(unknown.into_iter()).is_empty());
    }
}
