#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
//! Address spaces without a CPU: what the memory calls change, and their errors.

use std::rc::Rc;

use arch::{Arch, Errno};

use super::ops::Place;
use super::remap::RemapFlags;
use super::*;
use crate::engine::{Access, Arena};
use crate::mem::mm::MmId;

const AT: u64 = 0x10_0000_0000;
const ANYWHERE: Place = Place::Hint(0);
const SHARED: AreaFlags = AreaFlags {
    shared: true,
    grows_down: false,
    heap: false,
    read_only: false,
    dont_copy: false,
    no_reserve: false,
};
const MOVE: RemapFlags = RemapFlags { may_move: true, fixed: None, keep: false };

struct Lab {
    mm: Mm,
    arena: Arena,
}

impl Lab {
    fn new() -> Lab {
        let layout = MmLayout {
            mmap_base: 0x7fff_f000_0000,
            brk_start: 0x40_0000,
            stack_top: 0x7fff_ffff_f000,
            stack_limit: 8 << 20,
            data_limit: u64::MAX,
            address_limit: u64::MAX,
        };
        let mut arena = Arena::new().unwrap();
        let mm = Mm::new(MmId(1), Arch::X86_64, layout, &mut arena).unwrap();
        Lab { mm, arena }
    }

    fn map_as(
        &mut self,
        place: Place,
        pages: u64,
        prot: Prot,
        flags: AreaFlags,
    ) -> Result<u64, Errno> {
        self.mm.map(&mut self.arena, place, pages * PAGE, prot, flags, Backing::Anonymous)
    }

    fn map(&mut self, place: Place, pages: u64) -> Result<u64, Errno> {
        self.map_as(place, pages, Prot::RW, AreaFlags::default())
    }

    fn unmap(&mut self, at: u64, pages: u64) {
        self.mm.unmap(&mut self.arena, at, pages * PAGE).unwrap();
    }

    fn remap(&mut self, at: u64, from: u64, to: u64, flags: RemapFlags) -> Result<u64, Errno> {
        self.mm.remap(&mut self.arena, at, from * PAGE, to.saturating_mul(PAGE), flags)
    }

    fn put(&mut self, at: u64, byte: u8) -> Result<(), Errno> {
        Ok(self.mm.write(&mut self.arena, at, &[byte])?)
    }

    fn byte(&mut self, at: u64) -> Result<u8, Errno> {
        let mut byte = [0];
        self.mm.read(&mut self.arena, at, &mut byte)?;
        Ok(byte[0])
    }

    /// Maps 4 pages of `object`.
    fn map_object(&mut self, at: u64, object: &Rc<Object>, prot: Prot, flags: AreaFlags) {
        let backing = Backing::File { object: object.clone(), offset: 0 };
        self.mm.map(&mut self.arena, Place::Fixed(at), 4 * PAGE, prot, flags, backing).unwrap();
    }

    fn fault(&mut self, at: u64, access: Access) -> Option<FaultKind> {
        self.mm.fault(&mut self.arena, at, access).err().map(|f| f.kind)
    }

    /// The sum that `Mm::total` keeps, anew.
    fn check_total(&self) {
        assert_eq!(self.mm.total(), self.mm.areas().map(Area::len).sum::<u64>());
    }
}

#[test]
fn a_mapping_that_cannot_be_leaves_the_old_one() {
    let mut lab = Lab::new();
    lab.map(Place::Fixed(AT), 2).unwrap();
    lab.put(AT, 7).unwrap();
    lab.mm.layout.address_limit = 3 * PAGE;
    assert_eq!(lab.map(Place::Fixed(AT), 4), Err(Errno::ENOMEM));
    assert_eq!(lab.byte(AT), Ok(7));
    // The replaced pages do not count twice.
    assert_eq!(lab.map(Place::Fixed(AT), 3), Ok(AT));
    assert_eq!(lab.byte(AT), Ok(0));
    lab.check_total();
}

#[test]
fn lengths_beyond_the_address_space_are_refused() {
    let mut lab = Lab::new();
    lab.map(Place::Fixed(AT), 1).unwrap();
    lab.put(AT, 7).unwrap();
    for pages in [1 << 35, 1 << 48, 1 << 51] {
        for place in [ANYWHERE, Place::Fixed(AT), Place::FixedNoReplace(AT), Place::Hint(AT)] {
            assert_eq!(lab.map(place, pages), Err(Errno::ENOMEM), "{pages:#x} {place:?}");
        }
        let fixed = RemapFlags { fixed: Some(AT + PAGE), ..MOVE };
        assert_eq!(lab.remap(AT, 1, pages, fixed), Err(Errno::EINVAL));
        assert_eq!(lab.remap(AT, 1, pages, MOVE), Err(Errno::EINVAL));
    }
    assert_eq!(lab.byte(AT), Ok(7));
}

#[test]
fn the_limit_of_the_address_space_holds_for_every_call() {
    let mut lab = Lab::new();
    let stack = AreaFlags { grows_down: true, ..AreaFlags::default() };
    lab.map(Place::Fixed(AT), 4).unwrap();
    lab.map_as(Place::Fixed(2 * AT), 1, Prot::RW, stack).unwrap();
    lab.mm.layout.address_limit = 5 * PAGE;
    assert_eq!(lab.map(ANYWHERE, 1), Err(Errno::ENOMEM));
    assert_eq!(lab.remap(AT, 4, 5, MOVE), Err(Errno::ENOMEM));
    assert_eq!(lab.mm.set_brk(&mut lab.arena, 0x40_1000), 0x40_0000);
    assert_eq!(lab.put(2 * AT - 1, 1), Err(Errno::EFAULT));
    lab.unmap(AT, 1);
    lab.put(2 * AT - 1, 1).unwrap();
    lab.check_total();
}

#[test]
fn a_stack_area_grows_to_its_own_limit_and_keeps_off_its_neighbour() {
    let mut lab = Lab::new();
    let stack = AreaFlags { grows_down: true, ..AreaFlags::default() };
    let limit = lab.mm.layout.stack_limit;
    lab.map_as(Place::Fixed(AT), 1, Prot::RW, stack).unwrap();
    lab.put(AT - 1, 1).unwrap();
    lab.put(AT - 3 * PAGE, 1).unwrap();
    lab.put(AT + PAGE - limit, 1).unwrap();
    assert_eq!(lab.put(AT + PAGE - limit - 1, 1), Err(Errno::EFAULT));
    assert_eq!(lab.mm.area(AT).unwrap().len(), limit);
    // 256 pages stay free between it and another area that can be used.
    lab.map_as(Place::Fixed(2 * AT), 1, Prot::RW, stack).unwrap();
    lab.map(Place::Fixed(2 * AT - 300 * PAGE), 1).unwrap();
    lab.put(2 * AT - 43 * PAGE, 1).unwrap();
    assert_eq!(lab.put(2 * AT - 44 * PAGE, 1), Err(Errno::EFAULT));
    lab.check_total();
}

#[test]
fn a_move_that_fails_changes_nothing() {
    let mut lab = Lab::new();
    lab.map(Place::Fixed(AT), 2).unwrap();
    lab.map(Place::Fixed(2 * AT), 4).unwrap();
    lab.put(2 * AT, 9).unwrap();
    // The range runs out of the area.
    let fixed = RemapFlags { fixed: Some(2 * AT), ..MOVE };
    assert_eq!(lab.remap(AT, 3, 4, fixed), Err(Errno::EFAULT));
    lab.mm.layout.address_limit = 6 * PAGE;
    assert_eq!(lab.remap(AT, 2, 4, fixed), Err(Errno::ENOMEM));
    assert_eq!(lab.byte(2 * AT), Ok(9));
    let overlap = RemapFlags { fixed: Some(AT + PAGE), ..MOVE };
    assert_eq!(lab.remap(AT, 2, 2, overlap), Err(Errno::EINVAL));
    lab.check_total();
}

#[test]
fn private_pages_move_with_their_contents() {
    let mut lab = Lab::new();
    lab.map(Place::Fixed(AT), 3).unwrap();
    lab.map(Place::Fixed(AT + 3 * PAGE), 1).unwrap();
    lab.mm.protect(AT + 3 * PAGE, PAGE, Prot::R).unwrap();
    lab.put(AT + PAGE, 5).unwrap();
    let to = lab.remap(AT, 3, 8, MOVE).unwrap();
    assert_eq!((lab.byte(to + PAGE), lab.byte(AT + PAGE)), (Ok(5), Err(Errno::EFAULT)));
    let keep = RemapFlags { keep: true, ..MOVE };
    assert_eq!(lab.remap(to, 8, 7, keep), Err(Errno::EINVAL));
    let copy = lab.remap(to, 8, 8, keep).unwrap();
    assert_eq!((lab.byte(copy + PAGE), lab.byte(to + PAGE)), (Ok(5), Ok(0)));
    assert_eq!(lab.remap(copy, 0, 8, MOVE), Err(Errno::EINVAL));
    // Shrinking onto a fixed place moves the first part and frees the rest.
    let fixed = RemapFlags { fixed: Some(3 * AT), ..MOVE };
    assert_eq!(lab.remap(copy, 8, 2, fixed), Ok(3 * AT));
    assert_eq!((lab.byte(3 * AT + PAGE), lab.mm.area(copy).is_none()), (Ok(5), true));
    lab.check_total();
}

#[test]
fn gaps_are_found_from_the_top_whatever_came_before() {
    let mut lab = Lab::new();
    let mut state = 1u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let highest = |mm: &Mm, len: u64| {
        let mut end = mm.layout.mmap_base;
        for area in mm.areas.values().rev() {
            if end - area.end >= len {
                break;
            }
            end = area.start;
        }
        end - len
    };
    for i in 0..3000 {
        let pages = 1 + next(9);
        let victim = lab.mm.areas().nth(next(20) as usize).cloned();
        if next(3) > 0 {
            let expected = highest(&lab.mm, pages * PAGE);
            let prot = if i % 2 == 0 { Prot::R } else { Prot::RW };
            assert_eq!(lab.map_as(ANYWHERE, pages, prot, AreaFlags::default()), Ok(expected));
        } else if let Some(area) = victim {
            lab.unmap(area.start, 1 + next(area.len() / PAGE));
        }
    }
    lab.check_total();
}

#[test]
fn many_areas_cost_little_each() {
    let mut lab = Lab::new();
    let start = std::time::Instant::now();
    for i in 0..60_000 {
        let prot = if i % 2 == 0 { Prot::R } else { Prot::NONE };
        lab.map_as(ANYWHERE, 1, prot, AreaFlags::default()).unwrap();
    }
    // Searching all areas each time took more than ten seconds.
    assert!(start.elapsed().as_secs() < 5);
    lab.check_total();
}

#[test]
fn protection_is_checked_before_the_range() {
    let mut lab = Lab::new();
    assert_eq!(lab.mm.protect(1, u64::MAX, Prot::R), Err(Errno::EINVAL));
    assert_eq!(lab.mm.protect(PAGE, u64::MAX, Prot::R), Err(Errno::ENOMEM));
    assert_eq!(
        lab.mm.fault(&mut lab.arena, AT, Access::Read).unwrap_err().kind,
        FaultKind::NotMapped
    );
}

#[test]
fn shared_memory_outlives_its_page_tables() {
    let mut lab = Lab::new();
    lab.map_as(Place::Fixed(AT), 4, Prot::RW, SHARED).unwrap();
    lab.put(AT, 7).unwrap();
    lab.mm.advise(&mut lab.arena, AT, PAGE, 4).unwrap();
    assert_eq!((lab.mm.table.present(), lab.byte(AT)), (0, Ok(7)));
    assert_eq!(lab.mm.advise(&mut lab.arena, AT, PAGE, 8), Err(Errno::EINVAL));
    // A second mapping of the same pages.
    let twice = lab.remap(AT, 0, 4, MOVE).unwrap();
    lab.put(twice, 8).unwrap();
    assert_eq!(lab.byte(AT), Ok(8));
    // MADV_REMOVE frees the page itself.
    let used = lab.arena.used();
    lab.mm.advise(&mut lab.arena, AT, PAGE, 9).unwrap();
    assert_eq!((lab.arena.used(), lab.byte(twice)), (used - 1, Ok(0)));
    lab.unmap(AT, 4);
    lab.unmap(twice, 4);
    assert_eq!(lab.arena.used(), 1);
}

#[test]
fn sharing_survives_a_change_of_protection() {
    let mut lab = Lab::new();
    let object = Rc::new(Object::anonymous(4 * PAGE));
    lab.map_object(AT, &object, Prot::RW, SHARED);
    lab.put(AT, 1).unwrap();
    lab.mm.protect(AT, PAGE, Prot::R).unwrap();
    assert_eq!(lab.put(AT, 2), Err(Errno::EFAULT));
    lab.mm.protect(AT, PAGE, Prot::RW).unwrap();
    lab.put(AT, 3).unwrap();
    let mut byte = [0];
    object.read_at(&lab.arena, 0, &mut byte).unwrap();
    assert_eq!(byte, [3]);
    let flags = AreaFlags { read_only: true, ..SHARED };
    lab.map_object(AT, &object, Prot::R, flags);
    assert_eq!(lab.mm.protect(AT, PAGE, Prot::RW), Err(Errno::EACCES));
}

#[test]
fn a_file_and_its_mappings_are_one() {
    let mut lab = Lab::new();
    let object = Rc::new(Object::new("/f".into(), 2, Quota::new(8)));
    object.write_at(&mut lab.arena, 0, b"one").unwrap();
    lab.map_object(AT, &object, Prot::RW, SHARED);
    lab.map_object(2 * AT, &object, Prot::RW, AreaFlags::default());
    assert_eq!((lab.byte(AT), lab.byte(2 * AT)), (Ok(b'o'), Ok(b'o')));
    object.write_at(&mut lab.arena, 0, b"two").unwrap();
    assert_eq!((lab.byte(AT), lab.byte(2 * AT)), (Ok(b't'), Ok(b't')));
    // A private copy is its owner's alone.
    lab.put(2 * AT, b'x').unwrap();
    lab.put(AT, b'y').unwrap();
    let mut bytes = [0; 8];
    assert_eq!(object.read_at(&lab.arena, 0, &mut bytes), Ok(3));
    assert_eq!((&bytes[..3], lab.byte(2 * AT)), (&b"ywo"[..], Ok(b'x')));
    assert_eq!(lab.fault(AT + PAGE, Access::Read), Some(FaultKind::BeyondFile));
    // Cut to nothing, all pages are gone, private ones too.
    lab.mm.truncate(&mut lab.arena, &object, 0);
    for at in [AT, 2 * AT] {
        assert_eq!(lab.fault(at, Access::Read), Some(FaultKind::BeyondFile));
    }
    lab.mm.truncate(&mut lab.arena, &object, 2);
    assert_eq!(lab.byte(AT), Ok(0));
}

#[test]
fn files_take_what_is_written_and_no_more_than_their_quota() {
    let mut lab = Lab::new();
    let quota = Quota::new(4);
    let object = Rc::new(Object::new("/f".into(), 2, quota.clone()));
    object.write_at(&mut lab.arena, 1 << 40, b"x").unwrap();
    lab.mm.truncate(&mut lab.arena, &object, 1 << 50);
    assert_eq!((object.len(), quota.used(), lab.arena.used()), (1 << 50, 1, 2));
    // The write that fills the quota is short, the next fails.
    let bytes = vec![1; 5 * PAGE as usize];
    assert_eq!(object.write_at(&mut lab.arena, PAGE, &bytes), Ok(3 * PAGE as usize));
    assert_eq!(object.write_at(&mut lab.arena, 8 * PAGE, &bytes), Err(Errno::ENOSPC));
    lab.map_object(AT, &object, Prot::RW, SHARED);
    assert_eq!(lab.fault(AT, Access::Write), Some(FaultKind::BeyondFile));
    lab.mm.truncate(&mut lab.arena, &object, 0);
    assert_eq!((quota.used(), lab.arena.used()), (0, 1));
    assert_eq!(object.write_at(&mut lab.arena, object::MAX_LEN, b"x"), Err(Errno::EFBIG));
}

#[test]
fn one_request_is_for_no_more_than_the_machine_has() {
    let mut lab = Lab::new();
    let pages = lab.arena.len() / PAGE + 1;
    let lazy = AreaFlags { no_reserve: true, ..AreaFlags::default() };
    assert_eq!(lab.map(ANYWHERE, pages), Err(Errno::ENOMEM));
    assert_eq!(lab.map_as(ANYWHERE, pages, Prot::RW, SHARED), Err(Errno::ENOMEM));
    lab.map_as(ANYWHERE, pages, Prot::RW, lazy).unwrap();
    lab.map_as(Place::Fixed(AT), pages, Prot::R, AreaFlags::default()).unwrap();
    assert_eq!(lab.mm.protect(AT, pages * PAGE, Prot::RW), Err(Errno::ENOMEM));
    lab.map(Place::Fixed(20 * AT), 1).unwrap();
    assert_eq!(lab.remap(20 * AT, 1, pages + 1, MOVE), Err(Errno::ENOMEM));
    let brk = lab.mm.brk;
    assert_eq!(lab.mm.set_brk(&mut lab.arena, brk + pages * PAGE), brk);
}

#[test]
fn memory_and_page_tables_have_one_limit() {
    let mut lab = Lab::new();
    lab.arena = Arena::with_len(256 * PAGE).unwrap();
    lab.mm = Mm::new(MmId(1), Arch::X86_64, lab.mm.layout, &mut lab.arena).unwrap();
    let lazy = AreaFlags { no_reserve: true, ..AreaFlags::default() };
    lab.map_as(Place::Fixed(AT), 1 << 30, Prot::R, lazy).unwrap();
    // Reading takes no frames, but a table for every 2 MiB.
    let reads = (0..1000).take_while(|i| lab.byte(AT + (i << 21)).is_ok()).count();
    assert!((200..256).contains(&reads), "{reads}");
    assert_eq!(lab.fault(AT + (1 << 40), Access::Read), Some(FaultKind::NoMemory));
    // Populating stops there too.
    let end = AT + (1 << 42);
    assert_eq!(lab.mm.populate(&mut lab.arena, AT, end, false), Err(Errno::ENOMEM));
}
