//! Where a mutex protects the callbacks, tasks of many CPUs queue for it (RV4); Linux 7.3's do
//! not. In virtual time, so that the numbers are exact.

use tests::latency::{Latency, Setup, measure};

const TRACERS: usize = 8;

/// As many tasks as CPUs call at once.
fn on_cpus(design: &'static str, cpus: u32) -> Latency {
    let (asking, silent, laws) = (TRACERS, 0, true);
    measure(&Setup { design, cpus, tasks: cpus, calls: 10, asking, silent, laws })
}

#[test]
fn the_mask_is_flat_where_a_mutex_queues() {
    let (one, many) = (on_cpus("mask", 1), on_cpus("mask", 32));
    assert!(many.samples >= 320 && many.lost == 0, "{many:?}");
    assert!(many.mean <= 1.5 * one.mean, "{one:?} {many:?}");
    for design in ["timestamp", "cookie"] {
        let (one, many) = (on_cpus(design, 1), on_cpus(design, 32));
        assert!(many.mean >= 8.0 * one.mean, "{design}: {one:?} {many:?}");
    }
}

/// The reviewer's sketch has one item for all tasks, so that most stacks are never made (RV9).
#[test]
fn one_item_for_all_tasks_loses_stacks() {
    let many = on_cpus("per-work", 32);
    assert!(many.samples > 0 && many.lost > 10 * many.samples, "{many:?}");
}

/// Tracers that never ask cost nothing where only those are called that asked, but a look.
#[test]
fn silent_tracers_are_called_by_the_mutex_designs() {
    let beside = |design, silent| {
        let (cpus, tasks, calls, asking, laws) = (1, 1, 10, 0, true);
        measure(&Setup { design, cpus, tasks, calls, asking, silent, laws }).mean
    };
    let each = |design| (beside(design, 40) - beside(design, 0)) / 40.0;
    assert!(each("mask") < 20.0 && each("cookie") > 200.0, "{} {}", each("mask"), each("cookie"));
}
