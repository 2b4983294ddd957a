//! The kernel's list of a process's sections, as the series that adds SFrame to `perf`
//! proposes it.
//!
//! ```text
//! register(section, text)   EINVAL  an argument of 0; not in one mapping, or text not executable
//!                           EFAULT  the header cannot be read
//!                           EINVAL  the header is not as the policy wants it
//!                           ENOMEM  too many sections      EEXIST  text overlaps another one
//! unregister(section)       EINVAL  there is none; all texts of the section go
//! lookup(ip)                EINVAL  no section, function or row
//!                           EFAULT  unreadable or broken: the section is removed
//! ```
//!
//! Sections stay in the memory of the process, which may change or unmap them at any time:
//! only the header is remembered, everything else is read anew by each lookup. A process
//! starts with an empty list, after a fork as well.
//!
//! Unlike [`super::Table`] the kernel takes no section whose functions are not sorted, and
//! finds out only while it searches; and rows have to ascend strictly.

use std::collections::BTreeMap;
use std::ops::Range;

use arch::{Arch, Errno};

use super::frame_row::Order;
use super::function::Part;
use super::header::Header;
use super::rules::Found;
use super::source::Source;
use super::{Error, ErrorKind, Version};
use crate::row::Miss;
use crate::{LookupAddress, Memory};

/// What the kernel knows of a process's memory besides its content.
pub trait Mappings {
    /// The mapping that `address` is in.
    fn mapping(&self, address: u64) -> Option<Mapping>;
}

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Which sections are taken. The default is that of the latest revision of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The versions.
    pub versions: &'static [Version],
    /// Starts have to be relative to their fields.
    pub pc_relative: bool,
    /// Sections for which there is memory.
    pub max_sections: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { versions: &[Version::V3], pc_relative: true, max_sections: 65_536 }
    }
}

/// The sections of a process.
#[derive(Clone, Debug)]
pub struct Registry {
    arch: Arch,
    policy: Policy,
    /// By start of the text.
    sections: BTreeMap<u64, Section>,
}

#[derive(Clone, Debug)]
struct Section {
    text: Range<u64>,
    sframe: Range<u64>,
    part: Part,
}

/// Why a section was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RegisterError {
    /// One of the four addresses is 0.
    #[error("an address is 0")]
    Zero,
    /// The section is empty, or not in one mapping.
    #[error("the section is not in one mapping")]
    SectionMapping,
    /// The text is empty, or not in one executable mapping.
    #[error("the text is not in one executable mapping")]
    TextMapping,
    /// The header cannot be read or means nothing.
    #[error(transparent)]
    Header(Error),
    /// The policy does not have the section's version.
    #[error("{0:?} is not supported")]
    Version(Version),
    /// The functions are not sorted.
    #[error("the section is not flagged as sorted")]
    NotSorted,
    /// Starts are not relative to their fields.
    #[error("the section is not flagged as PC-relative")]
    NotPcRelative,
    /// There is an auxiliary header.
    #[error("the section has an auxiliary header")]
    Auxiliary,
    /// No functions, or no rows.
    #[error("the section has no functions or no rows")]
    Empty,
    /// As many sections as there may be.
    #[error("no memory for another section")]
    NoMemory,
    /// The text overlaps that of a registered section.
    #[error("the text overlaps one that is registered")]
    Exists,
}

impl RegisterError {
    /// As a system call returns it.
    pub const fn errno(self) -> Errno {
        match self {
            RegisterError::Header(Error { kind: ErrorKind::Unreadable, .. }) => Errno::EFAULT,
            RegisterError::NoMemory => Errno::ENOMEM,
            RegisterError::Exists => Errno::EEXIST,
            _ => Errno::EINVAL,
        }
    }
}

/// There is no such section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("no section is registered at {0:#x}")]
pub struct NotRegistered(pub u64);

impl NotRegistered {
    /// As a system call returns it.
    pub const fn errno(self) -> Errno {
        Errno::EINVAL
    }
}

/// Why there is no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LookupError {
    /// The address is in no registered text.
    #[error("no section is registered for the address")]
    NoSection,
    /// The section does not cover the address.
    #[error("the section does not cover the address")]
    NotCovered,
    /// The section cannot be read or is broken.
    #[error("{0}")]
    Fault(Error),
}

impl LookupError {
    /// As the kernel's functions return it.
    pub const fn errno(self) -> Errno {
        match self {
            LookupError::NoSection | LookupError::NotCovered => Errno::EINVAL,
            LookupError::Fault(_) => Errno::EFAULT,
        }
    }
}

impl Registry {
    /// That of a new process.
    pub const fn new(arch: Arch, policy: Policy) -> Registry {
        Registry { arch, policy, sections: BTreeMap::new() }
    }

    /// Without sections, the kernel does not try SFrame at all.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Number of registered texts.
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Registers the section at `sframe` for the code at `text`.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]: nothing was registered.
    pub fn register(
        &mut self,
        sframe: Range<u64>,
        text: Range<u64>,
        process: &mut (impl Memory + Mappings),
    ) -> Result<(), RegisterError> {
        if [sframe.start, sframe.end, text.start, text.end].contains(&0) {
            return Err(RegisterError::Zero);
        }
        let within = |range: &Range<u64>| {
            let mapping = process.mapping(range.start)?;
            (!range.is_empty() && range.end <= mapping.range.end).then_some(mapping)
        };
        within(&sframe).ok_or(RegisterError::SectionMapping)?;
        within(&text).filter(|m| m.executable).ok_or(RegisterError::TextMapping)?;
        let len = sframe.end - sframe.start;
        let mut source = User { memory: process, start: sframe.start };
        let header = Header::read(&mut source, 0, len).map_err(RegisterError::Header)?;
        self.check(&header)?;
        if self.sections.len() >= self.policy.max_sections {
            return Err(RegisterError::NoMemory);
        }
        let below = self.sections.range(..text.end).next_back();
        if below.is_some_and(|(_, s)| text.start < s.text.end) {
            return Err(RegisterError::Exists);
        }
        let part = Part { header, offset: 0, address: sframe.start };
        self.sections.insert(text.start, Section { text, sframe, part });
        Ok(())
    }

    fn check(&self, header: &Header) -> Result<(), RegisterError> {
        if header.abi.arch() != Some(self.arch) || header.abi.order() != super::ByteOrder::Little {
            let kind = ErrorKind::Arch { found: header.abi, wanted: self.arch.name() };
            return Err(RegisterError::Header(Error { offset: 4, kind }));
        }
        if !self.policy.versions.contains(&header.version) {
            return Err(RegisterError::Version(header.version));
        }
        if !header.flags.sorted() {
            return Err(RegisterError::NotSorted);
        }
        if self.policy.pc_relative && !header.flags.pc_relative() {
            return Err(RegisterError::NotPcRelative);
        }
        if header.auxiliary != 0 {
            return Err(RegisterError::Auxiliary);
        }
        if header.functions == 0 || header.rows == 0 {
            return Err(RegisterError::Empty);
        }
        Ok(())
    }

    /// Where the registered sections are in the process's memory, once for each text.
    pub fn sframe_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.sections.values().map(|section| section.sframe.clone())
    }

    /// Removes the section that starts at `sframe`, for all texts that it was registered for.
    ///
    /// # Errors
    ///
    /// [`NotRegistered`]: there is none.
    pub fn unregister(&mut self, sframe: u64) -> Result<(), NotRegistered> {
        let before = self.sections.len();
        self.sections.retain(|_, s| s.sframe.start != sframe);
        if self.sections.len() == before { Err(NotRegistered(sframe)) } else { Ok(()) }
    }

    /// The row in force at an address of the process. A section that turns out to be broken is
    /// removed, so that the addresses behind it are not covered any more.
    ///
    /// # Errors
    ///
    /// [`LookupError`]: there is no row.
    pub fn lookup(
        &mut self,
        ip: LookupAddress,
        memory: &mut impl Memory,
    ) -> Result<Found, LookupError> {
        let found = self.find(ip, memory);
        if let Err(LookupError::Fault(_)) = found
            && let Some(section) = self.section(ip.value())
        {
            let start = section.sframe.start;
            self.sections.retain(|_, s| s.sframe.start != start);
        }
        found
    }

    /// The same for those who may not change the list: a broken section stays.
    ///
    /// # Errors
    ///
    /// [`LookupError`]: there is no row.
    pub fn find(&self, ip: LookupAddress, memory: &mut impl Memory) -> Result<Found, LookupError> {
        let section = self.section(ip.value()).ok_or(LookupError::NoSection)?;
        let mut source = User { memory, start: section.sframe.start };
        section.lookup(&mut source, ip.value()).map_err(|miss| match miss {
            Miss::NotCovered => LookupError::NotCovered,
            Miss::Bad(error) => LookupError::Fault(error),
        })
    }

    /// The section for this address.
    fn section(&self, ip: u64) -> Option<&Section> {
        let (_, section) = self.sections.range(..=ip).next_back()?;
        section.text.contains(&ip).then_some(section)
    }
}

impl Section {
    fn lookup(&self, source: &mut impl Source, ip: u64) -> Result<Found, Miss<Error>> {
        let index = self.search(source, ip).map_err(Miss::Bad)?.ok_or(Miss::NotCovered)?;
        let function = self.part.function_with(source, index, 0, ip)?;
        let code = function.range();
        if code.start < self.text.start || code.end > self.text.end {
            let kind = ErrorKind::NotCode { start: code.start };
            return Err(Miss::Bad(Error { offset: function.offset, kind }));
        }
        Ok(self.part.answer(source, &function, ip, Order::Strict)?.found(0))
    }

    /// The last function that starts at or below `ip`. Nobody checked that they ascend.
    fn search(&self, source: &mut impl Source, ip: u64) -> Result<Option<u32>, Error> {
        let (mut low, mut high) = (0, self.part.header.functions);
        let mut bounds = 0..=u64::MAX;
        while low < high {
            let index = low + (high - low) / 2;
            let error = |kind| Error { offset: self.part.entry_at(index), kind };
            let start = self.part.start(source, index).ok_or(error(ErrorKind::Unreadable))?;
            if !bounds.contains(&start) {
                return Err(error(ErrorKind::Unsorted { index }));
            }
            if start <= ip {
                (low, bounds) = (index + 1, start..=*bounds.end());
            } else {
                (high, bounds) = (index, *bounds.start()..=start);
            }
        }
        Ok(low.checked_sub(1))
    }
}

/// A section in the memory of its process.
struct User<'a, M> {
    memory: &'a mut M,
    start: u64,
}

impl<M: Memory> Source for User<'_, M> {
    #[inline]
    fn take<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read(self.start.checked_add(at)?, &mut bytes).then_some(bytes)
    }
}
