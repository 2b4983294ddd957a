//! Where a program, its heap, stack, mappings and vDSO go.
//!
//! Follows Linux 6.18: `load_elf_binary` (fs/binfmt_elf.c) for bias and break,
//! `mmap_base` (arch/x86/mm/mmap.c; mm/util.c for arm64) for the mapping area,
//! `randomize_stack_top` and `arch_align_stack` for the stack. Without a seed the
//! addresses are those under `setarch -R`:
//!
//! ```text
//! x86_64                                aarch64
//! 0x7ffffffff000  ┌ stack             ┐ 0x1000000000000
//!                 │ gap, 128 MiB      │
//! 0x7ffff7fff000  ├ mmap_base         ┤ 0xfffff8000000     mappings grow down:
//!                 │ static-pie image  │                    the first is the image,
//!                 │ vDSO, vvar        │                    the second the vDSO
//!                 ┆                   ┆
//! 0x555555555000  ├ heap (static-pie) ┤ 0xaaaaaaaab000
//!                 ┆                   ┆
//! end of image    ├ heap (fixed)      ┤ end of image
//! p_vaddr         └ fixed image       ┘ p_vaddr
//! ```
//!
//! A static-pie program has no `PT_INTERP`, so Linux treats it as a dynamic linker
//! that was started by hand: it goes to the top of the mapping area, not to
//! 0x555555554000 where dynamic PIE programs go, and its heap goes to the latter.
//!
//! Left out: unlimited stack (Linux then maps bottom-up; here it counts as the
//! largest gap), transparent-huge-page alignment of large files, five-level paging.

use arch::Arch;

use super::elf::{Image, Kind};
use super::error::LoadError;
use super::{MMAP_MIN_ADDR, PAGE, page_down, page_up};

/// `stack_guard_gap`: bytes below the stack that nothing may use (256 pages).
pub const STACK_GUARD_GAP: u64 = 256 * PAGE;

/// The default of `RLIMIT_STACK`, `_STK_LIM`, in bytes.
pub const STACK_LIMIT: u64 = 8 << 20;

/// What the addresses depend on besides the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Address-space layout randomisation: a seed, or `None` for `setarch -R`.
    pub aslr: Option<u64>,
    /// Soft `RLIMIT_STACK` in bytes.
    pub stack_limit: u64,
    /// Size of the vDSO image in bytes, without the vvar page; 0 for no vDSO.
    pub vdso_size: u64,
}

impl Default for Options {
    /// No randomisation, the usual stack limit, no vDSO.
    fn default() -> Options {
        Options { aslr: None, stack_limit: STACK_LIMIT, vdso_size: 0 }
    }
}

/// The addresses of a new address space. All are user addresses; all but
/// `entry`, `phdr`, `bias` and the code and data limits are page-aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Added to every address of the image; 0 for fixed programs. Wraps when the
    /// image is linked above its place.
    pub bias: u64,
    /// First instruction (`AT_ENTRY`).
    pub entry: u64,
    /// The program headers in memory (`AT_PHDR`); as in Linux the bias when no
    /// segment holds them.
    pub phdr: u64,
    /// First page of the image.
    pub image_start: u64,
    /// End of the image's last page.
    pub image_end: u64,
    /// `start_brk`: the break of a program that has not called `brk`.
    pub brk: u64,
    /// Mappings without an address are made below, the highest gap first.
    pub mmap_base: u64,
    /// One past the highest byte of the stack.
    pub stack_top: u64,
    /// Bytes, below 8192 and a multiple of 16, that the initial stack is lowered by
    /// beneath the strings (`arch_align_stack`); 0 without randomisation.
    pub stack_skew: u64,
    /// The vvar page, one page below the vDSO. Absent without a vDSO.
    pub vvar: Option<u64>,
    /// The vDSO image (`AT_SYSINFO_EHDR`).
    pub vdso: Option<u64>,
    /// `start_code` in `/proc/PID/stat`: lowest address of an executable segment.
    pub start_code: u64,
    /// `end_code`: end of the highest file part of an executable segment.
    pub end_code: u64,
    /// `start_data`: begin of the highest segment.
    pub start_data: u64,
    /// `end_data`: highest end of a segment's file part.
    pub end_data: u64,
}

/// Chooses the addresses for `image`.
///
/// # Errors
///
/// [`LoadError::NoRoom`] when a fixed-address program lies in the way of the stack
/// or of the vDSO.
pub fn plan(image: &Image, options: &Options) -> Result<Layout, LoadError> {
    let params = Params::of(image.arch);
    let mut random = Random::new(options.aslr, &params);
    let (mmap_pages, stack_pages) =
        (random.pages(params.mmap_bits), random.pages(params.stack_bits));
    let stack_top = image.arch.task_size() - stack_pages * PAGE;
    let gap = params.stack_gap(options);
    let mmap_base = page_up(image.arch.task_size() - gap - mmap_pages * PAGE);

    let bias = match image.kind {
        Kind::Exec => 0,
        Kind::Pie => page_down(mmap_base - image.span()) / image.alignment() * image.alignment(),
    }
    .wrapping_sub(if image.kind == Kind::Pie { image.load_min } else { 0 });
    let biased = |address: u64| address.wrapping_add(bias);
    let (image_start, image_end) = (biased(image.load_min), biased(page_up(image.load_max)));
    let no_room =
        LoadError::NoRoom { arch: image.arch, start: image_start, end: image_end, top: stack_top };
    // Static-pie images end at `mmap_base`, out of the stack's way.
    let stack_low = stack_top - gap.min(options.stack_limit.saturating_add(STACK_GUARD_GAP));
    if image_start < MMAP_MIN_ADDR || image.kind == Kind::Exec && image_end > stack_low {
        return Err(no_room);
    }
    let vvar = match options.vdso_size {
        0 => None,
        size => {
            Some(top_down(mmap_base, PAGE + page_up(size), image_start, image_end).ok_or(no_room)?)
        }
    };
    let brk = match image.kind {
        Kind::Exec => image_end + random.brk(PAGE),
        Kind::Pie => page_up(params.dyn_base) + random.brk(0),
    };
    let code = image.segments.iter().filter(|s| s.execute);
    Ok(Layout {
        bias,
        entry: biased(image.entry),
        phdr: biased(image.phdr_vaddr.unwrap_or(0)),
        image_start,
        image_end,
        brk,
        mmap_base,
        stack_top,
        stack_skew: random.skew(params.skew),
        vvar,
        vdso: vvar.map(|page| page + PAGE),
        start_code: biased(code.clone().map(|s| s.vaddr).min().unwrap_or(0)),
        end_code: biased(code.map(|s| s.vaddr + s.filesz).max().unwrap_or(0)),
        start_data: biased(image.segments.iter().map(|s| s.vaddr).max().unwrap_or(0)),
        end_data: biased(image.segments.iter().map(|s| s.vaddr + s.filesz).max().unwrap_or(0)),
    })
}

/// The highest gap of `size` bytes below `base` when only [start, end) is taken.
fn top_down(base: u64, size: u64, start: u64, end: u64) -> Option<u64> {
    let top = base.checked_sub(size)?;
    if end <= top || start >= base {
        return Some(top);
    }
    start.checked_sub(size).filter(|&at| at >= MMAP_MIN_ADDR)
}

/// What differs between the architectures.
struct Params {
    /// `ELF_ET_DYN_BASE`: two thirds of the address space.
    dyn_base: u64,
    /// `vm.mmap_rnd_bits`, its default: random bits of `mmap_base`, in pages.
    mmap_bits: u32,
    /// `STACK_RND_MASK`: random bits of the stack's top, in pages.
    stack_bits: u32,
    /// One past the largest random offset within the stack, in bytes.
    skew: u64,
    /// One past the highest user address.
    task_size: u64,
}

impl Params {
    fn of(arch: Arch) -> Params {
        let task_size = arch.task_size();
        match arch {
            Arch::X86_64 => Params {
                dyn_base: task_size / 3 * 2,
                mmap_bits: 28,
                stack_bits: 22,
                skew: 8192,
                task_size,
            },
            Arch::Aarch64 => Params {
                dyn_base: 2 * task_size / 3,
                mmap_bits: 18,
                stack_bits: 18,
                skew: PAGE,
                task_size,
            },
        }
    }

    /// Distance from the top of the address space to `mmap_base` before its own
    /// randomisation: the stack's limit, its guard and its random range, but
    /// between 128 MiB and five sixths of the address space.
    fn stack_gap(&self, options: &Options) -> u64 {
        let random = if options.aslr.is_some() { ((1 << self.stack_bits) - 1) * PAGE } else { 0 };
        let gap = options.stack_limit.saturating_add(STACK_GUARD_GAP + random);
        gap.clamp(128 << 20, self.task_size / 6 * 5)
    }
}

/// The random choices, in a fixed order; all zero without a seed.
struct Random(Option<u64>);

impl Random {
    /// Keeps the seed, if there is one. The architecture takes part, so that both
    /// do not move in step.
    fn new(seed: Option<u64>, params: &Params) -> Random {
        Random(seed.map(|s| s ^ params.task_size.rotate_left(32)))
    }

    /// The next word of splitmix64 (Steele, Lea, Flood 2014), 0 without a seed.
    fn word(&mut self) -> u64 {
        let Some(state) = &mut self.0 else { return 0 };
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of pages below 2^bits.
    fn pages(&mut self, bits: u32) -> u64 {
        self.word() & ((1 << bits) - 1)
    }

    /// Offset of the break: a page less than 1 GiB away (`arch_randomize_brk`) and,
    /// between the image's zeroed bytes and the heap, `gap`.
    fn brk(&mut self, gap: u64) -> u64 {
        let pages = self.pages(18);
        if self.0.is_some() { gap + pages * PAGE } else { 0 }
    }

    /// `arch_align_stack`: below `limit`, keeping the stack 16-byte aligned.
    fn skew(&mut self, limit: u64) -> u64 {
        (self.word() % limit) & !15
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::loader::crafted::{Elf, Ph};
    use crate::loader::parse;

    fn image(elf: &Elf) -> Image {
        parse(&elf.build()).unwrap()
    }

    /// As `cat /proc/self/maps` shows a static program and a static-pie program
    /// under `setarch -R` on Linux 6.18, x86_64.
    #[test]
    fn x86_64_without_randomisation() {
        let options = Options { vdso_size: 0x2000, ..Options::default() };
        let fixed = plan(&image(&Elf::exec(Arch::X86_64)), &options).unwrap();
        assert_eq!((fixed.bias, fixed.entry, fixed.phdr), (0, 0x401300, 0x400040));
        assert_eq!((fixed.stack_top, fixed.mmap_base), (0x7fff_ffff_f000, 0x7fff_f7ff_f000));
        assert_eq!((fixed.vdso, fixed.vvar), (Some(0x7fff_f7ff_d000), Some(0x7fff_f7ff_c000)));
        assert_eq!((fixed.image_end, fixed.brk), (0x404000, 0x404000));
        let pie = plan(&image(&Elf::pie(Arch::X86_64)), &options).unwrap();
        assert_eq!((pie.bias, pie.image_end), (0x7fff_f7ff_b000, 0x7fff_f7ff_f000));
        assert_eq!((pie.vdso, pie.brk), (Some(0x7fff_f7ff_9000), 0x5555_5555_5000));
        assert_eq!((pie.entry, pie.phdr), (pie.bias + 0x1300, pie.bias + 0x40));
        assert_eq!((pie.start_code, pie.end_code), (pie.bias + 0x1300, pie.bias + 0x1310));
        assert_eq!((pie.start_data, pie.end_data), (pie.bias + 0x2310, pie.bias + 0x2320));
    }

    #[test]
    fn aarch64_without_randomisation() {
        let options = Options { vdso_size: 0x1000, ..Options::default() };
        let mut elf = Elf::pie(Arch::Aarch64);
        elf.phdrs[0].align = 0x1_0000;
        let pie = plan(&image(&elf), &options).unwrap();
        assert_eq!((pie.stack_top, pie.mmap_base), (0x1_0000_0000_0000, 0xffff_f800_0000));
        // Rounding to 64 KiB leaves a gap above the image, which takes the vDSO.
        assert_eq!((pie.bias, pie.image_end), (0xffff_f7ff_0000, 0xffff_f7ff_4000));
        assert_eq!((pie.vdso, pie.brk), (Some(0xffff_f7ff_f000), 0xaaaa_aaaa_b000));
    }

    #[test]
    fn a_seed_moves_everything_and_repeats() {
        for arch in Arch::ALL {
            let at = |seed| {
                plan(&image(&Elf::pie(arch)), &Options { aslr: seed, ..Options::default() })
                    .unwrap()
            };
            let (one, two, none) = (at(Some(1)), at(Some(2)), at(None));
            assert_eq!(one, at(Some(1)));
            for (a, b) in [(one, two), (one, none), (two, none)] {
                assert_ne!(a.bias, b.bias);
                assert_ne!(a.stack_top, b.stack_top);
                assert_ne!(a.brk, b.brk);
            }
            for seed in 0..1000 {
                let l = at(Some(seed));
                assert!(l.stack_skew < 8192 && l.stack_skew % 16 == 0);
                assert!(l.brk < l.image_start && l.image_end <= l.mmap_base);
                assert!(l.mmap_base + STACK_LIMIT + STACK_GUARD_GAP <= l.stack_top);
            }
        }
    }

    #[test]
    fn the_stack_limit_moves_the_mapping_area() {
        let image = image(&Elf::pie(Arch::X86_64));
        let base = |stack_limit| {
            plan(&image, &Options { stack_limit, ..Options::default() }).unwrap().mmap_base
        };
        assert_eq!(base(0), base(STACK_LIMIT));
        assert_eq!(base(1 << 30), 0x7fff_ffff_f000 - (1 << 30) - STACK_GUARD_GAP);
        assert_eq!(base(u64::MAX), page_up(0x7fff_ffff_f000 - 0x7fff_ffff_f000 / 6 * 5));
    }

    #[test]
    fn a_fixed_program_in_the_way_is_refused() {
        let at = |vaddr| {
            let load = Ph { vaddr, memsz: 0x1000, ..Ph::load(0, vaddr, 0x100, 5) };
            image(&Elf { entry: vaddr, phdrs: vec![load], ..Elf::exec(Arch::X86_64) })
        };
        let options = Options { vdso_size: 0x1000, ..Options::default() };
        let high = plan(&at(0x7fff_f7ff_e000), &options).unwrap();
        assert_eq!(high.vdso, Some(0x7fff_f7ff_d000));
        let low = plan(&at(0x7fff_f7ff_c000), &options).unwrap();
        assert_eq!(low.vdso, Some(0x7fff_f7ff_e000));
        let error = plan(&at(0x7fff_ffff_c000), &options).unwrap_err();
        assert!(matches!(error, LoadError::NoRoom { .. }), "{error}");
    }
}
