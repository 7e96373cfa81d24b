//! The version of this program, and the commit with which build.rs stamps it.

use std::sync::LazyLock;

use fsdyno_record::Build;
use fsdyno_record::build::{STAMP_LENGTH, program};

/// The stamp, in a separate section: see [`fsdyno_record::build`].
#[used]
// SAFETY: the section has no meaning to the linker and loader, and holds plain bytes.
#[unsafe(link_section = ".fsdyno.build")]
static STAMP: [u8; STAMP_LENGTH] = stamp(env!("FSDYNO_BUILD").as_bytes());

const fn stamp(build: &[u8]) -> [u8; STAMP_LENGTH] {
    let mut stamp = [0; STAMP_LENGTH];
    stamp.split_at_mut(build.len()).0.copy_from_slice(build);
    stamp
}

/// Returns the build of this program, if its commit is known.
pub fn build() -> Option<&'static Build> {
    static BUILD: LazyLock<Option<Build>> = LazyLock::new(|| {
        // SAFETY: a reference is valid for reads. The read is volatile because the compiler knows the bytes and would
        // also place them elsewhere in the program, where they would become part of a lab identity.
        Build::from_stamp(&unsafe { std::ptr::read_volatile(&raw const STAMP) })
    });
    BUILD.as_ref()
}

/// Returns the output of `fsdyno --version` after the name.
pub fn description() -> &'static str {
    static DESCRIPTION: LazyLock<String> =
        LazyLock::new(|| program(env!("CARGO_PKG_VERSION"), build()));
    &DESCRIPTION
}
