//! The contents of `/proc/self`, and of the sysctls of `/proc/sys/kernel` that size callchains.

use std::fmt::Write;

use arch::Errno;

use crate::kernel::State;
use crate::kernel::vfs::node::ProcFile;
use crate::mem::{Area, Backing};

/// Generates a file.
pub fn contents(s: &State, file: ProcFile) -> Vec<u8> {
    match file {
        ProcFile::Maps => maps(s).into_bytes(),
        ProcFile::Auxv => s.task.image.auxv.clone(),
        ProcFile::Cmdline => s.task.image.cmdline.clone(),
        ProcFile::Environ => s.task.image.environ.clone(),
        ProcFile::Comm => [&s.task.comm[..], b"\n"].concat(),
        ProcFile::Stat => stat(s).into_bytes(),
        ProcFile::Status => status(s).into_bytes(),
        ProcFile::MaxStack => format!("{}\n", s.config.callchains.max_stack).into_bytes(),
        ProcFile::MaxContexts => format!("{}\n", s.config.callchains.max_contexts).into_bytes(),
    }
}

/// A sysctl is written (`perf_event_max_stack_handler`): one number, at the beginning of the file.
///
/// # Errors
///
/// `EINVAL`: no number, or one out of range. `EBUSY`: there are buffers of the present size.
pub fn write(s: &mut State, file: ProcFile, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    let limits = &mut s.config.callchains;
    let (value, most) = match file {
        ProcFile::MaxStack => (&mut limits.max_stack, 655_360),
        ProcFile::MaxContexts => (&mut limits.max_contexts, 1000),
        _ => return Err(Errno::EBADF),
    };
    // `proc_first_pos_non_zero_ignore`
    if offset > 0 {
        return Ok(bytes.len());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
    let word = text.split_ascii_whitespace().next().ok_or(Errno::EINVAL)?;
    let wanted: u32 = word.parse().map_err(|_| Errno::EINVAL)?;
    if wanted > most {
        return Err(Errno::EINVAL);
    }
    if !s.perf.callchains.are_unused() {
        return Err(Errno::EBUSY);
    }
    *value = wanted;
    Ok(bytes.len())
}

/// The kernel's `show_map_vma`: names start in column 74.
fn maps(s: &State) -> String {
    let mut text = String::new();
    for area in s.mm.areas() {
        let mut line = map_line(area);
        let name = area_name(area);
        if !name.is_empty() {
            while line.len() < 73 {
                line.push(' ');
            }
            line.push_str(&name);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn map_line(area: &Area) -> String {
    let bit = |on, c| if on { c } else { '-' };
    let (device, inode) = match &area.backing {
        Backing::File { object, .. } if object.inode() == 1 => ("00:01", 1),
        Backing::File { object, .. } => ("08:01", object.inode()),
        _ => ("00:00", 0),
    };
    format!(
        "{:08x}-{:08x} {}{}{}{} {:08x} {device} {inode} ",
        area.start,
        area.end,
        bit(area.prot.read, 'r'),
        bit(area.prot.write, 'w'),
        bit(area.prot.exec, 'x'),
        if area.flags.shared { 's' } else { 'p' },
        area.offset_of(area.start),
    )
}

/// The name that `/proc/self/maps` shows.
pub fn area_name(area: &Area) -> String {
    match &area.backing {
        Backing::File { object, .. } => object.name(),
        _ => area.name.to_owned(),
    }
}

fn stat(s: &State) -> String {
    let mut text = format!("{} ({}) R {}", s.task.pid, s.task.name(), s.task.ppid);
    // Fields 5 to 52; those that programs look at have values.
    for field in 5..=52 {
        let value = match field {
            5 | 6 => u64::from(s.task.pid),
            10 => s.stats.page_faults,
            20 => 1,
            23 => s.mm.total(),
            24 => s.mm.table.present(),
            28 => s.mm.layout.stack_top,
            _ => 0,
        };
        let _ = write!(text, " {value}");
    }
    text.push('\n');
    text
}

fn status(s: &State) -> String {
    format!(
        "Name:\t{}\nUmask:\t{:04o}\nState:\tR (running)\nTgid:\t{}\nPid:\t{}\nPPid:\t{}\n\
         TracerPid:\t0\nUid:\t{u}\t{u}\t{u}\t{u}\nGid:\t{g}\t{g}\t{g}\t{g}\n\
         VmSize:\t{:8} kB\nVmRSS:\t{:8} kB\nThreads:\t1\nSigBlk:\t{:016x}\n",
        s.task.name(),
        s.task.umask,
        s.task.pid,
        s.task.tid,
        s.task.ppid,
        s.mm.total() / 1024,
        s.mm.table.present() * 4,
        s.task.signals.blocked.0,
        u = s.task.uid,
        g = s.task.gid,
    )
}
