//! Wall-clock time in the format of records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time as RFC 3339 in UTC with microseconds: `2026-01-31T12:00:00.000000Z`. The microseconds
/// distinguish two hosts that are started at the same time.
pub fn now() -> String {
    format(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

fn format(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let second_of_day = seconds % 86_400;
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Returns the year, month and day of a day counted from 1970-01-01, using Howard Hinnant's `civil_from_days`
/// (howardhinnant.github.io/date_algorithms.html), for non-negative days.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the leap day is the last day of its year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_have_their_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000250Z"),
            (951_782_399, "2000-02-28T23:59:59.000250Z"),
            (951_782_400, "2000-02-29T00:00:00.000250Z"),
            (1_582_934_400, "2020-02-29T00:00:00.000250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000250Z"),
        ] {
            assert_eq!(format(Duration::from_secs(seconds) + Duration::from_micros(250)), expected);
        }
    }
}
