//! The processor model: a QEMU plugin that adds to the guest's clock the costs that an instruction count does not
//! cover.
//!
//! processor/processor.c describes the model. It is compiled with this crate and passed to QEMU as a file in memory;
//! its bytes and the costs of the processor are components of a lab's identity.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fsdyno_child::sealed_file;
use fsdyno_record::processor::{EVENTS, Processor};

/// The plugin, an ELF shared object for the host.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/processor.so"));

/// The plugin's cost units per instruction time.
const UNITS_PER_INSTRUCTION: u64 = 1024;

/// Returns the plugin's arguments for a processor; costs are in 1/1024 of the time of an instruction.
pub fn arguments(processor: &Processor) -> String {
    let Processor { instructions_per_us, costs_ps, caches, counting, .. } = processor;
    let cost = |event: &&str| {
        let ps = u128::from(costs_ps.get(*event).copied().unwrap_or_default());
        let units =
            ps * u128::from(*instructions_per_us) * u128::from(UNITS_PER_INSTRUCTION) / 1_000_000;
        format!("{event}={units}")
    };
    let mut args: Vec<String> = EVENTS.iter().map(cost).collect();
    args.push(format!("speed={instructions_per_us}"));
    args.push(format!("first_ways={}", caches.first_ways));
    args.push(format!("second_sets={}", caches.second_sets));
    args.push(format!("second_ways={}", caches.second_ways));
    args.push(format!("fetch_ways={}", caches.fetch_ways));
    args.extend(counting.then(|| "counting=1".to_string()));
    args.join(",")
}

/// The plugin for one QEMU process.
#[derive(Debug)]
pub struct Plugin {
    library: File,
    arguments: String,
}

impl Plugin {
    /// Creates a plugin for a processor.
    ///
    /// # Errors
    /// The error of memfd_create(2) or write(2).
    pub fn new(processor: &Processor) -> io::Result<Plugin> {
        let library = sealed_file(c"fsdyno-processor", LIBRARY)?;
        Ok(Plugin { library, arguments: arguments(processor) })
    }

    /// Returns the value of QEMU's `-plugin` option that loads the plugin. QEMU must inherit [`Plugin::file`].
    pub fn qemu_option(&self) -> String {
        format!("file=/proc/self/fd/{},{}", self.library.as_raw_fd(), self.arguments)
    }

    /// Returns the file that QEMU must inherit.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.library.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::processor::Caches;

    #[test]
    fn costs_are_in_fractions_of_an_instruction() {
        let caches = Caches { first_ways: 12, second_sets: 2048, second_ways: 16, fetch_ways: 4 };
        let processor = Processor {
            name: "x,file=/etc/passwd".into(),
            instructions_per_us: 16_000,
            // 100 ns are 1600 instructions; a name that the model does not know is ignored.
            costs_ps: [("system_call", 100_000), ("miss", 62), ("x,file=/evil", 1)]
                .map(|(name, ps)| (name.to_string(), ps))
                .into(),
            caches,
            error: None,
            counting: false,
            estimate: false,
        };
        assert_eq!(
            arguments(&processor),
            "system_call=1638400,locked=0,miss=1015,streamed=0,fetch=0,speed=16000,first_ways=12,second_sets=2048,second_ways=16,\
             fetch_ways=4"
        );
        assert!(arguments(&Processor { counting: true, ..processor }).ends_with(",counting=1"));
    }
}
