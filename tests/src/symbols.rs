//! Callchains by name.

use std::sync::Arc;

use emu::export::Images;
use emu::export::processes::Processes;
use emu::loader::vdso;
use emu::perf::record::{CpuMode, Record, Sample, context};
use emu::symbols::LookupAddress;

use crate::harness::Outcome;

/// Each sample of `outcome` as one line, equal neighbours counted:
///
/// ```text
/// 2x  raw_syscalls:sys_enter  trace_syscall_enter <- do_syscall_64 | sys_getpid <- inner
/// ```
///
/// Innermost first, the kernel's part before the bar. What has no name is `[unknown]` in a mapped
/// file, else an address. A name that comes several times in a row is counted: `deep (126 times)`.
pub fn chains(outcome: &Outcome) -> String {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for_each(outcome, |s, chain| {
        let event = &outcome.session.events[s.event].name;
        let line = format!("{event}  {chain}");
        match lines.last_mut() {
            Some((count, last)) if *last == line => *count += 1,
            _ => lines.push((1, line)),
        }
    });
    lines.iter().map(|(count, line)| format!("{count}x  {line}\n")).collect()
}

/// Shows every sample with its chain by name, as in [`chains`].
pub fn for_each(outcome: &Outcome, mut see: impl FnMut(&Sample, &str)) {
    let image: Arc<[u8]> = vdso::image(outcome.session.arch).into();
    let images = Images::of_host().with("[vdso]", image);
    let mut processes = Processes::new(&outcome.session.kernel_symbols, images);
    for record in &outcome.records {
        processes.update(record);
        if let Record::Sample(s) = record {
            see(s, &chain(&processes, s));
        }
    }
}

/// As `perf script` and the recordings of real kernels do, every address is looked up as
/// it is: the first instruction of a signal's restorer is not the function before it.
fn chain(processes: &Processes, s: &Sample) -> String {
    let mut parts: [Vec<String>; 2] = Default::default();
    let mut mode = s.mode;
    for &address in &s.callchain {
        match address {
            context::KERNEL => mode = CpuMode::Kernel,
            context::USER => mode = CpuMode::User,
            _ => parts[usize::from(mode == CpuMode::User)].push(name(processes, s, address, mode)),
        }
    }
    match parts.map(join) {
        [kernel, user] if kernel.is_empty() => user,
        [kernel, user] => format!("{kernel} | {user}"),
    }
}

fn name(processes: &Processes, s: &Sample, address: u64, mode: CpuMode) -> String {
    let frame = processes.lookup(s.pid, LookupAddress::Instruction(address), mode);
    match (frame.function, frame.dso) {
        (Some(function), _) => function.name.to_string(),
        (None, Some(_)) => "[unknown]".to_owned(),
        (None, None) => format!("{address:#x}"),
    }
}

/// Names with arrows, equal neighbours counted.
fn join(names: Vec<String>) -> String {
    let mut counted: Vec<(usize, String)> = Vec::new();
    for name in names {
        match counted.last_mut() {
            Some((count, last)) if *last == name => *count += 1,
            _ => counted.push((1, name)),
        }
    }
    let texts = counted.into_iter().map(|(count, name)| match count {
        1 => name,
        _ => format!("{name} ({count} times)"),
    });
    texts.collect::<Vec<_>>().join(" <- ")
}
