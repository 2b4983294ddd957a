//! Addresses to names: functions, files, lines.
//!
//! ```text
//! file bytes ─► Elf ─► SymbolTable ┬─► Code, by link-time address
//!                 └─► Lines (DWARF) ┴─ Image, shared by all processes
//!                                        │
//! mappings of one process ─► Symbolizer ─┴─► Frame, SourceFrame
//! kernel symbols ────────────────┘
//! ```
//!
//! An [`Image`] reads its file when the first address inside it is looked up,
//! its debug information when the first line is asked for. No byte of a file
//! is trusted: whatever it contains, a lookup ends, in bounded memory, and says
//! "unknown" at worst.

mod budget;
mod code;
mod demangle;
mod elf;
mod functions;
mod lines;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use code::Code;
pub use demangle::demangle;
pub use functions::Functions;

use arch::sigframe::is_sigreturn_code;

use self::elf::Elf;
use self::lines::Lines;
use self::table::SymbolTable;
use crate::perf::record::{CpuMode, KernelSymbol};

/// The name of the kernel image in a [`Frame`].
pub const KERNEL_DSO: &str = "[kernel.kallsyms]";

/// A code address and what it means.
///
/// A return address points behind the call, possibly into the next function:
/// it is looked up one byte earlier, but reported as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupAddress {
    /// An address that was or will be executed: a sampled instruction pointer,
    /// the user PC of a kernel entry, the PC in a signal frame.
    Instruction(u64),
    /// An address that a call pushed.
    Return(u64),
}

impl LookupAddress {
    /// The address itself.
    pub fn address(self) -> u64 {
        match self {
            LookupAddress::Instruction(a) | LookupAddress::Return(a) => a,
        }
    }

    /// The address whose function and line are meant.
    pub fn lookup(self) -> u64 {
        match self {
            LookupAddress::Instruction(a) => a,
            LookupAddress::Return(a) => a.saturating_sub(1),
        }
    }
}

/// The function that an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled name.
    pub name: Arc<str>,
    /// Distance of the address from the function's start, in bytes.
    pub offset: u64,
}

/// What is known of one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address as given.
    pub address: u64,
    /// Its function, if a symbol covers it.
    pub function: Option<Function>,
    /// The mapped file, `[vdso]`, [`KERNEL_DSO`] …; `None` outside all mappings.
    pub dso: Option<Arc<str>>,
}

/// A function as the debug information has it, inlined or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// Demangled name.
    pub function: Option<Arc<str>>,
    /// Source file, as the compiler recorded it.
    pub file: Option<Arc<str>>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

/// Delivers a file's bytes, or `None` if there are none to be had.
type Load = Box<dyn Fn() -> Option<Arc<[u8]>> + Send + Sync>;

/// A file with code, mapped by any number of processes.
pub struct Image {
    name: Arc<str>,
    load: Load,
    loaded: OnceLock<Option<Loaded>>,
}

struct Loaded {
    bytes: Arc<[u8]>,
    elf: Elf,
    symbols: SymbolTable,
    /// `None` until a line is asked for.
    lines: Mutex<Option<Option<Lines>>>,
}

impl Image {
    /// An image whose bytes `load` delivers when they are needed first.
    ///
    /// `name` is what frames show: a path, `[vdso]`.
    pub fn new(
        name: impl Into<Arc<str>>,
        load: impl Fn() -> Option<Arc<[u8]>> + Send + Sync + 'static,
    ) -> Image {
        Image { name: name.into(), load: Box::new(load), loaded: OnceLock::new() }
    }

    /// An image of bytes at hand.
    pub fn from_bytes(name: impl Into<Arc<str>>, bytes: Arc<[u8]>) -> Image {
        Image::new(name, move || Some(bytes.clone()))
    }

    /// An image without content, such as anonymous memory: a name only.
    pub fn empty(name: impl Into<Arc<str>>) -> Image {
        Image::new(name, || None)
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The file's bytes, if there are any to be had.
    pub fn bytes(&self) -> Option<Arc<[u8]>> {
        self.loaded().map(|l| l.bytes.clone())
    }

    /// The symbol that covers file offset `offset`: its demangled name and the
    /// distance from its start.
    pub fn function(&self, offset: u64) -> Option<(Arc<str>, u64)> {
        let loaded = self.loaded()?;
        let vaddr = loaded.elf.vaddr(offset)?;
        let (name, start) = loaded.symbols.find(&loaded.bytes, vaddr)?;
        Some((name, vaddr - start))
    }

    /// Whether a signal handler's restorer begins at file offset `offset`.
    fn is_restorer(&self, offset: u64) -> bool {
        let Some(loaded) = self.loaded() else { return false };
        let code = usize::try_from(offset).ok().and_then(|at| loaded.bytes.get(at..));
        code.is_some_and(is_sigreturn_code)
    }

    /// The source frames of file offset `offset`, innermost first; empty
    /// without debug information.
    pub fn source(&self, offset: u64) -> Vec<SourceFrame> {
        let Some(loaded) = self.loaded() else { return Vec::new() };
        let Some(vaddr) = loaded.elf.vaddr(offset) else { return Vec::new() };
        // A lookup that panicked left nothing half-done that a later one reads.
        let mut lines = loaded.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.get_or_insert_with(|| Lines::new(&loaded.elf, &loaded.bytes));
        lines.as_ref().map(|l| l.find(vaddr)).unwrap_or_default()
    }

    fn loaded(&self) -> Option<&Loaded> {
        let load = || {
            let bytes = (self.load)()?;
            let elf = Elf::parse(&bytes)?;
            let symbols = SymbolTable::new(&bytes, elf.symbols(&bytes));
            Some(Loaded { bytes, elf, symbols, lines: Mutex::new(None) })
        };
        self.loaded.get_or_init(load).as_ref()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Mapping {
    len: u64,
    pgoff: u64,
    image: Arc<Image>,
}

/// Looks up the addresses of one process and of the kernel.
///
/// Clones share the images: cloning for a fork is cheap.
#[derive(Clone, Debug)]
pub struct Symbolizer {
    /// Ascending by address.
    kernel: Arc<[KernelFunction]>,
    /// [`KERNEL_DSO`]
    kernel_dso: Arc<str>,
    /// By first address; disjoint.
    maps: BTreeMap<u64, Mapping>,
}

#[derive(Debug)]
struct KernelFunction {
    addr: u64,
    len: u64,
    name: Arc<str>,
}

impl Symbolizer {
    /// A process without mappings, above a kernel with these symbols.
    pub fn new(kernel: &[KernelSymbol]) -> Symbolizer {
        let mut kernel: Vec<_> = kernel
            .iter()
            .map(|s| KernelFunction { addr: s.addr, len: s.len, name: s.name.as_str().into() })
            .collect();
        kernel.sort_by_key(|f| f.addr);
        Symbolizer { kernel: kernel.into(), kernel_dso: KERNEL_DSO.into(), maps: BTreeMap::new() }
    }

    /// Maps `len` bytes of `image`, from file offset `pgoff` on, at `addr`;
    /// replaces what was mapped there.
    pub fn add_mapping(&mut self, addr: u64, len: u64, pgoff: u64, image: Arc<Image>) {
        self.remove_mapping(addr, len);
        if len > 0 {
            self.maps.insert(addr, Mapping { len, pgoff, image });
        }
    }

    /// Unmaps `len` bytes at `addr`; mappings that reach across are cut.
    pub fn remove_mapping(&mut self, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        let from = match self.maps.range(..addr).next_back() {
            Some((&start, m)) if start.saturating_add(m.len) > addr => start,
            _ => addr,
        };
        let hit: Vec<u64> = self.maps.range(from..end.max(from)).map(|(&start, _)| start).collect();
        for start in hit {
            let Some(old) = self.maps.remove(&start) else { continue };
            let old_end = start.saturating_add(old.len);
            if old_end > end {
                let cut = end - start;
                let right = Mapping {
                    len: old_end - end,
                    pgoff: old.pgoff.wrapping_add(cut),
                    image: old.image.clone(),
                };
                self.maps.insert(end, right);
            }
            if start < addr {
                self.maps.insert(start, Mapping { len: addr - start, ..old });
            }
        }
    }

    /// Unmaps everything, as `execve` does.
    pub fn clear_mappings(&mut self) {
        self.maps.clear();
    }

    /// Function and file of `at`, taken as kernel or user address by `mode`.
    pub fn lookup(&self, at: LookupAddress, mode: CpuMode) -> Frame {
        match mode {
            CpuMode::Kernel => self.lookup_kernel(at),
            CpuMode::User => self.lookup_user(at),
        }
    }

    /// The source frames of a user address, innermost first; empty without
    /// debug information.
    pub fn source(&self, at: LookupAddress) -> Vec<SourceFrame> {
        let at = self.not_pushed(at);
        match self.mapping(at.lookup()) {
            Some((offset, image)) => image.source(offset),
            None => Vec::new(),
        }
    }

    /// A "return address" that the kernel wrote, the restorer's, is the address that will
    /// be executed: nothing before it was called.
    fn not_pushed(&self, at: LookupAddress) -> LookupAddress {
        match at {
            LookupAddress::Return(a)
                if self.mapping(a).is_some_and(|(offset, image)| image.is_restorer(offset)) =>
            {
                LookupAddress::Instruction(a)
            }
            _ => at,
        }
    }

    fn lookup_user(&self, at: LookupAddress) -> Frame {
        let at = self.not_pushed(at);
        let Some((offset, image)) = self.mapping(at.lookup()) else {
            return Frame { address: at.address(), function: None, dso: None };
        };
        let function = image.function(offset).map(|(name, distance)| Function {
            name,
            offset: distance + (at.address() - at.lookup()),
        });
        Frame { address: at.address(), function, dso: Some(image.name().clone()) }
    }

    fn lookup_kernel(&self, at: LookupAddress) -> Frame {
        let addr = at.lookup();
        let after = self.kernel.partition_point(|f| f.addr <= addr);
        let function = after
            .checked_sub(1)
            .and_then(|i| self.kernel.get(i))
            .filter(|f| addr - f.addr < f.len.max(1))
            .map(|f| Function { name: f.name.clone(), offset: at.address() - f.addr });
        Frame { address: at.address(), function, dso: Some(self.kernel_dso.clone()) }
    }

    /// The file offset and the image that are mapped at `addr`.
    fn mapping(&self, addr: u64) -> Option<(u64, &Image)> {
        let (&start, m) = self.maps.range(..=addr).next_back()?;
        let distance = addr - start;
        (distance < m.len).then(|| (m.pgoff.wrapping_add(distance), &*m.image))
    }
}
