//! The properties of an import of arbitrary text as the output of strace, fio or babeltrace (the first byte selects the
//! tool): it ends with a trace or an error, in bounded time, and the trace is complete and passes the checker of
//! identities. Used by the fuzz target and the test of mutated texts.

use fsdyno_recorder::import::{Format, ImportOptions, import};
use fsdyno_trace::{Checker, Reader};

/// Panics if a property does not hold.
pub fn check(bytes: &[u8]) {
    let Some((which, text)) = bytes.split_first() else { return };
    let format = match which % 4 {
        0 => Format::Strace,
        1 => Format::FioV2,
        2 => Format::FioV3,
        _ => Format::Lttng,
    };
    let mut trace = Vec::new();
    let out = &mut trace;
    let options = ImportOptions { anonymize: which & 4 != 0, ..ImportOptions::default() };
    let Ok(imported) = import(format, text, &options, || Ok(out)) else { return };
    let mut checker = Checker::new();
    let mut events = 0;
    for item in Reader::new(&trace[..]).expect("a trace") {
        let item = item.expect("a whole trace");
        checker.check(&item).expect("a consistent trace");
        events += u64::from(matches!(item, fsdyno_trace::Item::Event(_)));
    }
    assert_eq!(events, imported.events);
}
