//! SFrame sections of a process, as the series for the deferred unwinder proposes: registered
//! for the program at exec, by its loader, and by the process itself with `prctl`.
//!
//! ```text
//! prctl(PR_ADD_SFRAME, sframe start, end, text start, end)
//! prctl(PR_REMOVE_SFRAME, sframe start, 0, 0, 0)
//! ```
//!
//! The numbers that the revisions of the series used are taken by other calls in Linux 7.3, so
//! that these are the emulator's own.

use std::ops::Range;

use arch::Errno;
use unwinder::Memory;
use unwinder::sframe::registry::{Mapping, Mappings, Policy};
use unwinder::sframe::{Registry, Version};

use crate::engine::Arena;
use crate::kernel::State;
use crate::mem::Mm;

/// `prctl` option that adds a section.
pub const PR_ADD_SFRAME: u64 = 0x5346_0001;
/// `prctl` option that removes one.
pub const PR_REMOVE_SFRAME: u64 = 0x5346_0002;

/// User memory for those who may sleep: absent pages come in.
pub struct Faultable<'a> {
    /// Which addresses are where.
    pub mm: &'a mut Mm,
    /// The frames.
    pub arena: &'a mut Arena,
}

impl Memory for Faultable<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.mm.read(self.arena, address, bytes).is_ok()
    }
}

impl Mappings for Faultable<'_> {
    fn mapping(&self, address: u64) -> Option<Mapping> {
        let area = self.mm.area(address)?;
        Some(Mapping { range: area.start..area.end, executable: area.prot.exec })
    }
}

/// The list of a new address space: empty. Both versions that have PC-relative starts are
/// taken: binutils 2.46 writes the third, 2.45 the second.
pub fn empty(arch: arch::Arch) -> Registry {
    Registry::new(arch, Policy { versions: &[Version::V2, Version::V3], ..Policy::default() })
}

impl State {
    /// The deferred unwinder looks into SFrame sections first, on both architectures. The
    /// program's own section is registered; what the kernel says of it is ignored, as at exec.
    pub fn use_sframe(&mut self) {
        self.unwind.sframe = true;
        self.register_sframe_of_image();
    }

    /// A new address space gets its list, with the program's section.
    pub fn register_sframe_of_image(&mut self) {
        if !self.unwind.sframe {
            return;
        }
        let mut registry = empty(self.arch);
        if let Some((sframe, text)) = self.task.image.sframe.clone() {
            let _ = registry.register(sframe, text, &mut self.faultable());
            self.mm.kernel_faults.clear();
        }
        self.mm.sframe = Some(registry);
    }

    /// The list of a child's address space is empty: it is not copied at fork.
    pub fn child_sframe(&self) -> Option<Registry> {
        self.unwind.sframe.then(|| empty(self.arch))
    }

    /// Memory of the current process that may be faulted in.
    pub fn faultable(&mut self) -> Faultable<'_> {
        Faultable { mm: &mut self.mm, arena: &mut self.arena }
    }

    /// `prctl(PR_ADD_SFRAME)`
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]; `EINVAL` in a kernel without it.
    pub fn add_sframe(&mut self, sframe: Range<u64>, text: Range<u64>) -> Result<u64, Errno> {
        let mut registry = self.mm.sframe.take().ok_or(Errno::EINVAL)?;
        let added = registry.register(sframe, text, &mut self.faultable());
        self.mm.sframe = Some(registry);
        added.map(|()| 0).map_err(|e| e.errno())
    }

    /// `prctl(PR_REMOVE_SFRAME)`
    ///
    /// # Errors
    ///
    /// `EINVAL`: no such section, or another argument is not 0.
    pub fn remove_sframe(&mut self, start: u64, others: [u64; 3]) -> Result<u64, Errno> {
        let registry = self.mm.sframe.as_mut().filter(|_| others == [0; 3]);
        registry.ok_or(Errno::EINVAL)?.unregister(start).map(|()| 0).map_err(|e| e.errno())
    }
}
