//! The framehop crate as a [`ThirdParty`].
//!
//! framehop restores the stack pointer and the frame pointer; it has no notion of a register
//! that is unknown, so that these are 0 for it. A caller is a bare address for it, which its own
//! walks take for a return address, be it one or what a signal has interrupted.

use std::ops::{Deref, Range};
use std::sync::Arc;

use ::framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use ::framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use ::framehop::{ExplicitModuleSectionInfo, FrameAddress, Unwinder};
use arch::Arch;

use crate::dwarf::{Section, endless};
use crate::elf::{ElfError, Image, Slice};
use crate::plug::{Step, Stop, ThirdParty};
use crate::{CodeAddress, Memory, Registers, ReturnAddress};

/// framehop's module of an ELF file, as [`crate::Module::from_elf`] makes ours: the same text,
/// the same sections but `.sframe`.
///
/// # Errors
///
/// [`ElfError`]: the file cannot be mapped as code.
pub fn module<D: Deref<Target = [u8]> + Clone>(
    name: &str,
    bytes: D,
    bias: u64,
) -> Result<::framehop::Module<Slice<D>>, ElfError> {
    Ok(module_of(name, Image::read(bytes)?, bias))
}

/// framehop's module of an image.
pub fn module_of<D: Deref<Target = [u8]>>(
    name: &str,
    image: Image<D>,
    bias: u64,
) -> ::framehop::Module<Slice<D>> {
    let Image { text, sections, .. } = image;
    let start = text.iter().map(|r| r.start).min().unwrap_or(0);
    let end = text.iter().map(|r| r.end).max().unwrap_or(0);
    let range = |s: &Section<Slice<D>>| s.address..s.address + s.bytes.len() as u64;
    let info = ExplicitModuleSectionInfo {
        text_svma: Some(start..end),
        got_svma: sections.got.map(|at| at..at),
        eh_frame_svma: sections.eh_frame.as_ref().map(range),
        eh_frame: sections.eh_frame.map(|s| s.bytes),
        eh_frame_hdr_svma: sections.eh_frame_hdr.as_ref().map(range),
        eh_frame_hdr: sections.eh_frame_hdr.map(|s| s.bytes),
        debug_frame: sections.debug_frame,
        // Of other systems.
        base_svma: 0,
        text: None,
        stubs_svma: None,
        stub_helper_svma: None,
        unwind_info: None,
        text_segment_svma: None,
        text_segment: None,
    };
    let mapped = start.wrapping_add(bias)..end.wrapping_add(bias);
    ::framehop::Module::new(name.to_owned(), mapped, bias, info)
}

/// The bits of an aarch64 user address, as [`Arch::strip_pac`] leaves them.
const ADDRESS: u64 = (1 << 48) - 1;

/// framehop.
pub struct Framehop {
    arch: Arch,
    machine: Machine,
    /// Addresses of modules that it was not given.
    refused: Vec<Range<u64>>,
}

type Data = Slice<Arc<[u8]>>;

enum Machine {
    X86_64(UnwinderX86_64<Data>, Box<CacheX86_64>),
    Aarch64(UnwinderAarch64<Data>, Box<CacheAarch64>),
}

impl Framehop {
    /// One without modules.
    pub fn new(arch: Arch) -> Framehop {
        let machine = match arch {
            Arch::X86_64 => Machine::X86_64(UnwinderX86_64::new(), Box::default()),
            Arch::Aarch64 => Machine::Aarch64(UnwinderAarch64::new(), Box::default()),
        };
        Framehop { arch, machine, refused: Vec::new() }
    }
}

impl ThirdParty for Framehop {
    fn name(&self) -> &str {
        "framehop"
    }

    fn tells_interrupted(&self) -> bool {
        false
    }

    fn load(&mut self, name: &str, bytes: &Arc<[u8]>, bias: u64) -> Result<(), String> {
        let image = Image::read(bytes.clone()).map_err(|error| error.to_string())?;
        // It evaluates expressions without a bound.
        if let Err(error) = endless::check(self.arch, &image.sections) {
            let text = image.text.iter();
            let mapped = |r: &Range<u64>| r.start.wrapping_add(bias)..r.end.wrapping_add(bias);
            self.refused.extend(text.map(mapped));
            return Err(error.to_string());
        }
        let module = module_of(name, image, bias);
        match &mut self.machine {
            Machine::X86_64(unwinder, _) => unwinder.add_module(module),
            Machine::Aarch64(unwinder, _) => unwinder.add_module(module),
        }
        Ok(())
    }

    fn step(
        &mut self,
        address: CodeAddress,
        registers: &Registers,
        memory: &mut dyn Memory,
    ) -> Result<Step, Stop> {
        // Where it has no module it goes by the frame pointer.
        let lookup = address.lookup().value();
        if self.refused.iter().any(|range| range.contains(&lookup)) {
            return Err(Stop::NotCovered);
        }
        let frame = match address {
            CodeAddress::Return(ReturnAddress(to)) => FrameAddress::from_return_address(to)
                .ok_or_else(|| Stop::Failed("the return address is 0".into()))?,
            other => FrameAddress::from_instruction_pointer(other.value()),
        };
        let mut read = |at| memory.word(at).ok_or(());
        let sp = registers.sp().unwrap_or(0);
        let fp = registers.fp().unwrap_or(0);
        let (result, sp, fp) = match &mut self.machine {
            Machine::X86_64(unwinder, cache) => {
                let mut regs = UnwindRegsX86_64::new(address.value(), sp, fp);
                let result = unwinder.unwind_frame(frame, &mut regs, cache, &mut read);
                (result, regs.sp(), regs.bp())
            }
            Machine::Aarch64(unwinder, cache) => {
                let lr = registers.get(arch::aarch64::regs::LR as u8).unwrap_or(0);
                let mask = PtrAuthMask(ADDRESS);
                let mut regs = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                let result = unwinder.unwind_frame(frame, &mut regs, cache, &mut read);
                (result, regs.sp(), regs.fp())
            }
        };
        match result {
            Ok(Some(to)) => Ok(Step {
                address: ReturnAddress(to).into(),
                registers: Registers::of_frame(self.arch, sp, fp),
            }),
            Ok(None) => Err(Stop::Complete),
            Err(error) => Err(Stop::Failed(error.to_string())),
        }
    }
}
