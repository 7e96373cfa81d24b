//! All figures of a section.

use super::colour::Appearances;
use super::figure::Figure;
use super::{aged, cpu, device, latency, over_time, times};
use crate::model::Section;
use crate::series::Index;

/// All figures of a section, the times first.
pub fn figures(
    section: &Section<'_>,
    appearances: &Appearances,
    series: &Index<'_>,
) -> Vec<Figure> {
    let others = [
        aged::figure(section, appearances),
        latency::figure(section, appearances),
        cpu::figure(section, appearances),
        device::requests(section, appearances),
        device::space(section, appearances),
        over_time::figure(section, appearances, series),
    ];
    std::iter::once(times::figure(section, appearances))
        .chain(others.into_iter().flatten())
        .collect()
}
