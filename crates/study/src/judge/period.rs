//! Determines whether a kernel is from a study's time or older: only then is a claim reproduced, not merely still true.

/// First release of each year, from kernel.org's list of releases [MEM]; a stable series belongs to the year of
/// its first release.
const FIRST_OF_YEAR: &[((u32, u32, u32), u16)] = &[
    ((2, 2, 0), 1999),
    ((2, 4, 0), 2001),
    ((2, 4, 18), 2002),
    ((2, 4, 21), 2003),
    ((2, 6, 1), 2004),
    ((2, 6, 11), 2005),
    ((2, 6, 15), 2006),
    ((2, 6, 20), 2007),
    ((2, 6, 24), 2008),
    ((2, 6, 29), 2009),
    ((2, 6, 33), 2010),
    ((2, 6, 37), 2011),
    ((3, 2, 0), 2012),
    ((3, 8, 0), 2013),
    ((3, 13, 0), 2014),
    ((3, 19, 0), 2015),
    ((4, 4, 0), 2016),
    ((4, 10, 0), 2017),
    ((4, 15, 0), 2018),
    ((5, 0, 0), 2019),
    ((5, 5, 0), 2020),
    ((5, 11, 0), 2021),
    ((5, 16, 0), 2022),
    ((6, 2, 0), 2023),
    ((6, 7, 0), 2024),
    ((6, 13, 0), 2025),
];

/// Returns the year of a kernel by its release, as in `uname -r`; `None` for an invalid release, or one older
/// than the list. A release newer than the list counts as one of the list's last year.
pub fn year(release: &str) -> Option<u16> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).take(3).map(str::parse::<u32>);
    let major = parts.next()?.ok()?;
    let minor = parts.next()?.ok()?;
    let mut patch = || parts.next().and_then(Result::ok).unwrap_or(0);
    // From 3.0 on, the third number counts the stable updates of a release.
    let version = (major, minor, if major < 3 { patch() } else { 0 });
    FIRST_OF_YEAR.iter().rev().find(|(first, _)| *first <= version).map(|(_, year)| *year)
}

/// Returns whether a kernel was released in the year of a study or before.
pub fn is_not_newer(release: &str, study: u16) -> bool {
    year(release).is_some_and(|year| year <= study)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stable_series_belongs_to_the_year_of_its_first_release() {
        for (release, expected) in [
            ("2.4.13", 2001),
            ("2.6.27.4", 2008),
            ("2.6.28-rc4", 2008),
            ("5.10.0-32-amd64", 2020),
            ("6.1.0-44-amd64", 2022),
            ("6.1.192", 2022),
            ("6.12.38+deb13-amd64", 2024),
            ("9.9", 2025),
        ] {
            assert_eq!(year(release), Some(expected), "{release}");
        }
        assert_eq!(["", "host", "1.2.13", "6"].map(year), [None; 4]);
    }

    #[test]
    fn every_current_kernel_is_newer_than_a_classic_study() {
        assert!(is_not_newer("2.6.27", 2008) && !is_not_newer("2.6.29", 2008));
        assert!(!is_not_newer("5.10.0-32-amd64", 2011) && !is_not_newer("", 2011));
    }
}
