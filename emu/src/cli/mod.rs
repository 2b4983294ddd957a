//! temporary
use crate::kernel::{Kernel, exec, run, state::*};
use crate::perf::record::*;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
/// temporary
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "bare" {
        bare(&args[2], args[1] == "v");
        return ExitCode::SUCCESS;
    }
    let program = exec::Program {
        host: args[0].clone().into(),
        path: args[0].clone(),
        args: args.iter().map(|a| a.clone().into_bytes()).collect(),
        env: vec![],
        root: None,
        cwd: "/".into(),
        seed: 1,
        aslr: None,
        stdout_is_taken: false,
    };
    let config = Config {
        pmu_irq: PmuIrq::Nmi,
        strict: false,
        strace: std::env::var("STRACE").is_ok(),
        boot_time: 1_700_000_000_000_000_000,
        max_instructions: u64::MAX,
    };
    let period = std::env::var("P").map(|p| p.parse().unwrap()).unwrap_or(1_000_000);
    let ev = std::env::var("E").unwrap_or("cycles".into());
    let events = crate::perf::event::parse(
        &ev,
        crate::perf::event::Defaults {
            rate: Rate::Period(period),
            explicit: true,
            callchain: true,
            max_stack: 0,
        },
    )
    .unwrap();
    let mk = |arch| Session {
        arch,
        events,
        cpus: 1,
        cmdline: vec!["emu".into()],
        kernel_symbols: crate::kernel::symbols::all(arch),
    };
    let state = match exec::exec(&program, config, mk) {
        Ok(s) => s,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(126);
        }
    };
    let mut sink = crate::export::open(
        crate::export::Format::PerfData,
        &state.perf.session,
        crate::export::Output::File("/tmp/perf.data".into()),
        crate::export::Images::of_host(),
    )
    .unwrap();
    let k = Kernel::new(state);
    let t = std::time::Instant::now();
    let e = run::run(&k, &AtomicBool::new(false), |r| {
        for r in r {
            sink.record(r)?;
        }
        Ok(())
    });
    sink.finish().unwrap();
    k.with(|s| {
        eprintln!(
            "{e:?} {:?} {:?} unsupported {:?} pc {:x}",
            t.elapsed(),
            s.stats,
            s.unsupported,
            s.core.regs().pc
        )
    });
    ExitCode::SUCCESS
}
/// temporary
pub fn bare(path: &str, virt: bool) {
    use crate::engine::baseline::*;
    let b = std::fs::read(path).unwrap();
    let img = crate::loader::elf::parse(&b).unwrap();
    let pieces: Vec<Piece> = img
        .segments
        .iter()
        .map(|s| Piece {
            addr: s.vaddr,
            len: s.memsz,
            bytes: b[s.file_offset as usize..][..s.filesz as usize].to_vec(),
            perms: crate::engine::Perms { read: s.read, write: s.write, exec: s.execute },
        })
        .collect();
    let t = std::time::Instant::now();
    let r = run(
        img.arch,
        if virt { Translation::Virtual } else { Translation::Default },
        &pieces,
        img.entry,
        |top| {
            let mut at = top - 64;
            let mut bytes = vec![];
            let words = [
                1u64,
                top - 32,
                0,
                0,
                3,
                img.phdr_vaddr.unwrap(),
                4,
                56,
                5,
                img.phnum as u64,
                6,
                4096,
                9,
                img.entry,
                25,
                top - 48,
                23,
                0,
                0,
                0,
            ];
            at = (at - 8 * 20) & !15;
            for w in words {
                bytes.extend_from_slice(&w.to_le_bytes());
            }
            (bytes, at)
        },
    );
    eprintln!("{r:?} {:?}", t.elapsed());
}
