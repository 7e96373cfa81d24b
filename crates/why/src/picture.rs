//! A picture of a disk's requests: address against time, coloured by the structure that they touch.
//!
//! The picture is a grid. A cell stands for all requests that fall into it and has the colour of the
//! structure that most of them touch, so that a million requests are drawn as honestly as ten; what a cell
//! hides is said below it.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::account::Dot;
use crate::map::Structure;

/// Okabe and Ito's palette ("Color Universal Design", 2008), as the report has it.
const PALETTE: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442"];
const OTHERS: &str = "#8a8a8a";
const UNKNOWN: &str = "#000000";

const COLUMNS: u64 = 800;
const ROWS: u64 = 300;
const LEFT: u64 = 70;
const TOP: u64 = 30;

/// Colours of structures: the seven that most requests touch, in one order for every picture.
fn colours(dots: &[Dot]) -> BTreeMap<Structure, &'static str> {
    let mut counts: BTreeMap<Structure, usize> = BTreeMap::new();
    dots.iter().filter_map(|dot| dot.structure).for_each(|it| *counts.entry(it).or_default() += 1);
    let mut order: Vec<_> = counts.into_iter().collect();
    order.sort_by_key(|(structure, count)| (std::cmp::Reverse(*count), *structure));
    order.into_iter().map(|(structure, _)| structure).zip(PALETTE).collect()
}

/// The picture as one SVG file; nothing where there are no requests.
pub fn svg(title: &str, dots: &[Dot]) -> Option<String> {
    let first = dots.iter().map(|dot| dot.arrived.0).min()?;
    let last = dots.iter().map(|dot| dot.arrived.0).max()?;
    let (low, high) =
        (dots.iter().map(|dot| dot.byte).min()?, dots.iter().map(|dot| dot.byte).max()?);
    let cell = |value: u64, from: u64, to: u64, cells: u64| {
        (u128::from(value - from) * u128::from(cells - 1) / u128::from((to - from).max(1))) as u64
    };
    let mut cells: BTreeMap<(u64, u64), BTreeMap<Option<Structure>, usize>> = BTreeMap::new();
    for dot in dots {
        let x = cell(dot.arrived.0, first, last, COLUMNS);
        let y = ROWS - 1 - cell(dot.byte, low, high, ROWS);
        *cells.entry((x, y)).or_default().entry(dot.structure).or_default() += 1;
    }
    let colours = colours(dots);
    let colour = |structure: Option<Structure>| match structure {
        None => UNKNOWN,
        Some(structure) => colours.get(&structure).copied().unwrap_or(OTHERS),
    };
    let mut hidden = 0;
    let (width, height) = (LEFT + COLUMNS + 20, TOP + ROWS + 90);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\">{title}</text>\n\
         <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{COLUMNS}\" height=\"{ROWS}\" fill=\"none\" \
         stroke=\"#c0c0c0\"/>\n",
        title = escaped(title),
    );
    for ((x, y), held) in &cells {
        let most = held.iter().max_by_key(|(structure, count)| (**count, **structure));
        let Some((structure, count)) = most else { continue };
        hidden += held.values().sum::<usize>() - count;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"2\" height=\"2\" fill=\"{}\"/>",
            LEFT + x,
            TOP + y,
            colour(*structure)
        );
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let bottom = TOP + ROWS;
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{}\" text-anchor=\"end\">{:.2} GiB</text>\n\
         <text x=\"{x}\" y=\"{bottom}\" text-anchor=\"end\">{:.2} GiB</text>\n\
         <text x=\"{LEFT}\" y=\"{}\">{:.3} s</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3} s</text>",
        TOP + 10,
        gib(high),
        gib(low),
        bottom + 16,
        first as f64 / 1e9,
        LEFT + COLUMNS,
        bottom + 16,
        last as f64 / 1e9,
        x = LEFT - 6,
    );
    legend(&mut out, dots, &colours, bottom);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#606060\">{} requests in {} cells; {hidden} lie under others \
         of another colour in their cell</text>\n</svg>",
        bottom + 76,
        dots.len(),
        cells.len(),
    );
    Some(out)
}

fn legend(
    out: &mut String,
    dots: &[Dot],
    colours: &BTreeMap<Structure, &'static str>,
    bottom: u64,
) {
    let mut rows: Vec<(&str, &str)> =
        colours.iter().map(|(structure, colour)| (structure.name(), *colour)).collect();
    if dots.iter().filter_map(|dot| dot.structure).any(|it| !colours.contains_key(&it)) {
        rows.push(("other structures", OTHERS));
    }
    if dots.iter().any(|dot| dot.structure.is_none()) {
        rows.push(("unattributed", UNKNOWN));
    }
    for (at, (name, colour)) in rows.iter().enumerate() {
        let (x, y) = (LEFT + (at as u64 % 5) * 165, bottom + 36 + (at as u64 / 5) * 18);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{y}\">{name}</text>",
            y - 9,
            x + 14
        );
    }
}

/// Text as XML takes it.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '<' => "&lt;".to_string(),
        '>' => "&gt;".to_string(),
        '&' => "&amp;".to_string(),
        '"' => "&quot;".to_string(),
        c if c.is_control() => String::new(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;
    use fsdyno_record::mailbox::Stage;

    use super::*;

    fn dot(arrived: u64, byte: u64, structure: Option<Structure>) -> Dot {
        Dot { arrived: Nanos(arrived), byte, structure, place: (Stage::Running, 0) }
    }

    #[test]
    fn every_request_is_in_a_cell_and_what_is_hidden_is_said() {
        let mut dots = vec![dot(0, 0, Some(Structure::Data)); 3];
        dots.push(dot(0, 0, Some(Structure::Journal)));
        dots.push(dot(1_000_000_000, 1 << 30, None));
        let svg = svg("a < b", &dots).unwrap();
        assert!(svg.contains("5 requests in 2 cells; 1 lie under others"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("unattributed"), "{svg}");
        assert!(svg.contains(">1.00 GiB<") && svg.contains(">1.000 s<"), "{svg}");
        // Data is the most frequent and has the first colour.
        assert!(svg.contains(&format!("height=\"2\" fill=\"{}\"", PALETTE[0])), "{svg}");
    }

    #[test]
    fn one_request_alone_is_a_picture_and_none_is_none() {
        assert!(svg("x", &[dot(5, 5, None)]).is_some());
        assert_eq!(svg("x", &[]), None);
    }
}
