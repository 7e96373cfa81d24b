//! The disk runs in a server on which write-back depends: once built, it must not allocate.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fsdyno_disk::store::{Destination, Store, region_size};
use fsdyno_disk::{Action, Request, catalog};
use fsdyno_record::seed::stream;
use fsdyno_record::{Bytes, Nanos};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting by thread.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator, which keeps the contract; the count is a plain
// cell of the thread and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees that `layout` is valid.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, hence from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Number of allocations of `work` on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1u64)))), 1);
}

#[test]
fn a_disk_allocates_nothing_while_it_serves_requests() {
    for name in catalog::names() {
        let spec = catalog::get(name).unwrap();
        let mut disk = fsdyno_disk::build(&spec, 1);
        let mut draws = stream(1, "requests");
        let count = allocations(|| {
            let mut now = Nanos(0);
            for id in 0..20_000u64 {
                let action = match draws.below(16) {
                    0..4 => Action::Read,
                    4..15 => Action::Write,
                    _ if id % 64 == 0 => Action::Flush,
                    _ => Action::Trim,
                };
                let sector = draws.below(spec.capacity.0 / 4096 - 32) * 8;
                let sectors = 8 << draws.below(6);
                disk.submit(now, Request { id, action, sector, sectors, fua: id % 100 == 0 });
                // From time to time the test waits for all requests; in between, the queue fills up.
                if id % 128 == 127 {
                    while let Some(due) = disk.next_due() {
                        now = now.max(due);
                        disk.pop_completed(now);
                        while disk.pop_persisted().is_some() {}
                    }
                }
            }
        });
        assert_eq!(count, 0, "{name}");
    }
}

#[test]
fn a_store_allocates_nothing_while_it_is_used() {
    let capacity = Bytes(64 << 20);
    let memory = vec![0; region_size(capacity, Bytes(16 << 20)) as usize];
    let mut store = Store::create(memory, capacity).unwrap();
    let mut draws = stream(2, "blocks");
    let count = allocations(|| {
        for _ in 0..500 {
            let (offset, length) = (draws.below(2000) * 4096, (1 + draws.below(64)) * 4096);
            let mut fill = |bytes: &mut [u8]| {
                bytes.iter_mut().step_by(512).for_each(|byte| *byte = draws.draw() as u8);
                Ok::<(), ()>(())
            };
            store.write_with(Destination::Cache, offset, length, &mut fill).unwrap();
            store.persist(draws.below(16_000), draws.below(2000));
            store.trim(draws.below(2000) * 4096, 16 << 10);
            store.read_with(offset, length, &mut |_| Ok::<(), ()>(())).unwrap();
        }
    });
    assert_eq!(count, 0);
}
