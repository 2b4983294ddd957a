//! Decoding a row allocates nothing.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;
#[path = "common/stacks.rs"]
mod stacks;

use arch::Arch::Aarch64;
use common::at;
use common::guests;
use unwinder::dwarf::{self, Table};
use unwinder::memory::Copied;
use unwinder::{Context, Method, Module, Modules, Policy, Walk};

fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
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
            let mut context = dwarf::Context::new();
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
fn walks_allocate_nothing() {
    let mut walked = 0;
    for guest in guests::programs() {
        let bytes = std::fs::read(&guest.path).unwrap();
        let module = Module::from_elf(&*guest.name, &bytes[..], 0).unwrap();
        let sites: Vec<_> = stacks::row_ends(&module)
            .into_iter()
            .filter(|site| stacks::is_caller(guest.arch, site))
            .collect();
        if sites.is_empty() {
            continue;
        }
        let modules = Modules::new([module]);
        let stack = stacks::random(guest.arch, &sites, 100, &mut stacks::Xorshift(1));
        for mut context in [Context::new(), Context::uncached()] {
            for policy in [Policy::dwarf(), Policy::best(), Policy::new(&Method::ALL)] {
                let memory =
                    || Copied { address: stack.memory.address, bytes: &stack.memory.bytes };
                let mut frames = 0;
                let count = allocations(|| {
                    let stacks::Stack { address, registers, .. } = &stack;
                    let mut walk =
                        Walk::new(policy, &modules, *address, registers, memory(), &mut context);
                    frames = walk.by_ref().count();
                    assert!(walk.end().is_some());
                    let mut walk =
                        Walk::new(policy, &modules, *address, registers, memory(), &mut context);
                    walk.visit(|_| frames += 1);
                });
                assert_eq!(count, 0, "{}: {policy:?}", guest.name);
                walked += frames;
            }
        }
    }
    assert!(walked > 10_000, "{walked}");
}

#[test]
fn nor_do_fixed_sections_expressions_and_errors() {
    let signed = [0x0f, 2, 0x8f, 0, 0x16, 34, 1, 0x31];
    for instructions in [&signed[..], &[0x0a; 99], &[0x2c]] {
        let frame = common::one_of(Aarch64, "zRB", instructions);
        let (table, _) = frame.table();
        let mut context = dwarf::Context::new();
        let mut row = None;
        let look_up = || row = Some(table.row(at(common::CODE), &mut context));
        assert_eq!(allocations(look_up), 0);
        assert_eq!(row.unwrap().is_ok(), instructions == signed);
    }
}
