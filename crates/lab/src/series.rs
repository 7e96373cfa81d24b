//! Kernel series (6.12), and requests for several of them: `all`, `5.10..7.3`.

use std::fmt;

/// The series of a release, such as 6.12 for 6.12.43+deb13-amd64; a later series is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    major: u32,
    minor: u32,
}

impl Series {
    /// Parses the series at the beginning of a release; `None` if `release` does not begin with two numbers separated
    /// by a dot.
    pub fn of(release: &str) -> Option<Series> {
        let (major, rest) = release.split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Series { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Parses text that is a series and nothing more.
    fn exactly(text: &str) -> Option<Series> {
        Series::of(text).filter(|series| series.to_string() == text)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A request for several series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesRange {
    first: Option<Series>,
    last: Option<Series>,
}

impl SeriesRange {
    /// Parses `all`, `A..B`, `A..` or `..B`; `None` for the name of one kernel.
    ///
    /// # Errors
    /// An empty range, or one with an end that is not a series.
    pub fn parse(text: &str) -> Result<Option<SeriesRange>, String> {
        if text == "all" {
            return Ok(Some(SeriesRange { first: None, last: None }));
        }
        let ends = text.split_once("..").filter(|_| !text.contains('/'));
        let Some((first, last)) = ends else { return Ok(None) };
        let parse_end = |text: &str| match text {
            "" => Ok(None),
            _ => Series::exactly(text).map(Some).ok_or_else(|| {
                format!("'{text}' is not a kernel series; write a range as 5.10..7.3")
            }),
        };
        let range = SeriesRange { first: parse_end(first)?, last: parse_end(last)? };
        match (range.first, range.last) {
            (Some(first), Some(last)) if first > last => {
                Err(format!("the range {text} is empty; the older series comes first"))
            }
            _ => Ok(Some(range)),
        }
    }

    /// Returns true if a series is in the range.
    pub fn contains(&self, series: Series) -> bool {
        self.first.is_none_or(|first| first <= series)
            && self.last.is_none_or(|last| series <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(range: &str) -> Vec<&'static str> {
        let range = SeriesRange::parse(range).unwrap().unwrap();
        let all = ["5.10", "6.1", "6.12", "7.3"];
        all.into_iter().filter(|release| range.contains(Series::of(release).unwrap())).collect()
    }

    #[test]
    fn series_are_ordered_by_their_numbers() {
        let series_of = |release| Series::of(release).unwrap();
        assert!(series_of("6.9.1-amd64") < series_of("6.12.43+deb13-amd64"));
        assert_eq!(series_of("7.3-rc7-amd64").to_string(), "7.3");
        assert_eq!(Series::of("custom"), None);
    }

    #[test]
    fn a_range_includes_its_ends_and_either_may_be_omitted() {
        assert_eq!(inside("all"), ["5.10", "6.1", "6.12", "7.3"]);
        assert_eq!(inside("6.1..6.12"), ["6.1", "6.12"]);
        assert_eq!(inside("6.2.."), ["6.12", "7.3"]);
        assert_eq!(inside("..6.1"), ["5.10", "6.1"]);
    }

    #[test]
    fn one_kernel_is_not_a_range_and_an_invalid_range_is_an_error() {
        for one in ["6.1", "6.1.0-56-amd64", "../vmlinux", "./a..b/vmlinux"] {
            assert_eq!(SeriesRange::parse(one), Ok(None), "{one}");
        }
        let error = SeriesRange::parse("6.12..6.1").unwrap_err();
        assert!(error.contains("the older series comes first"), "{error}");
        let error = SeriesRange::parse("six..7.3").unwrap_err();
        assert!(error.contains("'six' is not a kernel series"), "{error}");
        let error = SeriesRange::parse("6.1.0-9..7.3").unwrap_err();
        assert!(error.contains("'6.1.0-9' is not a kernel series"), "{error}");
    }
}
