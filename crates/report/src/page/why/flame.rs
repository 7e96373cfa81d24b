//! A flame graph: the width of a function is the number of instructions in it and its callees, or their estimated
//! time; callees are below callers. For two results, the colour shows the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fsdyno_why::kernel::{Frame, Task};
use fsdyno_why::{Explained, Phase};

use super::super::chart::{Chart, Key, percent};
use crate::markup::escape;
use crate::number::sanitize;

/// Height of a row, in pixels.
const ROW_HEIGHT: f64 = 17.0;
/// Functions narrower than this fraction of the whole are omitted and counted.
const MIN_WIDTH: f64 = 0.001;
/// The minimum width of a function with a name, as a fraction of the whole: wide enough for a few characters in
/// a chart in its own file.
const MIN_NAMED_WIDTH: f64 = 0.03;
/// Functions below this depth are omitted.
const MAX_DEPTH: usize = 64;

/// The CSS class of each layer, the same in every graph.
fn class(layer: &str) -> &'static str {
    match layer {
        "user" => "n2",
        "entry" | "kernel" => "n1",
        "scheduler" => "f3",
        "locks" => "f4",
        "block" => "f5",
        "memory" => "f2",
        "files" => "f1",
        "sockets" => "f7",
        // Functions that are too small to be kept by name.
        layer if layer.starts_with('(') => "n3",
        // A module: the file system, the journal, the driver.
        _ => "f0",
    }
}

/// The quantity that the width of a function shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Its instructions.
    Instructions,
    /// Its time, estimated by the trial's processor profile.
    Time,
}

impl Quantity {
    fn unit(self) -> &'static str {
        match self {
            Quantity::Instructions => "instructions",
            Quantity::Time => "estimated ns",
        }
    }

    /// The tree of a phase's ops, or `None` if the phase does not have that quantity.
    fn tree(self, phase: &Phase) -> Option<Frame> {
        let tree = phase.executed.get(&Task::Ops)?;
        match self {
            Quantity::Instructions => Some(tree.clone()),
            Quantity::Time => Some(tree.with_times(phase.instruction_ns?)),
        }
    }
}

/// The instructions or the time per op in a frame and all frames below it.
fn width(frame: Option<&Frame>, ops: f64) -> f64 {
    frame.map_or(0.0, |frame| frame.total() as f64 / ops)
}

struct Graph {
    body: String,
    unit: &'static str,
    whole: f64,
    ops: f64,
    /// The number of ops of the other result.
    other_ops: Option<f64>,
    omitted: usize,
    depth: usize,
    /// The drawn layers, by class.
    layers: BTreeMap<&'static str, BTreeSet<String>>,
}

/// The graph of the functions that a phase's ops executed. Compared with another result, a function is red if this one
/// takes more, and blue if it takes less. None if nothing was executed.
pub fn chart(
    explained: &Explained,
    phase: &Phase,
    other: Option<(&Explained, &Phase)>,
    by: Quantity,
) -> Option<Chart> {
    let tree = by.tree(phase)?;
    let other = other.and_then(|(explained, phase)| Some((explained, phase, by.tree(phase)?)));
    let ops = phase.ops.max(1) as f64;
    let mut graph = Graph {
        body: String::new(),
        unit: by.unit(),
        whole: width(Some(&tree), ops),
        ops,
        other_ops: other.as_ref().map(|(_, phase, _)| phase.ops.max(1) as f64),
        omitted: 0,
        depth: 0,
        layers: BTreeMap::new(),
    };
    if graph.whole <= 0.0 {
        return None;
    }
    graph.row(&tree, other.as_ref().map(|(.., tree)| tree), 0.0, 0);
    let against =
        other.as_ref().map(|(other, ..)| format!(", against {}", other.label)).unwrap_or_default();
    let title = format!("{} on {}, {}{against}", explained.workload, explained.label, phase.name);
    let description = format!(
        "{:.0} {} per op by function; {} functions too narrow to draw are omitted",
        graph.whole, graph.unit, graph.omitted
    );
    let mut chart = Chart::new(sanitize(&title), description);
    chart.key(&graph.key());
    let top = chart.height();
    chart.push(format_args!(
        r#"<svg y="{top:.0}" width="100%" overflow="visible">{}</svg>"#,
        graph.body
    ));
    chart.grow((graph.depth as f64 + 1.0) * ROW_HEIGHT + 4.0);
    Some(chart)
}

impl Graph {
    fn row(&mut self, frame: &Frame, other: Option<&Frame>, from: f64, depth: usize) {
        if depth == MAX_DEPTH {
            return;
        }
        let mut x = from;
        for (name, below) in &frame.below {
            let other_frame = other.and_then(|other| other.below.get(name));
            let fraction = width(Some(below), self.ops) / self.whole;
            if fraction < MIN_WIDTH {
                self.omitted += 1;
            } else {
                self.depth = self.depth.max(depth);
                self.draw(name, below, other_frame, (x, fraction, depth as f64 * ROW_HEIGHT));
                self.row(below, other_frame, x, depth + 1);
            }
            x += fraction;
        }
    }

    /// The meaning of the colours: layers of the kernel, and modules, or, for a comparison, more and less.
    fn key(&self) -> Vec<(Key, String)> {
        let entry = |class: &str, label: &str| (Key::Box(class.into()), label.to_string());
        if self.other_ops.is_some() {
            return vec![entry("f1", "more than the other result"), entry("f0", "less")];
        }
        let key = |(class, layers): (&&'static str, &BTreeSet<String>)| {
            let names: Vec<String> = layers.iter().map(|layer| sanitize(layer)).collect();
            entry(class, &names.join(", "))
        };
        self.layers.iter().map(key).collect()
    }

    fn draw(
        &mut self,
        name: &str,
        frame: &Frame,
        other: Option<&Frame>,
        (x, fraction, y): (f64, f64, f64),
    ) {
        let whole = width(Some(frame), self.ops);
        let own = frame.own as f64 / self.ops;
        let mut tooltip =
            format!("{name} ({}): {whole:.1} {} per op, {own:.1} self", frame.layer, self.unit);
        let (class, opacity) = match self.other_ops {
            None => {
                let class = class(&frame.layer);
                self.layers.entry(class).or_default().insert(frame.layer.clone());
                (class, 0.4)
            }
            Some(ops) => {
                let more = whole - width(other, ops);
                let _ = write!(tooltip, ", {more:+.1} compared with the other result");
                let part = more / whole.max(width(other, ops)).max(1e-9);
                (if part >= 0.0 { "f1" } else { "f0" }, part.abs().min(1.0) * 0.8)
            }
        };
        let text = match fraction >= MIN_NAMED_WIDTH {
            true => format!(r#"<text class="key" x="3" y="12">{}</text>"#, escape(&sanitize(name))),
            false => String::new(),
        };
        // A nested <svg> clips the name where the function ends. Writing to a string cannot fail, so the results
        // are ignored.
        let _ = write!(
            self.body,
            r#"<svg x="{}" y="{y:.0}" width="{}" height="16"><title>{}</title><rect class="{class}" width="100%" height="16" fill-opacity="{opacity:.2}"/><rect class="edge" width="100%" height="16"/>{text}</svg>"#,
            percent(x),
            percent(fraction),
            escape(&sanitize(&tooltip)),
        );
    }
}

/// The note that explains a graph.
pub fn note(against: bool, by: Quantity) -> String {
    let width = match by {
        Quantity::Instructions => "the number of instructions in",
        Quantity::Time => {
            "the time that the processor profile estimates, from instructions and the events that it charges, for"
        }
    };
    let colour = match against {
        true => {
            "red where this result takes more than the other, blue where it takes less, paler for a smaller difference"
        }
        false => "each colour is a layer of the kernel; blue is a module",
    };
    format!("Width is {width} a function and its callees, callees below; {colour}.")
}

#[cfg(test)]
mod tests {

    use super::*;

    fn frame(own: u64, below: &[(&str, Frame)]) -> Frame {
        let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
        Frame { own, calls: 1, charged: 0, layer: "files".into(), below }
    }

    fn drawn(tree: Frame, ops: u64, other: Option<Frame>) -> String {
        let explained = Explained::default();
        let phase = |tree: Frame| {
            let mut phase = Phase { ops, ..Phase::default() };
            phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
            phase
        };
        let other = other.map(phase);
        let against = other.as_ref().map(|phase| (&explained, phase));
        chart(&explained, &phase(tree), against, Quantity::Instructions).unwrap().standalone_svg()
    }

    #[test]
    fn a_function_is_as_wide_as_its_share() {
        let tree = frame(0, &[("a", frame(10, &[("b", frame(30, &[]))])), ("c", frame(60, &[]))]);
        let svg = drawn(tree, 10, None);
        assert!(svg.contains("10 instructions per op by function"), "{svg}");
        assert!(svg.contains("a (files): 4.0 instructions per op, 1.0 self"), "{svg}");
        assert!(
            svg.contains(r#"width="40%""#) && svg.contains(r#"x="40%" y="0" width="60%""#),
            "{svg}"
        );
    }

    #[test]
    fn with_a_processor_profile_a_function_is_as_wide_as_its_time() {
        let busy = Frame { charged: 70, ..frame(10, &[]) };
        let mut phase = Phase { ops: 10, ..Phase::default() };
        let tree = frame(0, &[("a", busy), ("b", frame(20, &[]))]);
        phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
        assert!(chart(&Explained::default(), &phase, None, Quantity::Time).is_none());
        phase.instruction_ns = Some(0.5);
        let svg =
            chart(&Explained::default(), &phase, None, Quantity::Time).unwrap().standalone_svg();
        assert!(svg.contains("a (files): 4.0 estimated ns per op, 4.0 self"), "{svg}");
        assert!(svg.contains(r#"width="80%""#), "{svg}");
    }

    #[test]
    fn a_difference_is_coloured() {
        let new = frame(0, &[("a", frame(10, &[])), ("b", frame(10, &[]))]);
        let svg = drawn(new.clone(), 1, Some(frame(0, &[("a", frame(10, &[]))])));
        assert!(
            svg.contains("b (files): 10.0 instructions per op, 10.0 self, +10.0 compared with")
        );
        assert!(
            svg.contains(r#"<rect class="f1" width="100%" height="16" fill-opacity="0.80"/>"#),
            "{svg}"
        );
        let svg = drawn(new, 1, Some(frame(0, &[("a", frame(40, &[])), ("b", frame(10, &[]))])));
        assert!(
            svg.contains(r#"class="f0" width="100%" height="16" fill-opacity="0.60""#),
            "{svg}"
        );
    }

    #[test]
    fn without_executed_functions_there_is_no_graph() {
        for by in [Quantity::Instructions, Quantity::Time] {
            assert!(chart(&Explained::default(), &Phase::default(), None, by).is_none());
        }
    }
}
