//! How a row looks in every chart and table of a page: one colour for each kind of file system,
//! the same in every report, and a hatch that tells rows of one colour apart.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::view::Row;

/// The palette of Okabe and Ito ("Color Universal Design", 2008), which people with any of the
/// common colour vision deficiencies can tell apart; black gives way to grey, which shows on a
/// dark page too.
const PALETTE: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#8a8a8a"];

/// Kinds with a colour of their own, as indices into the palette.
const KINDS: &[(&str, usize)] = &[
    ("ext4", 0),
    ("xfs", 1),
    ("btrfs", 2),
    ("reiserfs", 3),
    ("jfs", 4),
    ("ext3", 5),
    ("f2fs", 6),
    ("ext2", 7),
];

/// The colour of a kind of file system; an unknown kind gets one by its name, always the same.
fn of(kind: &str) -> &'static str {
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, index)| *index);
    let by_name = || kind.bytes().fold(7usize, |hash, byte| hash * 31 % 8191 + byte as usize);
    PALETTE[known.unwrap_or_else(by_name) % PALETTE.len()]
}

/// Stripes in the colour of the page, so that they show on a light and on a dark one, by their
/// turn in degrees. The first row of a colour has none; report.css has the same for the tables.
const HATCHES: [u32; 4] = [45, 135, 0, 90];

/// Colour and hatch of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// As HTML writes it.
    pub colour: &'static str,
    /// 0 is plain, others count the hatches from 1.
    pub hatch: usize,
}

/// The looks of a page: a row of one name looks alike in all its sections.
pub struct Looks(BTreeMap<String, Look>);

impl Looks {
    /// The looks of all rows. Those of one colour differ while there are hatches (five rows);
    /// then they begin anew, for the name stands beside every bar.
    pub fn of<'r, 't: 'r>(rows: impl IntoIterator<Item = &'r Row<'t>>) -> Looks {
        let mut looks = BTreeMap::new();
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            looks.entry(row.name.clone()).or_insert_with(|| {
                let colour = of(&row.kind);
                let turn = used.entry(colour).or_default();
                let look = Look { colour, hatch: *turn % (HATCHES.len() + 1) };
                *turn += 1;
                look
            });
        }
        Looks(looks)
    }

    /// The look of a row.
    pub fn get(&self, row: &Row<'_>) -> Look {
        let plain = || Look { colour: of(&row.kind), hatch: 0 };
        self.0.get(&row.name).copied().unwrap_or_else(plain)
    }
}

/// The name of a hatch in the chart of an id.
pub fn hatch_id(id: &str, hatch: usize) -> String {
    format!("{id}-hatch{hatch}")
}

/// The patterns that the chart of an id fills its hatches with.
pub fn patterns(id: &str) -> String {
    let mut svg = String::from("<defs>");
    for (index, turn) in HATCHES.iter().enumerate() {
        let name = hatch_id(id, index + 1);
        // Writing to a string cannot fail, so the result of `write!` carries nothing.
        let _ = write!(
            svg,
            r#"<pattern id="{name}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate({turn})"><rect class="stripe" width="2.5" height="7"/></pattern>"#
        );
    }
    svg + "</defs>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn kinds_of_the_catalog_differ_and_a_stranger_keeps_its_colour() {
        let colours: std::collections::BTreeSet<_> = KINDS.iter().map(|(k, _)| of(k)).collect();
        assert_eq!(colours.len(), KINDS.len());
        assert_eq!(of("nilfs2"), of("nilfs2"));
    }

    #[test]
    fn two_labels_of_one_kind_have_its_colour_and_differ_by_their_hatch_in_every_section() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let looks = Looks::of(sections.iter().flat_map(|section| &section.rows));
        for section in &sections {
            let [ext4, xfs, far] = [0, 1, 2].map(|row| looks.get(&section.rows[row]));
            assert_eq!(ext4.colour, far.colour);
            assert_eq!([ext4.hatch, xfs.hatch, far.hatch], [0, 0, 1]);
        }
    }

    #[test]
    fn the_tables_know_every_hatch_of_the_charts() {
        let css = include_str!("report.css");
        for hatch in 1..=HATCHES.len() {
            assert!(css.contains(&format!(".hatch{hatch} ")), "report.css lacks hatch {hatch}");
        }
        assert_eq!(css.matches(".hatch").count(), HATCHES.len());
    }
}
