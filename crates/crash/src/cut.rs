//! Chooses crash points and surviving writes: a stratified sample, mostly at times at which a loss is most likely.

use std::collections::BTreeMap;
use std::ops::Range;

use fsdyno_disk::log::data::{Event, EventKind};
use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, PhaseEventKind};
use fsdyno_record::seed::{SplitMix64, stream};
use serde::{Deserialize, Serialize};

/// One power cut: its time, and what survives of the disk's volatile cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Cut {
    /// Number of the cut in its series, from 0.
    pub number: u32,
    /// Number of events of the data log before the cut.
    pub after: u32,
    /// Time of the cut. Ops that returned before it count as returned.
    pub at: Nanos,
    /// Kind of moment.
    pub moment: Moment,
    /// Surviving writes.
    pub choice: SurvivingWrites,
    /// Random number of this cut, for the faults of a faulty disk.
    pub draw: u64,
}

/// A cut as stored.
#[derive(Deserialize)]
struct Stored {
    number: u32,
    after: u32,
    at: Nanos,
    moment: Moment,
    choice: SurvivingWrites,
    /// Absent from older records, whose disk faults were drawn from the number.
    draw: Option<u64>,
}

impl From<Stored> for Cut {
    fn from(stored: Stored) -> Cut {
        let Stored { number, after, at, moment, choice, draw } = stored;
        Cut { number, after, at, moment, choice, draw: draw.unwrap_or(number.into()) }
    }
}

impl Cut {
    /// Returns the key that sorts cuts by time: in this order, neither the events nor the times go backwards.
    pub fn sort_key(&self) -> (u32, Nanos, u32) {
        (self.after, self.at, self.number)
    }
}

/// The kind of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Right before a flush was received: the cache is at its fullest.
    BeforeFlush,
    /// While a flush was in progress.
    DuringFlush,
    /// Right after a flush was answered.
    AfterFlush,
    /// Right after an fsync(2), sync(2) or syncfs(2) returned: everything that it acknowledged must survive.
    AfterAcknowledgement,
    /// Any time.
    Between,
}

/// The moments of ten consecutive cuts.
const MOMENTS: [Moment; 10] = [
    Moment::AfterAcknowledgement,
    Moment::DuringFlush,
    Moment::AfterAcknowledgement,
    Moment::BeforeFlush,
    Moment::Between,
    Moment::AfterAcknowledgement,
    Moment::DuringFlush,
    Moment::AfterAcknowledgement,
    Moment::BeforeFlush,
    Moment::AfterFlush,
];

/// The writes, among those in the volatile cache, that are on the medium after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurvivingWrites {
    /// Nothing.
    Nothing,
    /// All.
    All,
    /// Each write survives completely or not at all, as drawn from the seed.
    Writes(u64),
    /// Likewise for each physical sector of a write.
    Sectors(u64),
    /// All writes up to one torn write, of which the first, the last or arbitrary physical sectors survive.
    Torn(u64),
}

/// The fault of the disk that loses power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFault {
    /// No fault: flushed or destaged data is on the medium.
    #[default]
    Honest,
    /// Answers a flush and writes nothing for it.
    DropsFlushes,
    /// Answers a flush before earlier writes are on the medium, and writes newer ones first.
    Reorders,
    /// Leaves one of its last writes half written within a physical sector, although it answered a flush.
    Tears,
}

impl DiskFault {
    /// All faults, each with its name on the command line and its meaning.
    pub const ALL: &[(&str, &str, DiskFault)] = &[
        ("honest", "Flushed data are on the medium", DiskFault::Honest),
        ("drops-flushes", "Answers a flush and writes nothing for it", DiskFault::DropsFlushes),
        (
            "reorders",
            "Persists writes issued after a flush before earlier writes",
            DiskFault::Reorders,
        ),
        ("tears", "Leaves one of its last writes half written within a sector", DiskFault::Tears),
    ];
}

/// Returns the spans of the timed phases, each from the first op until the sync. Between them, the trial inspects the
/// tree, which is not part of the work.
fn timed_spans(acks: &Acks) -> Vec<(Nanos, Nanos)> {
    let mut spans = Vec::new();
    let mut begin: Option<Nanos> = None;
    for event in &acks.events {
        match event.kind {
            PhaseEventKind::Begin => begin = begin.or(Some(event.time)),
            PhaseEventKind::Returned => {}
            PhaseEventKind::Synced => spans.extend(begin.take().map(|begin| (begin, event.time))),
        }
    }
    let last = acks.events.last().map_or(Nanos(0), |event| event.time);
    spans.extend(begin.map(|begin| (begin, last)));
    spans
}

/// Returns the ranges of events at which a cut can occur: within the timed phases.
pub fn windows(events: &[Event], acks: &Acks) -> Vec<Range<usize>> {
    let end_index = |time: Nanos| events.partition_point(|event| event.at <= time);
    let windows =
        timed_spans(acks).into_iter().map(|(begin, end)| end_index(begin)..end_index(end));
    windows.filter(|window| window.start < window.end).collect()
}

/// Returns the flushes of the timed phases: for each, the indices of the request and its answer.
fn flushes(events: &[Event], windows: &[Range<usize>]) -> Vec<(usize, usize)> {
    let answers = windows.iter().flat_map(|window| window.clone());
    answers
        .filter_map(|answer| {
            let event = events.get(answer).filter(|event| event.kind == EventKind::Reply)?;
            let request = event.request? as usize;
            (events[request].kind == EventKind::Flush).then_some((request, answer))
        })
        .collect()
}

/// Draws `count` cuts from `seed`, ordered by moment. Of ten, four come right after a time in `acknowledged`, two
/// before, two during and one after a flush, and one at any time; for a kind without candidates, any time is drawn. The
/// surviving writes rotate within each kind of moment. If the disk received no event at all, as with a file system that
/// acknowledges but writes nothing, moments at any time are drawn from the timed spans.
pub fn choose(
    events: &[Event],
    acks: &Acks,
    acknowledged: &[Nanos],
    seed: u64,
    count: u32,
) -> Vec<Cut> {
    let windows = windows(events, acks);
    let (spans, flushes) = (timed_spans(acks), flushes(events, &windows));
    if spans.iter().all(|(begin, end)| begin == end) {
        return Vec::new();
    }
    let places = windows.iter().map(ExactSizeIterator::len).sum();
    let drawing = Drawing { events, acknowledged, windows, spans, flushes, places };
    let mut draws = stream(seed, "power cuts");
    let mut drawn: BTreeMap<Moment, usize> = BTreeMap::new();
    let mut cuts: Vec<Cut> = (0..count)
        .map(|number| {
            let moment = drawing.moment(number);
            let (after, at) = drawing.place(moment, &mut draws);
            let turn = drawn.entry(moment).or_default();
            let draw = draws.draw();
            let choice = choose_survivors(moment, *turn, draw);
            *turn += 1;
            Cut { number, after: after as u32, at, moment, choice, draw }
        })
        .collect();
    cuts.sort_by_key(Cut::sort_key);
    cuts
}

/// The candidates that cuts are drawn from.
struct Drawing<'a> {
    events: &'a [Event],
    acknowledged: &'a [Nanos],
    windows: Vec<Range<usize>>,
    /// The timed phases.
    spans: Vec<(Nanos, Nanos)>,
    /// The indices at which flushes arrived and were answered.
    flushes: Vec<(usize, usize)>,
    /// The number of events in the windows.
    places: usize,
}

impl Drawing<'_> {
    /// Returns the kind of moment of a cut; `Between` if its kind has no candidates.
    fn moment(&self, number: u32) -> Moment {
        match MOMENTS[number as usize % MOMENTS.len()] {
            Moment::AfterAcknowledgement if self.acknowledged.is_empty() => Moment::Between,
            Moment::BeforeFlush | Moment::DuringFlush | Moment::AfterFlush
                if self.flushes.is_empty() =>
            {
                Moment::Between
            }
            moment => moment,
        }
    }

    /// Draws a moment: the number of events before it, and its time.
    fn place(&self, moment: Moment, draws: &mut SplitMix64) -> (usize, Nanos) {
        let Drawing { events, acknowledged, windows, spans, flushes, places } = self;
        match moment {
            Moment::AfterAcknowledgement => {
                let at = acknowledged[draws.below(acknowledged.len() as u64) as usize];
                (events.partition_point(|event| event.at <= at), Nanos(at.0 + 1))
            }
            Moment::Between if *places == 0 => {
                let at = random_time(spans, draws);
                (events.partition_point(|event| event.at < at), at)
            }
            Moment::Between => {
                let place = draws.below(*places as u64) as usize;
                before_next(events, nth_event(windows, place) + 1)
            }
            Moment::BeforeFlush | Moment::DuringFlush | Moment::AfterFlush => {
                let (request, answer) = flushes[draws.below(flushes.len() as u64) as usize];
                let within = draws.below((answer - request) as u64) as usize;
                before_next(
                    events,
                    match moment {
                        Moment::BeforeFlush => request,
                        Moment::AfterFlush => answer + 1,
                        _ => request + 1 + within.min(answer - request - 1),
                    },
                )
            }
        }
    }
}

/// Draws a time within the timed phases.
fn random_time(spans: &[(Nanos, Nanos)], draws: &mut SplitMix64) -> Nanos {
    let total: u64 = spans.iter().map(|(begin, end)| end.since(*begin).0).sum();
    let mut offset = draws.below(total);
    for (begin, end) in spans {
        let length = end.since(*begin).0;
        if offset < length {
            return Nanos(begin.0 + offset + 1);
        }
        offset -= length;
    }
    Nanos(0)
}

/// Returns the surviving writes of the `turn`th cut of its kind of moment. Half of the cuts after an acknowledgement
/// keep nothing of the cache, which directly shows whether acknowledged data was only in the cache.
fn choose_survivors(moment: Moment, turn: usize, seed: u64) -> SurvivingWrites {
    let partial = |turn: usize| match turn % 4 {
        0 => SurvivingWrites::Writes(seed),
        1 => SurvivingWrites::Sectors(seed),
        2 => SurvivingWrites::Torn(seed),
        _ => SurvivingWrites::All,
    };
    match (moment, turn % 2, turn % 5) {
        (Moment::AfterAcknowledgement, 0, _) => SurvivingWrites::Nothing,
        (Moment::AfterAcknowledgement, ..) => partial(turn / 2),
        (_, _, 4) => SurvivingWrites::Nothing,
        (_, _, turn) => partial(turn),
    }
}

/// Returns event number `n` of all windows, counted one window after the other.
fn nth_event(windows: &[Range<usize>], mut n: usize) -> usize {
    for window in windows {
        if n < window.len() {
            return window.start + n;
        }
        n -= window.len();
    }
    0
}

/// Returns `after` and the last time at which exactly that number of events have happened: just before the next one.
fn before_next(events: &[Event], after: usize) -> (usize, Nanos) {
    let at = match events.get(after) {
        Some(next) => next.at,
        None => events.last().map_or(Nanos(0), |last| last.at + Nanos(1)),
    };
    (after, at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsdyno_disk::log::data::{DataLog, Writer};
    use fsdyno_disk::{Action, Request};
    use fsdyno_record::Bytes;
    use fsdyno_record::acks::PhaseEvent;

    use super::*;

    /// Forty rounds of a write, a flush, a destage and the flush's answer, ten nanoseconds apart.
    fn events() -> Vec<Event> {
        let mut storage = vec![0; 1 << 20];
        let mut writer = Writer::create(&mut storage, 1 << 20, Bytes(1 << 20));
        let request = |action| Request { id: 1, action, sector: 8, sectors: 8, fua: false };
        for round in 0..40u64 {
            let at = |step: u64| Nanos(round * 40 + step * 10);
            writer.begin_write(4096, 4096);
            writer.add_bytes(&[round as u8; 4096]);
            writer.end_write(at(0), &request(Action::Write), false);
            let flush = writer.add_request(at(1), EventKind::Flush, &request(Action::Flush), false);
            writer.add_persisted(at(2), 8, 8);
            writer.add_reply(at(3), &request(Action::Flush), false, flush);
        }
        DataLog::open(storage).unwrap().events().to_vec()
    }

    fn acks(events: &[(PhaseEventKind, u64)]) -> Acks {
        let event = |(kind, at): &(PhaseEventKind, u64)| PhaseEvent {
            kind: *kind,
            phase: 0,
            time: Nanos(*at),
        };
        Acks { events: events.iter().map(event).collect(), ..Acks::default() }
    }

    #[test]
    fn an_old_cut_without_a_draw_uses_its_number() {
        let old = r#"{"number":7,"after":3,"at":9,"moment":"between","choice":"all"}"#;
        let cut: Cut = serde_json::from_str(old).unwrap();
        assert_eq!((cut.number, cut.draw), (7, 7));
        let new = Cut { draw: 5, ..cut };
        let json = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Cut>(&json).unwrap(), new);
    }

    /// Returns the times of acknowledgements: a nanosecond after each answer.
    fn acknowledged(events: &[Event]) -> Vec<Nanos> {
        let answers = events.iter().filter(|event| event.kind == EventKind::Reply);
        answers.map(|event| event.at + Nanos(1)).collect()
    }

    #[test]
    fn cuts_match_their_moments_and_hit_every_flush_and_acknowledgement() {
        let events = events();
        let acks = acks(&[
            (PhaseEventKind::Begin, 400),
            (PhaseEventKind::Returned, 1190),
            (PhaseEventKind::Synced, 1195),
        ]);
        let ranges = windows(&events, &acks);
        assert_eq!((ranges.len(), &ranges[0]), (1, &(41..120)));
        let known: Vec<Nanos> =
            acknowledged(&events).into_iter().filter(|at| (400..=1195).contains(&at.0)).collect();
        let choose = |seed| choose(&events, &acks, &known, seed, 800);
        let cuts = choose(7);
        assert_eq!((cuts.len(), &cuts), (800, &choose(7)));
        assert_ne!(cuts, choose(8));
        assert!(cuts.windows(2).all(|pair| pair[0].after <= pair[1].after));
        assert!(cuts.windows(2).all(|pair| pair[0].at <= pair[1].at), "no moment goes back");
        let (mut flushes, mut acknowledged) = <(BTreeSet<_>, BTreeSet<_>)>::default();
        for cut in &cuts {
            let after = cut.after as usize;
            let (before, next) = (events[after - 1].kind, events[after].kind);
            match cut.moment {
                Moment::BeforeFlush => assert_eq!(next, EventKind::Flush),
                Moment::AfterFlush => assert_eq!(before, EventKind::Reply),
                Moment::DuringFlush => {
                    assert!(matches!(before, EventKind::Flush | EventKind::Persist), "{before:?}");
                    flushes.insert(after / 4);
                }
                Moment::Between => assert!((42..=120).contains(&after)),
                Moment::AfterAcknowledgement => {
                    assert!(events[after - 1].at < cut.at && cut.at <= events[after].at);
                    acknowledged.insert(Nanos(cut.at.0 - 1));
                    continue;
                }
            }
            assert_eq!(cut.at, events[after].at, "every event before the next one has happened");
        }
        assert_eq!(flushes.len(), 20, "each of the window's flushes is cut");
        assert!(acknowledged.into_iter().eq(known), "and each acknowledgement");
    }

    #[test]
    fn of_ten_cuts_four_follow_an_acknowledgement_and_nothing_survives_two_of_them() {
        let events = events();
        let acks = acks(&[(PhaseEventKind::Begin, 0), (PhaseEventKind::Synced, 2000)]);
        let known = acknowledged(&events);
        let counts = |count: u32| {
            let cuts = choose(&events, &acks, &known, 3, count);
            let count = |moment: Moment, nothing: bool| {
                let matching = cuts.iter().filter(move |cut| cut.moment == moment);
                matching.filter(|cut| !nothing || cut.choice == SurvivingWrites::Nothing).count()
            };
            let acknowledged = Moment::AfterAcknowledgement;
            let flush = [Moment::BeforeFlush, Moment::DuringFlush, Moment::AfterFlush];
            let flush = flush.map(|moment| count(moment, false));
            (
                count(acknowledged, false),
                count(acknowledged, true),
                flush,
                count(Moment::Between, false),
            )
        };
        assert_eq!(counts(10), (4, 2, [2, 2, 1], 1));
        assert_eq!(counts(1000), (400, 200, [200, 200, 100], 100));
    }

    #[test]
    fn a_trial_without_a_flush_or_without_a_request_is_cut_anywhere() {
        let mut events = events();
        let whole = acks(&[(PhaseEventKind::Begin, 0), (PhaseEventKind::Synced, 2000)]);
        let silent = acks(&[
            (PhaseEventKind::Begin, 5000),
            (PhaseEventKind::Synced, 6000),
            (PhaseEventKind::Begin, 8000),
        ]);
        let cuts = choose(&events, &silent, &[], 1, 40);
        assert_eq!(cuts.len(), 40, "a file system that sends no request is cut too");
        assert!(cuts.iter().all(|cut| cut.after as usize == events.len()));
        assert!(cuts.iter().all(|cut| (5001..=6000).contains(&cut.at.0)));
        assert!(cuts.windows(2).all(|pair| pair[0].at <= pair[1].at) && cuts[0].at != cuts[39].at);
        let known = [Nanos(5500)];
        let cuts = choose(&events, &silent, &known, 1, 40);
        let acknowledged = cuts.iter().filter(|cut| cut.at == Nanos(5501));
        assert_eq!(acknowledged.count(), 16, "and right after an acknowledgement");
        assert!(choose(&events, &acks(&[]), &[], 1, 9).is_empty(), "nothing was timed");
        events.retain(|event| event.kind == EventKind::Write);
        let cuts = choose(&events, &whole, &[], 1, 40);
        assert!(cuts.len() == 40 && cuts.iter().all(|cut| cut.moment == Moment::Between));
    }
}
