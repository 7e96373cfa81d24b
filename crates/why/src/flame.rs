//! A flame graph: functions as wide as the instructions in them and below them, callers under callees'
//! feet; of two results coloured by the difference.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::kernel::Frame;
use crate::picture::escaped;

const WIDTH: f64 = 1000.0;
const ROW: f64 = 17.0;
const TOP: f64 = 34.0;
/// What is narrower than this is left out, and said.
const NARROWEST: f64 = 0.4;
const DEEPEST: usize = 64;

/// Colours by layer, each layer the same in every graph.
fn colour(layer: &str) -> &'static str {
    match layer {
        "user" => "#bcbcbc",
        "entry" | "kernel" => "#d9c7a0",
        "scheduler" => "#e8b3cf",
        "locks" => "#f0d58c",
        "block" => "#9ad0f0",
        "memory" => "#a8dcc8",
        "files" => "#f2b98a",
        "sockets" => "#d0d0e8",
        // A module: the file system, the journal, the driver.
        _ => "#7fb2dd",
    }
}

/// Instructions an op in a frame and all below it.
fn width(frame: Option<&Frame>, ops: f64) -> f64 {
    frame.map_or(0.0, |frame| frame.whole() as f64 / ops)
}

struct Graph {
    out: String,
    /// Pixels of an instruction an op.
    scale: f64,
    ops: f64,
    /// The result compared with, and its ops.
    against: Option<f64>,
    left_out: usize,
    depth: usize,
}

/// The graph of a tree of calls with the number of ops that it was counted over, as one SVG file. With
/// another tree it is as wide as the first, and red where the first takes more than the other, blue where
/// it takes less.
pub fn svg(title: &str, (tree, ops): (&Frame, u64), against: Option<(&Frame, u64)>) -> String {
    let ops = ops.max(1) as f64;
    let all = width(Some(tree), ops);
    let mut graph = Graph {
        out: String::new(),
        scale: if all > 0.0 { WIDTH / all } else { 0.0 },
        ops,
        against: against.map(|(_, ops)| ops.max(1) as f64),
        left_out: 0,
        depth: 0,
    };
    graph.row(tree, against.map(|(tree, _)| tree), 0.0, 0);
    let height = TOP + (graph.depth as f64 + 2.0) * ROW + 24.0;
    let mut head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n<title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"4\" y=\"18\" font-size=\"13\">{title}: {all:.0} instructions an op</text>\n",
        title = escaped(title),
    );
    head.push_str(&graph.out);
    // Writing to a String cannot fail.
    let _ = writeln!(
        head,
        "<text x=\"4\" y=\"{}\" fill=\"#606060\">{} functions too narrow to draw are left out</text>\n</svg>",
        height - 8.0,
        graph.left_out
    );
    head
}

impl Graph {
    fn row(&mut self, frame: &Frame, other: Option<&Frame>, from: f64, depth: usize) {
        if depth == DEEPEST {
            return;
        }
        let mut x = from;
        for (name, below) in &frame.below {
            let there = other.and_then(|other| other.below.get(name));
            let wide = width(Some(below), self.ops) * self.scale;
            if wide < NARROWEST {
                self.left_out += 1;
            } else {
                self.depth = self.depth.max(depth);
                self.one(name, below, there, (x, wide, TOP + depth as f64 * ROW));
                self.row(below, there, x, depth + 1);
            }
            x += wide;
        }
    }

    fn one(
        &mut self,
        name: &str,
        frame: &Frame,
        other: Option<&Frame>,
        (x, wide, y): (f64, f64, f64),
    ) {
        let whole = width(Some(frame), self.ops);
        let own = frame.own as f64 / self.ops;
        let mut says =
            format!("{name} ({}): {whole:.1} instructions an op, {own:.1} in itself", frame.layer);
        let fill = match self.against {
            None => colour(&frame.layer).to_string(),
            Some(ops) => {
                let more = whole - width(other, ops);
                let _ = write!(says, ", {more:+.1} against the other");
                shade(more / whole.max(width(other, ops)).max(1e-9))
            }
        };
        let _ = writeln!(
            self.out,
            "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{wide:.2}\" height=\"{}\" \
             fill=\"{fill}\" stroke=\"#d0d0d0\" stroke-width=\"0.5\"/>{}</g>",
            escaped(&says),
            ROW - 1.0,
            words(name, x, y, wide)
        );
    }
}

/// The name, as far as it fits.
fn words(name: &str, x: f64, y: f64, wide: f64) -> String {
    let fit = ((wide - 6.0) / 6.2).max(0.0) as usize;
    if fit < 3 {
        return String::new();
    }
    let shown: String = match name.chars().count() <= fit {
        true => name.to_string(),
        false => name.chars().take(fit - 1).chain(['…']).collect(),
    };
    format!("<text x=\"{:.2}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 12.0, escaped(&shown))
}

/// From blue (all gone) over white (the same) to red (all new).
fn shade(part: f64) -> String {
    let fade = |end: u32, part: f64| {
        (255.0 - (255.0 - f64::from(end)) * part.abs().min(1.0)).round() as u32
    };
    let (red, green, blue) = if part >= 0.0 { (213, 94, 0) } else { (0, 114, 178) };
    format!("#{:02x}{:02x}{:02x}", fade(red, part), fade(green, part), fade(blue, part))
}

/// All names in a tree, for tests and tables.
pub fn names(tree: &Frame) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (name, below) in &tree.below {
        names.insert(name.as_str());
        names.extend(self::names(below));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(own: u64, below: &[(&str, Frame)]) -> Frame {
        let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
        Frame { own, calls: 1, layer: "files".into(), below }
    }

    #[test]
    fn a_function_is_as_wide_as_what_it_takes() {
        let tree = frame(0, &[("a", frame(10, &[("b", frame(30, &[]))])), ("c", frame(60, &[]))]);
        let svg = svg("unlink", (&tree, 10), None);
        assert!(svg.contains("unlink: 10 instructions an op"), "{svg}");
        assert!(svg.contains("a (files): 4.0 instructions an op, 1.0 in itself"), "{svg}");
        assert!(svg.contains("width=\"400.00\"") && svg.contains("width=\"600.00\""), "{svg}");
        assert_eq!(names(&tree).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_difference_is_coloured() {
        let new = frame(0, &[("a", frame(10, &[])), ("b", frame(10, &[]))]);
        let old = frame(0, &[("a", frame(10, &[]))]);
        let svg = svg("x", (&new, 1), Some((&old, 1)));
        assert!(svg.contains("b (files): 10.0 instructions an op, 10.0 in itself, +10.0 against"));
        assert!(svg.contains("fill=\"#d55e00\""), "{svg}");
        assert_eq!((shade(0.0), shade(-1.0)), ("#ffffff".into(), "#0072b2".into()));
    }
}
