//! Other published tables, checked for contradictions: Guenter 2008, the maildir page of 2004, Phillips 2001, and the
//! first benchmarks of ext4 of 2006. The checks raise one alarm, and it is a true one.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use fsdyno_stats::consistency::{
    Range, Rule, check_at_most, check_equal, parse_rounded, parse_truncated,
};

fn of(text: &str) -> Range {
    parse_rounded(text).unwrap()
}

#[test]
fn guenters_cpu_shares_match_his_times() {
    // Bruce Guenter, "ext4 unlink performance", linux-ext4, 2008-11-13: elapsed, user, system, %CPU.
    let rows = "\
ext4 128 extract: 618.991 54.903 81.789 22.08
ext4 256 extract: 671.655 55.099 74.593 19.30
ext3 128 extract: 950.965 55.155 77.473 13.94
ext3 256 extract: 985.687 55.591 94.698 15.24
ext4 128 unlink: 913.934 0.296 33.550 3.70
ext4 256 unlink: 1507.696 0.324 37.602 2.51
ext3 128 unlink: 171.150 0.244 23.825 14.06
ext3 256 unlink: 360.073 0.328 27.954 7.85";
    for row in rows.lines() {
        let (name, numbers) = row.split_once(": ").unwrap();
        let n: Vec<&str> = numbers.split(' ').collect();
        let busy = of(n[1]) + of(n[2]);
        // It is unknown whether the share was rounded or truncated.
        let share = (busy / of(n[0])).scaled(100.0);
        assert_eq!(check_equal(name, parse_truncated(n[3]).unwrap(), share), None);
        assert_eq!(check_at_most(name, busy, of(n[0])), None);
        // The checker is sensitive here: a share one hundredth off is found in at least one direction.
        let value: f64 = n[3].parse().unwrap();
        let off = |by: f64| check_equal(name, of(&format!("{:.2}", value + by)), share).is_some();
        assert!(off(0.02) && off(-0.02), "{row}");
    }
}

#[test]
fn the_times_of_the_maildir_page_are_not_exceeded_by_their_parts() {
    // Set-up, writes, reads, I/O (whole seconds of time()), then real, user, sys of time(1), in
    // seconds; single disk, then RAID 5.
    let rows = "\
ext3: 103 8018 1982 946 1051.489 402.673 296.383
ext3 dir_index: 177 8039 1961 1441 1619.727 390.147 799.201
reiserfs: 202 7962 2038 1286 1491.175 370.742 434.441
reiser4: 64 7916 2084 1532 1597.694 372.405 561.773
ext2: 128 8060 1940 613 743.002 369.274 58.432
raid xfs: 84 8042 1958 698 783.200 366.697 221.503
raid reiserfs: 73 7957 2043 808 882.589 345.439 273.096
raid ext2: 0 8052 1948 520 520.220 344.019 55.938";
    for row in rows.lines() {
        let (name, numbers) = row.split_once(": ").unwrap();
        let n: Vec<&str> = numbers.split(' ').collect();
        // The difference of two clocks of whole seconds may be a second too long or too short.
        let clock = |text: &str| of(text) + Range { low: -0.5, high: 0.5 };
        assert_eq!(check_equal(name, Range::exactly(10_000.0), of(n[1]) + of(n[2])), None);
        assert_eq!(check_at_most(name, clock(n[0]) + clock(n[3]), of(n[4])), None);
        assert_eq!(check_at_most(name, of(n[5]) + of(n[6]), of(n[4])), None);
    }
    // Reads alone: I/O, real, user, sys (real includes the set-up where there was one).
    let reads = "\
ext2: 136 140.376 1.313 14.290
ext3: 140 264.904 2.454 36.649
ext3 dir_index: 126 271.866 2.072 10.200
raid xfs: 44 44.417 0.969 0.703
raid reiserfs: 47 46.991 0.963 0.469
raid ext2: 49 50.150 1.003 0.339";
    for row in reads.lines() {
        let (name, numbers) = row.split_once(": ").unwrap();
        let n: Vec<&str> = numbers.split(' ').collect();
        assert_eq!(check_at_most(name, of(n[0]), of(n[1])), None);
        assert_eq!(check_at_most(name, of(n[2]) + of(n[3]), of(n[1])), None);
    }
}

#[test]
fn phillips_system_times_fit_within_his_cpu_shares() {
    // Daniel Phillips, "Performance of Ext2 directory operations", 2001-11-05: system, elapsed, %CPU.
    // User time is not printed, so the CPU share and the elapsed time are upper limits of the system time.
    let rows = "\
create classic: 4.45 4.49 100
create current: 7.58 7.61 99
create indexed: 0.29 0.30 100
delete classic: 0.24 0.29 85
delete current: 0.05 0.14 42
delete indexed: 0.13 0.17 73
reverse classic: 3.55 3.64 97
reverse current: 0.58 0.71 89
reverse indexed: 0.19 0.32 80";
    for row in rows.lines() {
        let (name, numbers) = row.split_once(": ").unwrap();
        let n: Vec<&str> = numbers.split(' ').collect();
        // time(1) truncates hundredths and per cent.
        let [system, elapsed, share] = [0, 1, 2].map(|at| parse_truncated(n[at]).unwrap());
        assert_eq!(check_at_most(name, (system / elapsed).scaled(100.0), share), None);
        assert_eq!(check_at_most(name, system, elapsed), None);
    }
}

#[test]
fn in_the_first_ext4_benchmarks_only_the_write_faster_than_the_platter_is_an_alarm() {
    // Linuxinsight 2006: the platter transfers 57 MB/s; readers of the site report 63 MB/s written, 52 and 53 read.
    let platter = of("57");
    for read in ["52", "53"] {
        assert_eq!(check_at_most("sequential read", of(read), platter), None);
    }
    // Explained, not a misprint: nothing was synced, so part of it was still in memory (the flag
    // ABOVE DEVICE SPEED).
    let alarm = check_at_most("ext4, sequential write", of("63"), platter).unwrap();
    assert_eq!(alarm.rule, Rule::MoreThanWhole);
}
