//! The positions in a recording at which a phase can begin: marks, and commands that the recorded command starts.

use std::collections::HashSet;

use fsdyno_trace::{Call, Event, ThreadId};

/// The maximum number of positions of each kind; the last phase extends to the end.
const MAX_PLACES: usize = 255;

/// A position at which a phase can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// True for a mark, false for a command.
    pub is_mark: bool,
    /// The name of the mark or of the program.
    pub name: Vec<u8>,
}

/// The state that determines which execs are commands, according to the events so far.
#[derive(Debug)]
pub struct Phases {
    /// The threads of the recorded command's first process.
    first: HashSet<ThreadId>,
    /// The processes that it has started and that have not called execve(2) yet.
    started: HashSet<ThreadId>,
    /// True once the recorded command itself is running.
    runs: bool,
    counts: [usize; 2],
}

impl Default for Phases {
    fn default() -> Phases {
        let first = [ThreadId(0)].into();
        Phases { first, started: HashSet::new(), runs: false, counts: [0; 2] }
    }
}

impl Phases {
    /// Processes the next event; returns the position that it marks, if any.
    pub fn event(&mut self, event: &Event) -> Option<Place> {
        let thread = event.thread;
        let (is_mark, name) = match &event.call {
            Call::Spawn { child, process } if self.first.contains(&thread) => {
                let threads = if *process { &mut self.started } else { &mut self.first };
                threads.insert(*child);
                return None;
            }
            Call::Mark { name } => (true, name),
            Call::Exec { program, .. } if event.result >= 0 && self.started.remove(&thread) => {
                (false, program)
            }
            Call::Exec { program, .. } if event.result >= 0 && self.first.contains(&thread) => {
                if !std::mem::replace(&mut self.runs, true) {
                    return None;
                }
                (false, program)
            }
            _ => return None,
        };
        let count = &mut self.counts[usize::from(is_mark)];
        *count += 1;
        (*count <= MAX_PLACES).then(|| Place { is_mark, name: name.bytes().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_trace::Name;

    use super::*;

    fn event(thread: u32, call: Call) -> Event {
        Event { thread: ThreadId(thread), think: 0, start: 0, duration: 0, result: 0, call }
    }

    fn exec(thread: u32, program: &str) -> Event {
        let program = Name::new(program.as_bytes()).unwrap();
        event(thread, Call::Exec { program, at: None })
    }

    fn spawn(thread: u32, child: u32, process: bool) -> Event {
        event(thread, Call::Spawn { child: ThreadId(child), process })
    }

    #[test]
    fn marks_and_commands_of_the_first_process_are_places_and_those_of_its_children_are_not() {
        let mark = event(3, Call::Mark { name: Name::new(b"here").unwrap() });
        let events = [
            exec(0, "sh"),
            spawn(0, 1, true),
            exec(1, "git"),
            spawn(1, 2, true),
            exec(2, "index-pack"),
            exec(1, "git-again"),
            mark,
            spawn(0, 3, false),
            spawn(3, 4, true),
            exec(4, "rm"),
            exec(0, "last"),
        ];
        let mut phases = Phases::default();
        let places = events.iter().filter_map(|event| phases.event(event));
        let named: Vec<(bool, String)> =
            places.map(|place| (place.is_mark, String::from_utf8(place.name).unwrap())).collect();
        let expected = [(false, "git"), (true, "here"), (false, "rm"), (false, "last")];
        assert_eq!(named, expected.map(|(is_mark, name)| (is_mark, name.to_string())));
    }
}
