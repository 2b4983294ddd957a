//! Costs that are paid once a run, a sample, a region or a page.

use std::process::Command;

use arch::Arch;
use emu::engine::{Arena, Engine};
use emu::mem::mm::MmId;
use emu::mem::ops::Place;
use emu::mem::{AreaFlags, Backing, Mm, MmLayout, Prot};
use guests::Catalogue;

use crate::emulate::{emulate, guest};
use crate::output::line;
use crate::table::{Bound, Row, Table};
use crate::{PERIOD, RUNS, Result, shortest, timed};

/// Start to exit of the smallest guest, beyond the engine's own start.
pub fn start(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "hello", arch)?;
    let (mut whole, mut engine) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS * 4 {
        whole = whole.min(timed(|| emulate(&path, &[], PERIOD))?.as_secs_f64());
        engine = engine.min(timed(|| Ok(Engine::new(arch, &mut Arena::new()?)?))?.as_secs_f64());
    }
    let beyond = (whole - engine) * 1e3;
    let what = format!("beyond the engine's own start ({:.1} ms)", engine * 1e3);
    let row = Row::new("start to exit of hello", arch.name(), &what, beyond, "ms");
    table.push(row.promise(Bound::AtMost(40.0)));
    Ok(())
}

/// Cost of a sample, as their number doubles.
pub fn samples(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "bench", arch)?;
    let base = shortest(|| emulate(&path, &["1"], u64::MAX / 4))?;
    for doubling in 0..5 {
        let period = 16_000 >> doubling;
        let mut count = 0;
        let best = shortest(|| {
            count = emulate(&path, &["1"], period)?;
            Ok(())
        })?;
        let what = format!("{count} samples");
        let each = (best - base) / count.max(1) as f64 * 1e6;
        table.push(Row::new("cost per sample", arch.name(), &what, each, "µs"));
    }
    Ok(())
}

/// Peak resident memory of a guest that touches 256 MiB, in a process of its own.
pub fn memory(table: &mut Table) -> Result<()> {
    let out = Command::new(std::env::current_exe()?).args(["--resident", "touch256"]).output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let kib: f64 = text.trim().parse().map_err(|_| format!("no figure in {text:?}"))?;
    let beyond = kib / 1024.0 - 256.0;
    let what = "beyond the 256 MiB that the guest touches";
    let row = Row::new("resident memory", "x86_64", what, beyond, "MiB");
    table.push(row.promise(Bound::AtMost(120.0)));
    Ok(())
}

/// Child of [`memory`]: prints this process's peak in KiB.
pub fn resident(catalogue: &Catalogue, name: &str) -> Result<()> {
    emulate(&guest(catalogue, name, Arch::X86_64)?, &[], PERIOD)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|p| p.split_whitespace().next()).ok_or("no VmHWM")?;
    line(format_args!("{peak}"));
    Ok(())
}

/// Cost of mapping, finding and unmapping a region, as their number doubles.
pub fn regions(table: &mut Table) -> Result<()> {
    let layout = MmLayout {
        mmap_base: 0x7fff_f000_0000,
        brk_start: 0x10_0000,
        stack_top: 0x7fff_ffff_f000,
        stack_limit: 8 << 20,
        data_limit: u64::MAX,
        address_limit: u64::MAX,
    };
    for doubling in 0..6 {
        let count = 1_000u64 << doubling;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let mut arena = Arena::new()?;
            let mut mm = Mm::new(MmId(1), Arch::X86_64, layout, &mut arena).ok_or("no memory")?;
            let time = timed(|| {
                for i in 0..count {
                    // Neighbours differ, so that they do not merge.
                    let prot = if i % 2 == 0 { Prot::R } else { Prot::RW };
                    let at = Place::Fixed(0x1000_0000 + i * 4096);
                    let flags = AreaFlags::default();
                    mm.map(&mut arena, at, 4096, prot, flags, Backing::Anonymous)
                        .map_err(|e| e.to_string())?;
                }
                for i in 0..count {
                    mm.unmap(&mut arena, 0x1000_0000 + i * 4096, 4096)
                        .map_err(|e| e.to_string())?;
                }
                Ok(())
            })?;
            best = best.min(time.as_secs_f64());
        }
        let each = best / count as f64 * 1e6;
        let what = format!("{count} regions");
        table.push(Row::new("cost per mapped region", "both", &what, each, "µs"));
    }
    Ok(())
}
