//! The chains of the golden program have the shapes that perf recorded on real kernels
//! (Linux 7.3 on x86_64, 7.2 on arm64).
//!
//! The texts in `golden/ARCH` were written by hand from what those recordings show:
//!
//! * x86_64 has `entry_SYSCALL_64_after_hwframe` and `do_syscall_64` below a system call,
//!   arm64 `el0t_64_sync` to `el0_svc_common`; tracepoints are hit in the functions that
//!   fire them. arm64 gives the first address of a tracepoint twice.
//! * A leaf without a frame loses its caller: on x86_64 for good, on arm64 the link
//!   register that is sampled with the chain has it.
//! * Without frame pointers only the program counter is left.
//! * A chain ends after 127 addresses.
//! * Through a signal's handler the interrupted function is missing on x86_64; on arm64
//!   its link register and then its saved one are there, so its caller comes twice.
//! * `badfp` calls getpid with nine doctored frame pointers. x86_64 looks at neither
//!   alignment nor direction: a frame that points to itself fills the chain. Both report a
//!   return address of 0.
//! * A fault of a kernel copy is at the copy: the fault's own frames are not there, and
//!   since it has real registers, arm64 does not repeat its address.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use arch::Arch;
use emu::perf::record::CpuMode;
use tests::bless;
use tests::harness::{Harness, Outcome};
use tests::symbols::{chains, for_each};

const SYSCALLS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";

fn run(arch: Arch, guest: &str, args: &[&str], events: &str) -> Outcome {
    Harness::new(arch, guest).args(args).events(events, 1).run()
}

fn compare(guest: &str, args: &[&str], events: &str, name: &str) {
    compare_where(guest, args, events, name, |_| true);
}

fn compare_where(
    guest: &str,
    args: &[&str],
    events: &str,
    name: &str,
    wanted: impl Fn(&str) -> bool,
) {
    for arch in Arch::ALL {
        let chains = chains(&run(arch, guest, args, events));
        let chains: String = chains.split_inclusive('\n').filter(|line| wanted(line)).collect();
        bless::compare(&format!("golden/{arch}/{name}.txt"), &chains);
    }
}

#[test]
fn system_calls() {
    compare("golden-fp", &["sys", "1"], SYSCALLS, "sys");
}

#[test]
fn switches() {
    compare("golden-fp", &["sys", "2"], "context-switches", "switches");
}

#[test]
fn leaves_without_frames() {
    compare("golden-leaf", &["sys", "1"], SYSCALLS, "leaf");
}

/// Where the register holds something else, a chain may follow it for a while: only the
/// functions that leave it alone are compared.
#[test]
fn no_frame_pointers() {
    let wanted = |line: &str| line.contains("| sys_");
    compare_where("golden-nofp", &["sys", "1"], SYSCALLS, "nofp", wanted);
}

#[test]
fn deep_recursion() {
    compare("golden-fp", &["deep", "2", "600"], "raw_syscalls:sys_enter", "deep");
}

#[test]
fn page_faults() {
    compare("golden-fp", &["fault", "6"], "page-faults", "fault");
}

#[test]
fn signals() {
    compare("golden-fp", &["sig", "1"], SYSCALLS, "sig");
}

#[test]
fn doctored_frame_pointers() {
    compare("golden-fp", &["badfp"], "raw_syscalls:sys_enter", "badfp");
}

#[test]
fn the_link_register_has_a_leafs_caller() {
    let outcome = run(Arch::Aarch64, "golden-leaf", &["sys", "3"], SYSCALLS);
    let inner = function(Arch::Aarch64, "golden-leaf", "inner");
    let mut seen = 0;
    for_each(&outcome, |s, chain| {
        assert!(s.user_lr.is_some(), "{s:x?}");
        if chain.contains("| sys_getpid") {
            assert!(inner.contains(&(s.user_lr.unwrap() - 1)), "{:x?} {inner:x?}", s.user_lr);
            seen += 1;
        }
    });
    assert_eq!(seen, 6);
    let outcome = run(Arch::X86_64, "golden-leaf", &["sys", "3"], SYSCALLS);
    assert!(outcome.samples().all(|s| s.user_lr.is_none()));
}

/// The addresses of a function of a guest.
fn function(arch: Arch, guest: &str, name: &str) -> std::ops::Range<u64> {
    let catalogue = tests::catalogue();
    let path = catalogue.path(catalogue.find(guest).unwrap(), arch.name());
    let bytes = std::fs::read(path).unwrap();
    let elf = goblin::elf::Elf::parse(&bytes).unwrap();
    let symbol = elf.syms.iter().find(|s| elf.strtab.get_at(s.st_name) == Some(name)).unwrap();
    symbol.st_value..symbol.st_value + symbol.st_size
}

/// arm64's terminal frame record gives a zero at the end; x86_64 has none.
#[test]
fn the_end_of_the_chain() {
    for (arch, ends_with_zero) in [(Arch::X86_64, false), (Arch::Aarch64, true)] {
        let outcome = run(arch, "hello-musl", &[], "raw_syscalls:sys_enter");
        for s in outcome.samples().skip(2) {
            let zero = s.callchain.last() == Some(&0);
            assert_eq!(zero, ends_with_zero, "{arch}: {:x?}", s.callchain);
        }
    }
}

/// Who calls whom in the kernel, callee first. A chain of a sample anywhere in the kernel
/// is a path through this, however deep interrupts nest.
const X86_64_CALLS: &[(&str, &[&str])] = &[
    ("entry_SYSCALL_64_after_hwframe", &[]),
    ("asm_exc_page_fault", &[]),
    ("asm_exc_invalid_op", &[]),
    ("do_syscall_64", &["entry_SYSCALL_64_after_hwframe"]),
    ("trace_syscall_enter", &["do_syscall_64"]),
    ("trace_syscall_exit", &["do_syscall_64"]),
    // `__x64_sys_…` and `ksys_…` are called through `x64_sys_call`, by tail calls.
    // It calls those that do not return.
    ("x64_sys_call", &["do_syscall_64"]),
    ("__x64_sys_exit_group", &["x64_sys_call"]),
    ("__x64_sys_*", &["do_syscall_64"]),
    ("ksys_read", &["do_syscall_64"]),
    ("ksys_write", &["do_syscall_64"]),
    ("vm_mmap_pgoff", &["do_syscall_64"]),
    ("__vm_munmap", &["do_syscall_64"]),
    ("exit_to_user_mode_loop", &["do_syscall_64"]),
    ("irqentry_exit", &["asm_exc_page_fault", "asm_exc_invalid_op", TIMER]),
    ("exc_page_fault", &["asm_exc_page_fault"]),
    ("do_user_addr_fault", &["exc_page_fault"]),
    ("exc_invalid_op", &["asm_exc_invalid_op"]),
    ("force_sig_fault", &["do_user_addr_fault"]),
    ("x64_setup_rt_frame", &["arch_do_signal_or_restart"]),
    ("arch_do_signal_or_restart", &["exit_to_user_mode_loop", "irqentry_exit"]),
    (TIMER, ANYTHING),
    ("sysvec_apic_timer_interrupt", &[TIMER]),
    ("hrtimer_interrupt", &["sysvec_apic_timer_interrupt"]),
    ("__mmap_region", &["do_mmap"]),
    ("do_tkill", &["__x64_sys_tgkill"]),
    ("do_send_specific", &["do_tkill"]),
    ("do_send_sig_info", &["do_send_specific", "kill_pid_info_type"]),
    ("send_signal_locked", &["do_send_sig_info", "force_sig_info_to_task"]),
    ("force_sig_info_to_task", &["force_sig_fault"]),
];

const AARCH64_CALLS: &[(&str, &[&str])] = &[
    ("el0t_64_sync", &[]),
    ("el0t_64_irq", &[]),
    ("el0t_64_sync_handler", &["el0t_64_sync"]),
    ("el0t_64_irq_handler", &["el0t_64_irq"]),
    ("el0_svc", &["el0t_64_sync_handler"]),
    ("el0_da", &["el0t_64_sync_handler"]),
    ("el0_ia", &["el0t_64_sync_handler"]),
    ("el0_undef", &["el0t_64_sync_handler"]),
    ("do_el0_svc", &["el0_svc"]),
    ("el0_svc_common.constprop.0", &["do_el0_svc"]),
    ("invoke_syscall.constprop.0", &["el0_svc_common.constprop.0"]),
    ("syscall_trace_enter", &["el0_svc_common.constprop.0"]),
    ("syscall_trace_exit", &["el0_svc_common.constprop.0"]),
    ("__arm64_sys_*", &["invoke_syscall.constprop.0"]),
    ("ksys_read", &["__arm64_sys_read"]),
    ("ksys_write", &["__arm64_sys_write"]),
    ("vm_mmap_pgoff", &["__arm64_sys_mmap"]),
    ("__vm_munmap", &["__arm64_sys_munmap"]),
    ("exit_to_user_mode_loop", &["el0_svc", "el0_da", "el0_ia", "el0_undef", "el0_interrupt"]),
    ("__el0_irq_handler_common", &["el0t_64_irq_handler"]),
    ("el0_interrupt", &["__el0_irq_handler_common"]),
    ("do_mem_abort", &["el0_da", "el0_ia"]),
    ("do_translation_fault", &["do_mem_abort"]),
    ("do_page_fault", &["do_translation_fault"]),
    ("do_el0_undef", &["el0_undef"]),
    ("arm64_force_sig_fault", &["do_page_fault"]),
    ("setup_rt_frame", &["arch_do_signal_or_restart"]),
    ("arch_do_signal_or_restart", &["exit_to_user_mode_loop"]),
    ("el1h_64_irq", ANYTHING),
    ("el1h_64_irq_handler", &["el1h_64_irq"]),
    ("el1_interrupt", &["el1h_64_irq_handler"]),
    ("hrtimer_interrupt", &["el1_interrupt", "el0_interrupt"]),
    ("mmap_region", &["do_mmap"]),
    ("__mmap_region", &["mmap_region"]),
    ("do_send_specific", &["__arm64_sys_tgkill"]),
    ("do_send_sig_info", &["kill_pid_info_type"]),
    ("send_signal_locked", &["do_send_specific", "do_send_sig_info", "force_sig_info_to_task"]),
    ("force_sig_info_to_task", &["arm64_force_sig_fault"]),
];

const COMMON_CALLS: &[(&str, &[&str])] = &[
    ("vfs_read", &["ksys_read"]),
    ("vfs_write", &["ksys_write"]),
    ("do_sys_openat2", &["__*_sys_openat", "__x64_sys_open"]),
    ("do_file_open", &["do_sys_openat2"]),
    ("path_openat", &["do_file_open"]),
    ("do_mmap", &["vm_mmap_pgoff"]),
    ("do_writev", &["__*_sys_writev"]),
    ("vfs_writev", &["do_writev"]),
    ("hrtimer_nanosleep", &["__*_sys_nanosleep"]),
    ("do_nanosleep", &["hrtimer_nanosleep"]),
    ("schedule", &["do_nanosleep"]),
    ("__schedule", &["schedule"]),
    ("kill_something_info", &["__*_sys_kill"]),
    ("kill_pid_info_type", &["kill_something_info"]),
    ("do_group_exit", &["__*_sys_exit_group"]),
    ("do_exit", &["do_group_exit"]),
    ("__send_signal_locked", &["send_signal_locked"]),
    ("get_signal", &["arch_do_signal_or_restart"]),
    ("handle_mm_fault", &["do_user_addr_fault", "do_page_fault"]),
    ("__handle_mm_fault", &["handle_mm_fault"]),
    ("do_anonymous_page", &["__handle_mm_fault"]),
    ("do_fault", &["__handle_mm_fault"]),
    ("__hrtimer_run_queues", &["hrtimer_interrupt"]),
    ("do_mprotect_pkey", &["__*_sys_mprotect"]),
];

const TIMER: &str = "asm_sysvec_apic_timer_interrupt";
/// Callers of an interrupt's entry: what it interrupted, or nothing.
const ANYTHING: &[&str] = &["*"];

/// Whether `name` is `pattern`, in which `*` stands for anything.
fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
        None => name == pattern,
    }
}

/// What is wrong with a kernel chain, innermost first.
fn wrong_call(arch: Arch, chain: &[&str]) -> Option<String> {
    let own = match arch {
        Arch::X86_64 => X86_64_CALLS,
        Arch::Aarch64 => AARCH64_CALLS,
    };
    let calls = || own.iter().chain(COMMON_CALLS);
    for (i, callee) in chain.iter().enumerate() {
        let Some((_, callers)) = calls().find(|(name, _)| fits(callee, name)) else {
            return Some(format!("{callee} is not expected"));
        };
        let caller = chain.get(i + 1);
        let right = match caller {
            Some(caller) => callers.iter().any(|c| fits(caller, c)),
            None => callers.is_empty() || *callers == ANYTHING,
        };
        if !right {
            return Some(format!("{callee} is called by {}", caller.unwrap_or(&"nothing")));
        }
    }
    None
}

#[test]
fn kernel_functions_call_each_other_as_on_linux() {
    let runs: [(&str, &[&str], u64); 5] = [
        ("golden-fp", &["sys", "20"], 101),
        ("golden-fp", &["sig", "20"], 97),
        ("golden-fp", &["fault", "64"], 89),
        ("segv", &[], 211),
        ("memory", &[], 499),
    ];
    for arch in Arch::ALL {
        let mut seen = BTreeSet::new();
        for (guest, args, period) in runs {
            for events in ["cycles:k", "cycles:k,cpu-clock"] {
                let harness = Harness::new(arch, guest).args(args).events(events, period);
                for_each(&harness.run(), |s, chain| {
                    if s.mode == CpuMode::Kernel {
                        let kernel = chain.split(" | ").next().unwrap();
                        seen.insert(kernel.to_owned());
                    }
                });
            }
        }
        let wrong: Vec<String> = seen
            .iter()
            .filter_map(|chain| {
                let names: Vec<&str> = chain.split(" <- ").collect();
                wrong_call(arch, &names).map(|what| format!("{what}: {chain}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{arch}:\n{}", wrong.join("\n"));
        for chain in expected_chains(arch) {
            assert!(seen.contains(*chain), "{arch}: {chain} was never sampled");
        }
    }
}

/// Some chains in whole, as they were recorded.
fn expected_chains(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &[
            "do_syscall_64 <- entry_SYSCALL_64_after_hwframe",
            "vfs_read <- ksys_read <- do_syscall_64 <- entry_SYSCALL_64_after_hwframe",
            "__schedule <- schedule <- do_nanosleep <- hrtimer_nanosleep <- __x64_sys_nanosleep <- \
             do_syscall_64 <- entry_SYSCALL_64_after_hwframe",
            "get_signal <- arch_do_signal_or_restart <- exit_to_user_mode_loop <- do_syscall_64 <- \
             entry_SYSCALL_64_after_hwframe",
            "get_signal <- arch_do_signal_or_restart <- irqentry_exit <- asm_exc_page_fault",
            "do_user_addr_fault <- exc_page_fault <- asm_exc_page_fault",
            "do_anonymous_page <- __handle_mm_fault <- handle_mm_fault <- do_user_addr_fault <- \
             exc_page_fault <- asm_exc_page_fault",
            "do_exit <- do_group_exit <- __x64_sys_exit_group <- x64_sys_call <- do_syscall_64 <- \
             entry_SYSCALL_64_after_hwframe",
        ],
        Arch::Aarch64 => &[
            "el0_svc <- el0t_64_sync_handler <- el0t_64_sync",
            "vfs_read <- ksys_read <- __arm64_sys_read <- invoke_syscall.constprop.0 <- \
             el0_svc_common.constprop.0 <- do_el0_svc <- el0_svc <- el0t_64_sync_handler <- \
             el0t_64_sync",
            "get_signal <- arch_do_signal_or_restart <- exit_to_user_mode_loop <- el0_svc <- \
             el0t_64_sync_handler <- el0t_64_sync",
            "do_page_fault <- do_translation_fault <- do_mem_abort <- el0_da <- \
             el0t_64_sync_handler <- el0t_64_sync",
            "__send_signal_locked <- send_signal_locked <- do_send_specific <- __arm64_sys_tgkill <- \
             invoke_syscall.constprop.0 <- el0_svc_common.constprop.0 <- do_el0_svc <- el0_svc <- \
             el0t_64_sync_handler <- el0t_64_sync",
        ],
    }
}
