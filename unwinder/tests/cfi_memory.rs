//! Decoding a row allocates nothing.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use arch::Arch::Aarch64;
use common::at;
use common::guests;
use unwinder::dwarf::{Context, Table};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all work is the system allocator's; a counter of the thread goes up beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: as asked for by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as asked for by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn rows_allocate_nothing() {
    // The counter counts.
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    let mut looked_up = 0;
    for guest in guests::programs().iter().chain(&guests::dumps()) {
        for sections in guest.sections() {
            let (table, _) = Table::new(guest.arch, sections).unwrap();
            let ranges: Vec<_> = table.entries().map(|entry| entry.unwrap().range).collect();
            let mut context = Context::new();
            let count = allocations(|| {
                for &(start, end) in &ranges {
                    for address in [start, end.wrapping_sub(1), end] {
                        looked_up += usize::from(table.row(at(address), &mut context).is_ok());
                    }
                }
            });
            assert_eq!(count, 0, "{}", guest.name);
        }
    }
    assert!(looked_up > 10_000, "{looked_up}");
}

#[test]
fn nor_do_fixed_sections_expressions_and_errors() {
    let signed = [0x0f, 2, 0x8f, 0, 0x16, 34, 1, 0x31];
    for instructions in [&signed[..], &[0x0a; 99], &[0x2c]] {
        let frame = common::one_of(Aarch64, "zRB", instructions);
        let (table, _) = frame.table();
        let mut context = Context::new();
        let mut row = None;
        let look_up = || row = Some(table.row(at(common::CODE), &mut context));
        assert_eq!(allocations(look_up), 0);
        assert_eq!(row.unwrap().is_ok(), instructions == signed);
    }
}
