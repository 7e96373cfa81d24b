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

/// Returns a sentence for each host that has more ranks than processors. Each rank is given as its host (its name and
/// its boot) and the processors on which it may run; a launcher may bind each rank to another processor. A host with a rank whose
/// processors are unknown has no sentence.
pub(crate) fn crowded_hosts<'a>(
    ranks: impl Iterator<Item = ((&'a str, String), Option<&'a str>)>,
) -> Vec<String> {
    let mut hosts: Vec<Host<'_>> = Vec::new();
    for ((name, boot), list) in ranks {
        let processors = list.and_then(parse);
        match hosts.iter_mut().find(|host| host.name == name && host.boot == boot) {
            Some(host) => host.add(processors),
            None => hosts.push(Host { name, boot, ranks: 1, processors }),
        }
    }
    hosts.iter().filter_map(Host::sentence).collect()
}

struct Host<'a> {
    name: &'a str,
    boot: String,
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

    fn sentences(ranks: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        crowded_hosts(ranks.iter().map(|(name, boot, list)| ((*name, (*boot).to_string()), *list)))
    }

    #[test]
    fn only_a_host_with_more_ranks_than_processors_is_noted() {
        let list = Some("0-1");
        let [a, b] = [("a", "1", list), ("b", "1", list)];
        assert_eq!(
            sentences(&[a, b, a, a, b]),
            [
                "3 ranks on 2 processors of a: calls wait for a processor, and latencies include that"
            ]
        );
        assert!(sentences(&[a, a, ("a", "2", list), ("a", "2", list)]).is_empty(), "two hosts");
        let bound = ["0", "1", "2"].map(|list| ("a", "1", Some(list)));
        assert!(sentences(&bound).is_empty(), "each rank has its own");
        let unknown = [Some("0"), None, Some("0")].map(|list| ("a", "1", list));
        assert!(sentences(&unknown).is_empty());
    }
}
