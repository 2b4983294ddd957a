//! `mmap` and its family, `brk`.

use std::rc::Rc;

use arch::Errno;
use arch::syscalls::Sysno;

use super::SysResult;
use crate::kernel::State;
use crate::kernel::perf_event::map;
use crate::kernel::vfs::{Node, Vfs};
use crate::mem::object::MAX_LEN;
use crate::mem::ops::Place;
use crate::mem::remap::RemapFlags;
use crate::mem::{AreaFlags, Backing, PAGE, Prot, page_up};
use crate::perf::opened::Opened;

const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_TYPE: u64 = 0x0f;
const MAP_SHARED_VALIDATE: u64 = 0x03;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_HUGETLB: u64 = 0x40000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    Some(match sysno {
        Sysno::Brk => Ok(s.mm.set_brk(&mut s.arena, a[0])),
        Sysno::Mmap => mmap(s, a),
        Sysno::Munmap => s.mm.unmap(&mut s.arena, a[0], a[1]).map(|()| 0),
        Sysno::Mprotect | Sysno::PkeyMprotect => mprotect(s, sysno, a),
        Sysno::Mremap => mremap(s, a),
        Sysno::Madvise => s.mm.advise(&mut s.arena, a[0], a[1], a[2]).map(|()| 0),
        Sysno::Msync => msync(s, a),
        // MLOCK_ONFAULT
        Sysno::Mlock2 if a[2] & !1 != 0 => Err(Errno::EINVAL),
        Sysno::Mlock | Sysno::Mlock2 | Sysno::Munlock => check_mapped(s, a[0] & !(PAGE - 1), a[1]),
        // MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT, the last not alone.
        Sysno::Mlockall if !matches!(a[0] as u32, 1..=3 | 5..=7) => Err(Errno::EINVAL),
        Sysno::Mlockall | Sysno::Munlockall => Ok(0),
        Sysno::Mincore => mincore(s, a),
        Sysno::Membarrier => membarrier(a),
        _ => return None,
    })
}

fn mmap(s: &mut State, a: [u64; 6]) -> SysResult {
    let [addr, len, prot, flags, fd, offset] = a;
    if offset % PAGE != 0 {
        return Err(Errno::EINVAL);
    }
    let anonymous = flags & MAP_ANONYMOUS != 0;
    if !anonymous {
        s.task.fds.get(fd as i32)?;
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    // Only a mapping of a file knows MAP_SHARED_VALIDATE.
    let shared = match flags & MAP_TYPE {
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if !anonymous => true,
        MAP_PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    if flags & MAP_HUGETLB != 0 {
        return Err(Errno::ENOMEM);
    }
    let grows_down = flags & MAP_GROWSDOWN != 0;
    if grows_down && (shared || !anonymous) {
        return Err(Errno::EINVAL);
    }
    let whole = page_up(len).ok_or(Errno::ENOMEM)?;
    // Of anonymous memory the offset does not matter (`file_mmap_ok`).
    if !anonymous && offset.checked_add(whole).is_none_or(|end| end > MAX_LEN) {
        return Err(Errno::EOVERFLOW);
    }
    let event = match anonymous {
        true => None,
        false => match &s.task.fds.get(fd as i32)?.node {
            Node::Perf(event) => Some(event.event().clone()),
            _ => None,
        },
    };
    if let Some(event) = event {
        let wanted = map::Wanted { len: whole, offset, shared, writable: prot & 2 != 0 };
        return map_event(s, &event, wanted, place_of(addr, flags), Prot::from_bits(prot));
    }
    let (file, writable) = match anonymous {
        false => Vfs::mappable(&*s.task.fds.get(fd as i32)?, prot & 2 != 0 && shared)?,
        true => (None, true),
    };
    let place = place_of(addr, flags);
    let backing = match file {
        Some(object) => Backing::File { object, offset },
        None => Backing::Anonymous,
    };
    let area = AreaFlags {
        shared,
        grows_down,
        heap: false,
        read_only: shared && !writable,
        dont_copy: false,
        no_reserve: flags & MAP_NORESERVE != 0,
    };
    let protection = Prot::from_bits(prot);
    let start = s.mm.map(&mut s.arena, place, len, protection, area, backing)?;
    s.record_mapping(start);
    if flags & MAP_POPULATE != 0
        && let Some(end) = page_up(start + len)
    {
        // Failure to populate is not an error of `mmap`.
        let _ = s.mm.populate(&mut s.arena, start, end, protection.write);
    }
    Ok(start)
}

const fn place_of(addr: u64, flags: u64) -> Place {
    match (flags & MAP_FIXED_NOREPLACE != 0, flags & MAP_FIXED != 0) {
        (true, _) => Place::FixedNoReplace(addr),
        (false, true) => Place::Fixed(addr),
        (false, false) => Place::Hint(addr),
    }
}

/// The ring of a performance event. It is not copied at fork.
fn map_event(
    s: &mut State,
    event: &Rc<Opened>,
    wanted: map::Wanted,
    place: Place,
    prot: Prot,
) -> SysResult {
    let backing = map::ring(s, event, wanted)?;
    let flags = AreaFlags { shared: true, dont_copy: true, ..AreaFlags::default() };
    let start =
        s.mm.map_named(&mut s.arena, place, (wanted.len, map::NAME), prot, flags, backing)?;
    Ok(start)
}

fn mprotect(s: &mut State, sysno: Sysno, a: [u64; 6]) -> SysResult {
    if sysno == Sysno::PkeyMprotect && a[3] as i32 != -1 {
        return Err(Errno::EINVAL);
    }
    // PROT_READ, WRITE, EXEC, SEM: the processors have neither BTI nor MTE.
    const KNOWN: u64 = 0xf;
    const PROT_GROWSDOWN: u64 = 0x100_0000;
    let [mut start, mut len, prot, ..] = a;
    if !start.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    page_up(len).and_then(|l| start.checked_add(l)).ok_or(Errno::ENOMEM)?;
    if prot & !(KNOWN | PROT_GROWSDOWN) != 0 {
        return Err(Errno::EINVAL);
    }
    if prot & PROT_GROWSDOWN != 0 {
        let area = s.mm.area(start).ok_or(Errno::ENOMEM)?;
        if !area.flags.grows_down {
            return Err(Errno::EINVAL);
        }
        len += start - area.start;
        start = area.start;
    }
    s.mm.protect(start, len, Prot::from_bits(prot)).map(|()| 0)
}

fn mremap(s: &mut State, a: [u64; 6]) -> SysResult {
    let [old, old_len, new_len, flags, to, _] = a;
    let fixed = flags & MREMAP_FIXED != 0;
    let may_move = flags & MREMAP_MAYMOVE != 0;
    let keep = flags & MREMAP_DONTUNMAP != 0;
    let unknown = flags & !(MREMAP_FIXED | MREMAP_MAYMOVE | MREMAP_DONTUNMAP) != 0;
    if unknown || (fixed || keep) && !may_move {
        return Err(Errno::EINVAL);
    }
    let flags = RemapFlags { may_move, fixed: fixed.then_some(to), keep };
    s.mm.remap(&mut s.arena, old, old_len, new_len, flags)
}

fn msync(s: &mut State, a: [u64; 6]) -> SysResult {
    const ASYNC: u64 = 1;
    const SYNC: u64 = 4;
    const KNOWN: u64 = 7;
    let how = a[2] & 0xffff_ffff;
    if how & !KNOWN != 0 || how & (ASYNC | SYNC) == ASYNC | SYNC {
        return Err(Errno::EINVAL);
    }
    check_mapped(s, a[0], a[1])
}

/// The range must be mapped throughout.
fn check_mapped(s: &mut State, start: u64, len: u64) -> SysResult {
    if !start.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = page_up(len).and_then(|l| start.checked_add(l)).ok_or(Errno::ENOMEM)?;
    let mut at = start;
    while at < end {
        at = s.mm.area(at).ok_or(Errno::ENOMEM)?.end;
    }
    Ok(0)
}

fn mincore(s: &mut State, a: [u64; 6]) -> SysResult {
    check_mapped(s, a[0], a[1])?;
    let pages = a[1].div_ceil(PAGE);
    // A page of answers at a time: the range may be large.
    for first in (0..pages).step_by(4096) {
        let n = (pages - first).min(4096);
        let answers: Vec<u8> = (first..first + n)
            .map(|i| u8::from(s.mm.table.get(a[0] + i * PAGE).is_some()))
            .collect();
        s.write_user(a[2] + first, &answers)?;
    }
    Ok(0)
}

fn membarrier(a: [u64; 6]) -> SysResult {
    const QUERY: u64 = 0;
    const GLOBAL: u64 = 1;
    const PRIVATE_EXPEDITED: u64 = 8;
    const REGISTER_PRIVATE_EXPEDITED: u64 = 16;
    const SUPPORTED: u64 = GLOBAL | PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED;
    // Of these commands none has flags.
    match a[0] {
        _ if a[1] != 0 => Err(Errno::EINVAL),
        QUERY => Ok(SUPPORTED),
        GLOBAL | PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
