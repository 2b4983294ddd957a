//! A table of call-frame information: rows by address.

use std::convert::Infallible;
use std::ops::{ControlFlow, Deref};

use gimli::{
    BaseAddresses, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindTableRow,
};

use super::augmentation::{self, Augmentations};
use super::compile::{Compiler, Source};
use super::error::{Error, ErrorKind, SectionName, Warning};
use super::header::Header;
use super::index::Index;
use super::section::{Cfi, Fde, LastCie, Section, Sections, Walk, What};
use super::short::{self, Machine, State};
use crate::LookupAddress;
use crate::brief::Brief;
use crate::row::{Key, Miss, Row, Rule, return_column};
use arch::Arch;

/// Rules of one row: general and vector registers of either architecture. gimli copies whole
/// rows, and rows of 4 KiB (128 rules) cost it twice the time: they fall on each other in
/// the cache.
const RULES: usize = 96;

/// States that instructions remember, with the current and the initial one.
const STATES: usize = 16;

/// Memory to decode rows in; make one and use it for all rows and tables.
#[derive(Debug, Default)]
pub struct Context(UnwindContext<usize, Storage>);

impl Context {
    /// Takes the memory.
    pub fn new() -> Context {
        Context::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); RULES];
    type Stack = Box<[GimliRow; STATES]>;
}

type GimliRow = UnwindTableRow<usize, Storage>;

/// The call-frame information of a module: `.eh_frame` or `.debug_frame`.
///
/// Addresses are those that the module was linked for ([`LookupAddress::unbiased`]).
#[derive(Debug)]
pub struct Table<D> {
    pub(super) arch: Arch,
    name: SectionName,
    bytes: D,
    augmentations: Augmentations,
    bases: BaseAddresses,
    lookup: Lookup<D>,
    /// What the first CIEs come to, by offset: there are few.
    common: Vec<(usize, State)>,
}

/// CIEs whose instructions are not run again.
const KNOWN_CIES: usize = 4;

/// How FDEs are found.
#[derive(Debug)]
enum Lookup<D> {
    Header(Header, D),
    Index(Index),
}

/// A frame description entry, for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// Offset in the section.
    pub offset: u64,
    /// Start and end of the addresses that it covers.
    pub range: (u64, u64),
    /// Offset of its common information entry.
    pub cie: u64,
    /// The augmentation string.
    pub augmentation: &'t [u8],
    /// Whether it describes a signal trampoline.
    pub signal: bool,
}

impl<D: Deref<Target = [u8]>> Table<D> {
    /// Reads the sections once, and says what is wrong with them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`]. Everything else is a warning: the rest of the table is good.
    pub fn new(arch: Arch, sections: Sections<D>) -> Result<(Table<D>, Vec<Warning>), Error> {
        let mut bases = BaseAddresses::default();
        let (name, bytes, header) = match sections {
            Sections::EhFrame { frame, header, text, got } => {
                bases = bases.set_eh_frame(frame.address);
                bases = text.into_iter().fold(bases, BaseAddresses::set_text);
                bases = got.into_iter().fold(bases, BaseAddresses::set_got);
                (SectionName::EhFrame, frame.bytes, header.map(|h| (h, frame.address)))
            }
            Sections::DebugFrame { bytes } => (SectionName::DebugFrame, bytes, None),
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error { section: name, offset: 0, kind: ErrorKind::TooLarge });
        }
        let augmentations = augmentation::fix(name, &bytes);
        let lookup = Lookup::Index(Index::default());
        let common = Vec::new();
        let mut table = Table { arch, name, bytes, augmentations, bases, lookup, common };
        let mut warnings = Vec::new();
        let index = Index::build(&table.cfi(), table.section(), &table.bases, &mut warnings);
        table.lookup = Lookup::Index(index);
        table.common = table.run_cies();
        if let Some((header, frame)) = header {
            table.prefer(header, frame).unwrap_or_else(|error| warnings.push(error));
        }
        Ok((table, warnings))
    }

    fn run_cies(&self) -> Vec<(usize, State)> {
        let cfi = self.cfi();
        let run = |offset| {
            let cie = cfi.cie(&self.bases, offset)?;
            Some((offset, short::common(self.arch, &cie, cfi.common(&self.bases, &cie))?))
        };
        let entries = Walk::new(self.name, self.section()).map_while(Result::ok);
        let cies = entries.filter(|entry| entry.what == What::Cie).take(KNOWN_CIES);
        cies.filter_map(|entry| run(entry.offset)).collect()
    }

    /// Looks up through `.eh_frame_hdr` from now on, if it can be trusted.
    fn prefer(&mut self, section: Section<D>, frame: u64) -> Result<(), Warning> {
        let header = Header::parse(&section.bytes, section.address, frame)?;
        if let Lookup::Index(index) = &self.lookup {
            header.check(&section.bytes, index)?;
        }
        self.lookup = Lookup::Header(header, section.bytes);
        Ok(())
    }

    /// Whether rows are found through `.eh_frame_hdr`.
    pub const fn uses_header(&self) -> bool {
        matches!(self.lookup, Lookup::Header(..))
    }

    /// Which section it is.
    pub const fn name(&self) -> SectionName {
        self.name
    }

    /// The bytes that the expressions of rows are in. As long as the section in the file,
    /// and equal to it but for augmentation strings.
    pub fn section(&self) -> &[u8] {
        self.augmentations.fixed.as_deref().unwrap_or(&self.bytes)
    }

    /// The row for an address. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Miss`]: no entry covers the address, or it is broken.
    pub fn row(&self, at: LookupAddress, context: &mut Context) -> Result<Row, Miss<Error>> {
        let cfi = self.cfi();
        let fde = self.fde(&cfi, at)?;
        let row = self.visit(&cfi, &fde, context, |row, compiler| {
            if row.contains(at.value()) { compiler.row(row).map(Some) } else { Ok(None) }
        });
        row.map_err(Miss::Bad)?.ok_or(Miss::NotCovered)
    }

    /// As [`Table::row`], in short; what is broken is not short.
    pub(crate) fn brief(&self, at: LookupAddress) -> Brief {
        let Some(offset) = self.find(at) else { return Brief::NotCovered };
        let cfi = self.cfi();
        let visit = |fde: &Fde<'_>| match fde.contains(at.value()) {
            true => self.brief_of(&cfi, fde, at).unwrap_or(Brief::Long),
            false => Brief::NotCovered,
        };
        cfi.with_sound_fde(&self.bases, offset, visit).unwrap_or(Brief::Long)
    }

    fn brief_of<'a>(&self, cfi: &Cfi<'a>, fde: &Fde<'a>, at: LookupAddress) -> Option<Brief> {
        let cie = fde.cie();
        let usual = Register(return_column(self.arch).into());
        if fde.is_signal_trampoline() || cie.return_address_register() != usual {
            return None;
        }
        let known = self.common.iter().find(|(offset, _)| *offset == cie.offset());
        let initial = match known {
            Some((_, state)) => *state,
            None => short::common(self.arch, cie, cfi.common(&self.bases, cie))?,
        };
        let mut machine = Machine::new(self.arch, cie, initial);
        machine.run(cfi.own(&self.bases, fde), fde.initial_address(), at.value())?;
        Some(machine.brief())
    }

    /// The offset of the entry that may cover an address: neither list says where functions
    /// end.
    pub(super) fn find(&self, at: LookupAddress) -> Option<usize> {
        let offset = match &self.lookup {
            Lookup::Header(header, bytes) => header.find(bytes, at.value()),
            Lookup::Index(index) => index.find(at.value()),
        };
        offset.map(|offset| offset as usize)
    }

    /// The entry that covers an address.
    fn fde<'a>(&self, cfi: &Cfi<'a>, at: LookupAddress) -> Result<Fde<'a>, Miss<Error>> {
        let offset = self.find(at).ok_or(Miss::NotCovered)?;
        let fde = cfi.fde(&self.bases, offset, None).map_err(Miss::Bad)?;
        if fde.contains(at.value()) { Ok(fde) } else { Err(Miss::NotCovered) }
    }

    /// All frame description entries in the order of the section.
    pub fn entries(&self) -> Entries<'_, D> {
        let walk = Walk::new(self.name, self.section());
        Entries { table: self, walk, cfi: self.cfi(), cie: LastCie::default() }
    }

    /// Gives all rows of an entry to `each`, in ascending order of addresses.
    ///
    /// # Errors
    ///
    /// What is wrong with the entry, after the rows before it.
    pub fn rows(
        &self,
        entry: &Entry<'_>,
        context: &mut Context,
        mut each: impl FnMut(&Row),
    ) -> Result<(), Error> {
        let offset = usize::try_from(entry.offset).unwrap_or(usize::MAX);
        let cfi = self.cfi();
        let fde = cfi.fde(&self.bases, offset, None)?;
        let end = self.visit(&cfi, &fde, context, |row, compiler| {
            let row = compiler.row(row)?;
            if row.range.0 < row.range.1 {
                each(&row);
            }
            Ok(None::<Infallible>)
        });
        end.map(|_| ())
    }

    /// The entry that the row for an address is in.
    ///
    /// # Errors
    ///
    /// [`Miss`]: there is none, or it is broken.
    pub fn entry(&self, at: LookupAddress) -> Result<Entry<'_>, Miss<Error>> {
        let cfi = self.cfi();
        let fde = self.fde(&cfi, at)?;
        Ok(self.entry_of(fde.offset(), &fde))
    }

    fn entry_of(&self, offset: usize, fde: &Fde<'_>) -> Entry<'_> {
        let cie = fde.cie().offset();
        let string = augmentation::string(self.name, &self.bytes, cie);
        Entry {
            offset: offset as u64,
            range: (fde.initial_address(), fde.end_address()),
            cie: cie as u64,
            augmentation: string.unwrap_or_default(),
            signal: fde.is_signal_trampoline(),
        }
    }

    /// Gives the rows of an entry that do not end at or below `from` to `each`, in ascending
    /// order, until it breaks off. As for a lookup, a row that means nothing, which is given by
    /// its start and end, does not spoil those behind it. With each row come the rules of those
    /// registers that it does not keep, by DWARF number: vector registers.
    ///
    /// # Errors
    ///
    /// What is wrong with the entry, after the rows before it.
    pub fn rows_from(
        &self,
        entry: &Entry<'_>,
        from: u64,
        context: &mut Context,
        mut each: impl FnMut(
            (u64, u64),
            Result<Row, Error>,
            &mut dyn Iterator<Item = (u16, Rule)>,
        ) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let offset = usize::try_from(entry.offset).unwrap_or(usize::MAX);
        let cfi = self.cfi();
        let fde = cfi.fde(&self.bases, offset, None)?;
        let end = self.visit(&cfi, &fde, context, |row, compiler| {
            let range = (row.start_address(), row.end_address());
            if range.1 <= from || range.0 >= range.1 {
                return Ok(None);
            }
            let mut others = compiler.others(row);
            let row = compiler.row(row).map_err(|kind| self.error(fde.offset(), kind));
            Ok(each(range, row, &mut others).is_break().then_some(()))
        });
        end.map(|_| ())
    }

    /// Gives rows to `visit` until it has something. An error is the FDE's or, if that is
    /// where the instruction is, the CIE's.
    fn visit<'a, T>(
        &'a self,
        cfi: &'a Cfi<'a>,
        fde: &'a Fde<'a>,
        context: &mut Context,
        mut visit: impl FnMut(&GimliRow, &Compiler<'a>) -> Result<Option<T>, ErrorKind>,
    ) -> Result<Option<T>, Error> {
        let of_fde = |kind| self.error(fde.offset(), kind);
        let key_b = self.augmentations.key_b.binary_search(&fde.cie().offset()).is_ok();
        let key = if key_b { Key::B } else { Key::A };
        let section = self.section();
        let source = Source { arch: self.arch, cfi, bases: &self.bases, section, key };
        let compiler = Compiler::new(source, fde).map_err(of_fde)?;
        let mut rows = cfi
            .rows(&self.bases, &mut context.0, fde)
            .map_err(|error| self.error(fde.cie().offset(), self.kind(error)))?;
        while let Some(row) = rows.next_row().map_err(|error| of_fde(self.kind(error)))? {
            if let done @ Some(_) = visit(row, &compiler).map_err(of_fde)? {
                return Ok(done);
            }
        }
        Ok(None)
    }

    fn error(&self, offset: usize, kind: ErrorKind) -> Error {
        Error { section: self.name, offset: offset as u64, kind }
    }

    /// An instruction that gimli refuses.
    fn kind(&self, error: gimli::Error) -> ErrorKind {
        const NEGATE_RA_STATE_WITH_PC: u8 = 0x2c;
        match ErrorKind::from(error) {
            ErrorKind::Instruction(NEGATE_RA_STATE_WITH_PC) if self.arch == Arch::Aarch64 => {
                ErrorKind::SignedWithPc
            }
            kind => kind,
        }
    }

    fn cfi(&self) -> Cfi<'_> {
        Cfi::new(self.arch, self.name, self.section())
    }
}

/// Iterator over [`Table::entries`].
#[derive(Debug)]
pub struct Entries<'t, D> {
    table: &'t Table<D>,
    walk: Walk<'t>,
    cfi: Cfi<'t>,
    cie: LastCie<'t>,
}

impl<'t, D: Deref<Target = [u8]>> Iterator for Entries<'t, D> {
    type Item = Result<Entry<'t>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let outline = loop {
            match self.walk.next()? {
                Ok(outline) if matches!(outline.what, What::Fde { .. }) => break outline,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        };
        let fde = match self.cfi.fde(&self.table.bases, outline.offset, Some(&mut self.cie)) {
            Ok(fde) => fde,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(self.table.entry_of(outline.offset, &fde)))
    }
}
