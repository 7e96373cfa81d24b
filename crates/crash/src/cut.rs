//! Which moments, and what of the cache.

use std::ops::Range;

use fsdyno_disk::log::data::{Event, What};
use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, What as Did};
use fsdyno_record::seed::{SplitMix64, stream};
use serde::{Deserialize, Serialize};

/// The power is cut at a moment, and of what the disk's cache held then something survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Cut {
    /// Its number in its series, from 0.
    pub number: u32,
    /// How many events of the log of bytes had happened.
    pub after: u32,
    /// The moment: ops that had come back before it, had come back.
    pub at: Nanos,
    /// What the moment is.
    pub moment: Moment,
    /// What survives of what was in the cache.
    pub choice: Choice,
    /// Drawn for this cut: what a disk that lies does with what it held back.
    pub draw: u64,
}

/// A cut as it is read.
#[derive(Deserialize)]
struct Stored {
    number: u32,
    after: u32,
    at: Nanos,
    moment: Moment,
    choice: Choice,
    /// Older ones have none; what a disk did was drawn from their number.
    draw: Option<u64>,
}

impl From<Stored> for Cut {
    fn from(stored: Stored) -> Cut {
        let Stored { number, after, at, moment, choice, draw } = stored;
        Cut { number, after, at, moment, choice, draw: draw.unwrap_or(number.into()) }
    }
}

/// What a moment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Right before a flush came in: the cache is at its fullest.
    BeforeFlush,
    /// While a flush was done.
    DuringFlush,
    /// Right after one was answered.
    AfterFlush,
    /// Anywhere.
    Between,
}

/// What survives of what was in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Nothing.
    Nothing,
    /// All.
    All,
    /// Of each write all or nothing, drawn from the seed.
    Writes(u64),
    /// Of each physical sector of a write, likewise.
    Sectors(u64),
    /// All writes up to one that is torn: of it the first physical sectors, the last ones, or any.
    Torn(u64),
}

/// What kind of disk loses its power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disk {
    /// The modelled one: what it has flushed or destaged is on the medium.
    #[default]
    Honest,
    /// It answers a flush and writes nothing for it.
    DropsFlushes,
    /// It answers a flush before what came earlier is on the medium, and writes newer things first.
    Reorders,
    /// It leaves one of its last writes half written within a physical sector, though it had answered a flush.
    Tears,
}

impl Disk {
    /// Every kind, with the name that the command line takes and what it means.
    pub const ALL: &[(&str, &str, Disk)] = &[
        ("honest", "What it has flushed is on the medium", Disk::Honest),
        ("drops-flushes", "Answers a flush and writes nothing for it", Disk::DropsFlushes),
        ("reorders", "Writes what came after a flush before what came earlier", Disk::Reorders),
        ("tears", "Leaves one of its last writes half written within a sector", Disk::Tears),
    ];
}

/// When timed phases were at work: from their first op until they were synced. Between them the trial is
/// looked at, which is no part of the work.
fn spans(acks: &Acks) -> Vec<(Nanos, Nanos)> {
    let mut spans = Vec::new();
    let mut begin: Option<Nanos> = None;
    for mark in &acks.marks {
        match mark.what {
            Did::Begin => begin = begin.or(Some(mark.at)),
            Did::Returned => {}
            Did::Synced => spans.extend(begin.take().map(|begin| (begin, mark.at))),
        }
    }
    let last = acks.marks.last().map_or(Nanos(0), |mark| mark.at);
    spans.extend(begin.map(|begin| (begin, last)));
    spans
}

/// The events at which a cut can come: those of timed phases.
pub fn windows(events: &[Event], acks: &Acks) -> Vec<Range<usize>> {
    let until = |time: Nanos| events.partition_point(|event| event.at <= time);
    let windows = spans(acks).into_iter().map(|(begin, end)| until(begin)..until(end));
    windows.filter(|window| window.start < window.end).collect()
}

/// A flush: the event that brought it, and that of its answer.
fn flushes(events: &[Event], windows: &[Range<usize>]) -> Vec<(usize, usize)> {
    let answers = windows.iter().flat_map(|window| window.clone());
    answers
        .filter_map(|answer| {
            let event = events.get(answer).filter(|event| event.what == What::Answer)?;
            let came = event.of? as usize;
            (events[came].what == What::Flush).then_some((came, answer))
        })
        .collect()
}

/// Draws `count` cuts from `seed`: of four one before, one during, and one after a flush, and one
/// anywhere; where there are no flushes all anywhere. Of five, one leaves nothing of the cache, one
/// all, one whole writes, one sectors, one a torn write. They come in the order of their moments. Where
/// the disk was told nothing at all, which a file system may do that keeps no promise, the moments are
/// drawn from the time.
pub fn choose(events: &[Event], acks: &Acks, seed: u64, count: u32) -> Vec<Cut> {
    let windows = windows(events, acks);
    let places: usize = windows.iter().map(ExactSizeIterator::len).sum();
    let mut draws = stream(seed, "power cuts");
    if places == 0 {
        return by_time(events, acks, draws, count);
    }
    let flushes = flushes(events, &windows);
    let mut cuts: Vec<Cut> = (0..count)
        .map(|number| {
            let (moment, after) = match (number % 4, flushes.is_empty()) {
                (3, _) | (_, true) => {
                    let place = draws.below(places as u64) as usize;
                    (Moment::Between, anywhere(&windows, place) + 1)
                }
                (which, false) => {
                    let (came, answered) = flushes[draws.below(flushes.len() as u64) as usize];
                    match which {
                        0 => (Moment::BeforeFlush, came),
                        1 => {
                            let within = draws.below((answered - came) as u64) as usize;
                            (Moment::DuringFlush, came + 1 + within.min(answered - came - 1))
                        }
                        _ => (Moment::AfterFlush, answered + 1),
                    }
                }
            };
            let draw = draws.draw();
            let (choice, at) = (choice(number, draw), moment_of(events, after));
            Cut { number, after: after as u32, at, moment, choice, draw }
        })
        .collect();
    cuts.sort_by_key(|cut| (cut.after, cut.number));
    cuts
}

/// Cuts at moments of the timed phases that no event tells apart.
fn by_time(events: &[Event], acks: &Acks, mut draws: SplitMix64, count: u32) -> Vec<Cut> {
    let spans = spans(acks);
    let all: u64 = spans.iter().map(|(begin, end)| end.since(*begin).0).sum();
    if all == 0 {
        return Vec::new();
    }
    let mut cuts: Vec<Cut> = (0..count)
        .map(|number| {
            let (mut place, mut at) = (draws.below(all), Nanos(0));
            for (begin, end) in &spans {
                let length = end.since(*begin).0;
                if place < length {
                    at = Nanos(begin.0 + place + 1);
                    break;
                }
                place -= length;
            }
            let draw = draws.draw();
            let after = events.partition_point(|event| event.at < at) as u32;
            let (moment, choice) = (Moment::Between, choice(number, draw));
            Cut { number, after, at, moment, choice, draw }
        })
        .collect();
    cuts.sort_by_key(|cut| (cut.at, cut.number));
    cuts
}

fn choice(number: u32, seed: u64) -> Choice {
    match number % 5 {
        0 => Choice::Nothing,
        1 => Choice::Writes(seed),
        2 => Choice::All,
        3 => Choice::Sectors(seed),
        _ => Choice::Torn(seed),
    }
}

/// Place `place` of all windows, one behind the other.
fn anywhere(windows: &[Range<usize>], mut place: usize) -> usize {
    for window in windows {
        if place < window.len() {
            return window.start + place;
        }
        place -= window.len();
    }
    0
}

/// The last moment at which `after` events have happened and no more: just before the next.
fn moment_of(events: &[Event], after: usize) -> Nanos {
    match events.get(after) {
        Some(next) => next.at,
        None => events.last().map_or(Nanos(0), |last| last.at + Nanos(1)),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_disk::log::data::{DataLog, Writer};
    use fsdyno_disk::{Action, Request};
    use fsdyno_record::Bytes;
    use fsdyno_record::acks::Mark;

    use super::*;

    /// Forty rounds of a write, a flush, what lands and its answer, ten nanoseconds apart.
    fn events() -> Vec<Event> {
        let mut held = vec![0; 1 << 20];
        let mut writer = Writer::create(&mut held, 1 << 20, Bytes(1 << 20));
        let request = |action| Request { id: 1, action, sector: 8, sectors: 8, fua: false };
        for round in 0..40u64 {
            let at = |step: u64| Nanos(round * 40 + step * 10);
            writer.begin(4096, 4096);
            writer.bytes(&[round as u8; 4096]);
            writer.whole(at(0), &request(Action::Write), false);
            let flush = writer.came(at(1), What::Flush, &request(Action::Flush), false);
            writer.landed(at(2), 8, 8);
            writer.answered(at(3), &request(Action::Flush), false, flush);
        }
        DataLog::open(held).unwrap().events().to_vec()
    }

    fn acks(marks: &[(Did, u64)]) -> Acks {
        let mark = |(what, at): &(Did, u64)| Mark { what: *what, phase: 0, at: Nanos(*at) };
        Acks { marks: marks.iter().map(mark).collect(), returned: Vec::new() }
    }

    #[test]
    fn a_cut_from_before_draws_is_that_of_its_number() {
        let old = r#"{"number":7,"after":3,"at":9,"moment":"between","choice":"all"}"#;
        let cut: Cut = serde_json::from_str(old).unwrap();
        assert_eq!((cut.number, cut.draw), (7, 7));
        let new = Cut { draw: 5, ..cut };
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Cut>(&text).unwrap(), new);
    }

    #[test]
    fn cuts_come_where_they_say_and_at_every_flush_where_there_are_enough() {
        let events = events();
        let acks = acks(&[(Did::Begin, 400), (Did::Returned, 1190), (Did::Synced, 1195)]);
        let found = windows(&events, &acks);
        assert_eq!((found.len(), &found[0]), (1, &(41..120)));
        let cuts = choose(&events, &acks, 7, 800);
        assert_eq!(cuts.len(), 800);
        assert_eq!(cuts, choose(&events, &acks, 7, 800));
        assert_ne!(cuts, choose(&events, &acks, 8, 800));
        assert!(cuts.windows(2).all(|pair| pair[0].after <= pair[1].after));
        let mut flushes = std::collections::BTreeSet::new();
        for cut in &cuts {
            let after = cut.after as usize;
            let (before, next) = (events[after - 1].what, events[after].what);
            match cut.moment {
                Moment::BeforeFlush => assert_eq!(next, What::Flush),
                Moment::AfterFlush => assert_eq!(before, What::Answer),
                Moment::DuringFlush => {
                    assert!(matches!(before, What::Flush | What::Land), "{before:?}");
                    flushes.insert(after / 4);
                }
                Moment::Between => assert!((42..=120).contains(&after)),
            }
            assert_eq!(
                cut.at, events[after].at,
                "all that came before the next event had happened"
            );
        }
        assert_eq!(flushes.len(), 20, "each of the window's flushes is cut");
        for choice in [Choice::Nothing, Choice::All] {
            assert_eq!(cuts.iter().filter(|cut| cut.choice == choice).count(), 160);
        }
    }

    #[test]
    fn a_trial_without_a_flush_or_without_a_request_is_cut_anywhere() {
        let mut events = events();
        let all = acks(&[(Did::Begin, 0), (Did::Synced, 2000)]);
        let silent = acks(&[(Did::Begin, 5000), (Did::Synced, 6000), (Did::Begin, 8000)]);
        let cuts = choose(&events, &silent, 1, 40);
        assert_eq!(cuts.len(), 40, "a file system that tells the disk nothing is cut too");
        assert!(cuts.iter().all(|cut| cut.after as usize == events.len()));
        assert!(cuts.iter().all(|cut| (5001..=6000).contains(&cut.at.0)));
        assert!(cuts.windows(2).all(|pair| pair[0].at <= pair[1].at) && cuts[0].at != cuts[39].at);
        assert!(choose(&events, &acks(&[]), 1, 9).is_empty(), "nothing was timed");
        events.retain(|event| event.what == What::Write);
        let cuts = choose(&events, &all, 1, 40);
        assert!(cuts.len() == 40 && cuts.iter().all(|cut| cut.moment == Moment::Between));
    }
}
