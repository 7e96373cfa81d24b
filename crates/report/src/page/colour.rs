//! The appearance of a row in every chart and table of a page: one colour for each kind of file
//! system, the same in every report, and a hatch that distinguishes rows of one colour.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fsdyno_filesystem::catalog;

use crate::model::Row;

/// The colours on white paper and on a dark page. The first three are of the palette of Okabe and Ito
/// ("Color Universal Design", 2008); the others stay near its hues but were adjusted by a search until each has
/// a contrast of 3 with its background (WCAG 2.1, 1.4.11) and any two remain distinct for readers
/// without red or green cones, which the published palette does not achieve on white. Both are tested below.
const COLOURS: [[&str; 2]; 8] = [
    ["#0072b2", "#0072b2"],
    ["#d55e00", "#d55e00"],
    ["#009e73", "#009e73"],
    ["#885177", "#e6a5cd"],
    ["#633300", "#d6b022"],
    ["#369cc0", "#3297f8"],
    ["#70570f", "#fae630"],
    ["#38444b", "#e7e7e7"],
];

/// The other colours of charts: name in the style sheets, on white, on a dark page.
const OTHERS: [[&str; 3]; 8] = [
    ["--panel", "#ffffff", "#1b1f25"],
    ["--ink", "#1d2126", "#e6e9ed"],
    ["--soft", "#5b636d", "#9aa4b0"],
    ["--rule", "#dfe2e6", "#2d333b"],
    ["--n0", "#50575f", "#b9c1ca"],
    ["--n1", "#858d96", "#8a939d"],
    ["--n2", "#b3b9c0", "#636b75"],
    ["--n3", "#d3d8dd", "#454c55"],
];

/// Number of neutral tones, starting with the strongest.
pub const NEUTRALS: usize = 4;

/// The colour of a kind of file system, from the catalog; a kind without one always gets the same colour, chosen by
/// its name.
fn colour_of_kind(kind: &str) -> usize {
    let stated = catalog::get(kind).ok().and_then(|filesystem| filesystem.colour);
    let by_name = || kind.bytes().fold(7usize, |hash, byte| hash * 31 % 8191 + byte as usize);
    stated.unwrap_or_else(by_name) % COLOURS.len()
}

/// Stripes in the background colour, so that they show on light and dark pages. The first row of a colour has
/// none; page.css has the same hatches for tables.
const HATCHES: [Hatch; 7] = [
    Hatch { turn: 45, apart: 7, crossed: false },
    Hatch { turn: 135, apart: 7, crossed: false },
    Hatch { turn: 0, apart: 7, crossed: false },
    Hatch { turn: 90, apart: 7, crossed: false },
    Hatch { turn: 45, apart: 7, crossed: true },
    Hatch { turn: 0, apart: 7, crossed: true },
    Hatch { turn: 45, apart: 14, crossed: false },
];

/// Number of rows of one colour that can be distinguished.
const APPEARANCES_PER_COLOUR: usize = HATCHES.len() + 1;

/// The dashes of a line, in the order of the hatches, the plain one first.
const DASHES: [&str; APPEARANCES_PER_COLOUR] =
    ["", "6 3", "2 3", "8 3 2 3", "1 2", "14 4", "8 3 2 3 2 3", "14 3 6 3"];

/// Stripes of one direction, or of two.
struct Hatch {
    /// Angle in degrees.
    turn: u32,
    /// Distance between stripes.
    apart: u32,
    /// True if perpendicular stripes cross them.
    crossed: bool,
}

/// Colour and hatch of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appearance {
    /// Index into the palette: `f0` fills with the first colour, `l0` draws lines in it, `d0` is a dot of
    /// a table.
    pub colour: usize,
    /// 0 is plain; hatches are numbered from 1.
    pub hatch: usize,
}

impl Appearance {
    /// The dashes of its lines, in the form of `stroke-dasharray`, or empty for a plain line.
    pub fn dash(self) -> &'static str {
        DASHES[self.hatch % APPEARANCES_PER_COLOUR]
    }

    /// The classes of its dot in a table.
    pub fn dot(self) -> String {
        format!("d{} hatch{}", self.colour, self.hatch)
    }
}

/// The appearances of a page's rows: rows of the same name have the same appearance in all sections.
pub struct Appearances(BTreeMap<String, Appearance>);

impl Appearances {
    /// The appearances of all rows.
    pub fn of<'r, 't: 'r>(rows: impl IntoIterator<Item = &'r Row<'t>>) -> Appearances {
        let (mut names, mut kinds): (Vec<&str>, Vec<&str>) = Default::default();
        let mut known = BTreeSet::new();
        for row in rows.into_iter().filter(|row| known.insert(row.name.as_str())) {
            names.push(&row.name);
            kinds.push(&row.kind);
        }
        let appearances = Appearances::of_kinds(kinds.into_iter());
        Appearances(names.into_iter().map(String::from).zip(appearances).collect())
    }

    /// The appearances of rows that are not trials, by their kinds, in the order given. Rows of one colour differ by
    /// their hatch. If a kind has more rows than hatches, the others take colours that no kind uses here, as long as
    /// there are any. After that appearances repeat, which is acceptable because every bar has its name next to it.
    pub fn of_kinds<'r>(kinds: impl Iterator<Item = &'r str>) -> Vec<Appearance> {
        let colours: Vec<usize> = kinds.map(colour_of_kind).collect();
        let mut used = [0usize; COLOURS.len()];
        let appearance = |preferred: &usize| {
            let is_free = |colour: &usize| {
                !colours.contains(colour) && used[*colour] < APPEARANCES_PER_COLOUR
            };
            let other = || (0..COLOURS.len()).find(is_free);
            let colour = Some(*preferred)
                .filter(|preferred| used[*preferred] < APPEARANCES_PER_COLOUR)
                .or_else(other)
                .unwrap_or(*preferred);
            let hatch = used[colour] % APPEARANCES_PER_COLOUR;
            used[colour] += 1;
            Appearance { colour, hatch }
        };
        colours.iter().map(appearance).collect()
    }

    /// The appearance of a row.
    pub fn get(&self, row: &Row<'_>) -> Appearance {
        let plain = || Appearance { colour: colour_of_kind(&row.kind), hatch: 0 };
        self.0.get(&row.name).copied().unwrap_or_else(plain)
    }
}

/// The patterns of the hatches, `hatch1` and so on, for the page or for a separate chart.
pub fn patterns() -> String {
    let mut svg = String::from("<defs>");
    for (index, Hatch { turn, apart, crossed }) in HATCHES.iter().enumerate() {
        let name = index + 1;
        let across = format!(r#"<rect class="stripe" width="{apart}" height="2.5"/>"#);
        let across = if *crossed { across.as_str() } else { "" };
        // Writing to a string cannot fail, so the result of `write!` is ignored.
        let _ = write!(
            svg,
            r#"<pattern id="hatch{name}" width="{apart}" height="{apart}" patternUnits="userSpaceOnUse" patternTransform="rotate({turn})"><rect class="stripe" width="2.5" height="{apart}"/>{across}</pattern>"#
        );
    }
    svg + "</defs>"
}

/// The palette's style for the page: light, dark if the reader prefers it, light on paper.
pub fn style() -> String {
    let set = |dark: usize| {
        let colours =
            COLOURS.iter().enumerate().map(|(i, colour)| format!("--c{i}:{};", colour[dark]));
        let others = OTHERS.iter().map(|colour| format!("{}:{};", colour[0], colour[1 + dark]));
        format!(":root{{{}}}", colours.chain(others).collect::<String>())
    };
    let dots = (0..COLOURS.len()).map(|i| format!(".d{i}{{background-color:var(--c{i})}}"));
    format!(
        "{}\n@media (prefers-color-scheme: dark) {{{}}}\n@media print {{{}}}\n{}{}\n",
        set(0),
        set(1),
        set(0),
        rules(),
        dots.collect::<String>()
    )
}

/// The rules of fills and lines of each colour.
fn rules() -> String {
    let colours =
        (0..COLOURS.len()).map(|i| format!(".f{i}{{fill:var(--c{i})}}.l{i}{{stroke:var(--c{i})}}"));
    let neutrals = (0..NEUTRALS).map(|i| format!(".n{i}{{fill:var(--n{i})}}"));
    colours.chain(neutrals).collect()
}

/// The style of a separate chart, dark if the reader prefers it; every colour is spelled out, because programs that
/// draw SVG may not support variables.
pub fn standalone_style(chart: &str) -> String {
    let style = format!("{chart}\n{}", rules());
    let expanded = |dark: usize| {
        let mut style = style.clone();
        for (index, colour) in COLOURS.iter().enumerate() {
            style = style.replace(&format!("var(--c{index})"), colour[dark]);
        }
        for colour in OTHERS {
            style = style.replace(&format!("var({})", colour[0]), colour[1 + dark]);
        }
        style
    };
    format!("{}\n@media (prefers-color-scheme: dark) {{\n{}\n}}", expanded(0), expanded(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    type Linear = [f64; 3];

    /// Converts an sRGB colour, as written in HTML, to linear light (IEC 61966-2-1).
    fn linear(hex: &str) -> Linear {
        [1, 3, 5].map(|index| {
            let value = f64::from(u8::from_str_radix(&hex[index..index + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// The contrast ratio of WCAG 2.1.
    fn contrast(a: &str, b: &str) -> f64 {
        let light = |hex: &str| {
            let [r, g, b] = linear(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    /// Matrices of human vision with all cones, without red cones, and without green cones (G. M. Machado,
    /// M. M. Oliveira, L. A. F. Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
    /// 2009, severity 1.0).
    const EYES: [[Linear; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ];

    /// B. Ottosson's Oklab (2020), in which equal distances look about equally different.
    fn oklab([r, g, b]: Linear) -> Linear {
        let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
        let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
        let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
        [
            0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
        ]
    }

    /// The minimum distance between two of these colours, over all kinds of vision.
    fn min_distance(colours: &[&str]) -> f64 {
        let mut min = f64::INFINITY;
        for eye in EYES {
            let perceived = |hex: &&str| {
                let light = linear(hex);
                let cone = |row: Linear| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>();
                oklab(eye.map(cone).map(|value| value.clamp(0.0, 1.0)))
            };
            let perceived: Vec<Linear> = colours.iter().map(perceived).collect();
            for (index, a) in perceived.iter().enumerate() {
                for b in &perceived[..index] {
                    let distance =
                        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    min = min.min(distance);
                }
            }
        }
        min
    }

    #[test]
    fn colours_contrast_with_their_background_and_each_other_for_all_vision() {
        for ground in 0..2 {
            let panel = OTHERS[0][1 + ground];
            let colours: Vec<&str> = COLOURS.iter().map(|colour| colour[ground]).collect();
            for colour in &colours {
                assert!(contrast(colour, panel) >= 3.0, "{colour} on {panel}");
            }
            assert!(min_distance(&colours) >= 0.09, "{}", min_distance(&colours));
        }
        // The reason for the search: the published palette, on white.
        let published = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
        assert!(published.iter().any(|colour| contrast(colour, "#ffffff") < 3.0));
    }

    #[test]
    fn text_is_readable_on_both_backgrounds() {
        let [panel, ink, soft, ..] = OTHERS;
        for text in [ink, soft] {
            assert!(contrast(text[1], panel[1]) >= 4.5, "{text:?}");
            assert!(contrast(text[2], panel[2]) >= 4.5, "{text:?}");
        }
    }

    #[test]
    fn kinds_of_the_catalog_differ_and_an_unknown_kind_keeps_its_colour() {
        let stated: Vec<usize> = catalog::all().iter().filter_map(|kind| kind.colour).collect();
        let distinct: BTreeSet<usize> =
            stated.iter().map(|colour| colour % COLOURS.len()).collect();
        assert_eq!((stated.len(), distinct.len()), (COLOURS.len(), COLOURS.len()));
        assert_eq!(colour_of_kind("nilfs2"), colour_of_kind("nilfs2"));
    }

    #[test]
    fn two_labels_of_one_kind_have_its_colour_and_differ_by_their_hatch_in_every_section() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        for section in &sections {
            let [ext4, xfs, far] = [0, 1, 2].map(|row| appearances.get(&section.rows[row]));
            assert_eq!(ext4.colour, far.colour);
            assert_eq!([ext4.hatch, xfs.hatch, far.hatch], [0, 0, 1]);
            assert_ne!(ext4.dash(), far.dash());
        }
    }

    #[test]
    fn eight_variants_of_one_file_system_look_different_and_more_take_unused_colours() {
        let appearances = Appearances::of_kinds(["ext4"; 8].into_iter().chain(["xfs"]));
        let dashes: BTreeSet<&str> =
            appearances[..8].iter().map(|appearance| appearance.dash()).collect();
        assert_eq!(dashes.len(), 8);
        assert!(
            appearances[..8].iter().all(|appearance| appearance.colour == appearances[0].colour)
        );
        let crowded = Appearances::of_kinds(["ext4"; 40].into_iter().chain(["xfs"]));
        assert_eq!(crowded.iter().collect::<BTreeSet<_>>().len(), 41);
        assert_eq!(crowded[40], Appearance { colour: colour_of_kind("xfs"), hatch: 0 });
        assert_eq!(Appearances::of_kinds(["ext4"; 100].into_iter()).len(), 100);
    }

    #[test]
    fn the_tables_have_every_hatch_of_the_charts() {
        let css = include_str!("page.css");
        for hatch in 1..=HATCHES.len() {
            assert!(css.contains(&format!(".hatch{hatch} ")), "page.css lacks hatch {hatch}");
        }
        assert_eq!(css.matches(".hatch").count(), HATCHES.len());
    }

    #[test]
    fn a_separate_chart_uses_no_variable() {
        let style = standalone_style(include_str!("chart.css"));
        assert!(!style.contains("var("), "{style}");
    }
}
