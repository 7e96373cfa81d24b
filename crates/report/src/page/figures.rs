//! All figures of a section.

use super::colour::Looks;
use super::figure::Figure;
use super::{aged, cpu, device, latency, over_time, times};
use crate::model::Section;
use crate::series::Index;

/// All figures of a section, the times first.
pub fn figures(section: &Section<'_>, looks: &Looks, series: &Index<'_>) -> Vec<Figure> {
    let more = [
        aged::figure(section, looks),
        latency::figure(section, looks),
        cpu::figure(section, looks),
        device::requests(section, looks),
        device::space(section, looks),
        over_time::figure(section, looks, series),
    ];
    std::iter::once(times::figure(section, looks)).chain(more.into_iter().flatten()).collect()
}
