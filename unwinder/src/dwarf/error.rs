//! What can be wrong with call-frame information, and where.

/// A section that holds call-frame information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionName {
    /// `.eh_frame`
    EhFrame,
    /// `.eh_frame_hdr`
    EhFrameHdr,
    /// `.debug_frame`
    DebugFrame,
}

impl SectionName {
    /// As in the section header.
    pub const fn name(self) -> &'static str {
        match self {
            SectionName::EhFrame => ".eh_frame",
            SectionName::EhFrameHdr => ".eh_frame_hdr",
            SectionName::DebugFrame => ".debug_frame",
        }
    }
}

/// What is wrong with call-frame information, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}, offset {offset:#x}: {kind}", section.name())]
pub struct Error {
    /// The section.
    pub section: SectionName,
    /// Offset of the entry in it.
    pub offset: u64,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// An [`Error`] in spite of which the table can be used: the entry is passed over.
pub type Warning = Error;

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It does not end inside its section, or its contents not inside the entry.
    #[error("truncated")]
    Truncated,
    /// More than 4 GiB: offsets in rows have 32 bits.
    #[error("the section is larger than 4 GiB")]
    TooLarge,
    /// A length that the standard reserves.
    #[error("reserved length {0:#x}")]
    ReservedLength(u32),
    /// A version of the format that is not known.
    #[error("unknown version {0}")]
    Version(u64),
    /// An augmentation string that is not known: what follows it cannot be read.
    #[error("unknown augmentation")]
    Augmentation,
    /// Addresses that are not 8 bytes long.
    #[error("addresses of {0} bytes")]
    AddressSize(u8),
    /// Segmented addresses.
    #[error("segment selectors of {0} bytes")]
    SegmentSize(u8),
    /// A pointer encoding that is not known or not possible here.
    #[error("pointer encoding {0:#04x} cannot be used")]
    PointerEncoding(u8),
    /// A pointer relative to something whose address was not given.
    #[error("a pointer relative to an address that is not known")]
    MissingBase,
    /// A pointer to the pointer, which would have to be read from memory.
    #[error("an indirect pointer")]
    IndirectPointer,
    /// A number in LEB128 that does not fit.
    #[error("a number of more than 64 bits")]
    Leb128,
    /// A description whose common part is not where it says.
    #[error("there is no CIE where it points")]
    CiePointer,
    /// A function of no bytes.
    #[error("it covers no address")]
    EmptyRange,
    /// A function that ends behind the last address.
    #[error("its range does not end in the address space")]
    RangeOverflow,
    /// Two descriptions of one address; the first in the section holds.
    #[error("it covers addresses that the entry at {first:#x} covers")]
    Overlap {
        /// Offset of the one that holds.
        first: u64,
    },
    /// Unwinders that read the section in order stop at a zero length; this entry is behind.
    #[error("behind the section's zero terminator")]
    AfterTerminator,
    /// A call-frame instruction that is not known.
    #[error("unknown call-frame instruction {0:#04x}")]
    Instruction(u8),
    /// `DW_CFA_AARCH64_negate_ra_state_with_pc` (FEAT_PAuth_LR).
    #[error("return addresses signed with the program counter are not supported")]
    SignedWithPc,
    /// `DW_CFA_set_loc` to a lower address.
    #[error("set_loc goes back to {0:#x}")]
    SetLocBackwards(u64),
    /// An advance behind the last address.
    #[error("an advance beyond the address space")]
    AddressOverflow,
    /// An instruction where it has no meaning, such as an offset for a CFA that is an
    /// expression.
    #[error("a call-frame instruction that has no meaning where it is")]
    InstructionContext,
    /// `DW_CFA_restore_state` without `DW_CFA_remember_state`.
    #[error("restore_state without remember_state")]
    NothingRemembered,
    /// More states remembered than fit.
    #[error("too many remembered states")]
    TooManyStates,
    /// More register rules than fit.
    #[error("too many register rules")]
    TooManyRules,
    /// A register number that cannot be one.
    #[error("register number {0} is out of range")]
    Register(u64),
    /// A return-address column that cannot be one.
    #[error("return-address column {0} is out of range")]
    ReturnColumn(u16),
    /// No rule for the canonical frame address.
    #[error("no rule for the CFA")]
    NoCfa,
    /// The rule of the sign-state column is not a constant.
    #[error("the return address's sign state is not a constant")]
    SignState,
    /// An expression that may run for ever.
    #[error("an expression branches backwards")]
    BackwardBranch,
    /// An expression of more operations than any evaluator is asked to execute.
    #[error("an expression is too long")]
    LongExpression,
    /// `.eh_frame_hdr` without a search table.
    #[error("no search table")]
    NoSearchTable,
    /// `.eh_frame_hdr` of another `.eh_frame`.
    #[error("it points to {0:#x}, which is not where .eh_frame is")]
    WrongFrame(u64),
    /// A search-table entry with a lower address than the one before.
    #[error("the search table is not sorted")]
    Unsorted,
    /// A search-table entry that leads elsewhere than the entries of `.eh_frame`, or the
    /// place where one is missing.
    #[error("the search table disagrees with .eh_frame about address {address:#x}")]
    Disagrees {
        /// The lowest address.
        address: u64,
    },
    /// Anything else.
    #[error("it cannot be read")]
    Unreadable,
}

impl From<gimli::Error> for ErrorKind {
    fn from(error: gimli::Error) -> ErrorKind {
        use gimli::Error as E;
        match error {
            E::UnexpectedEof(_) => ErrorKind::Truncated,
            E::UnknownReservedLength(length) => ErrorKind::ReservedLength(length),
            E::UnknownVersion(version) => ErrorKind::Version(version),
            E::UnknownAugmentation => ErrorKind::Augmentation,
            E::UnsupportedAddressSize(size) => ErrorKind::AddressSize(size),
            E::UnsupportedSegmentSize(size) => ErrorKind::SegmentSize(size),
            E::UnknownPointerEncoding(e) | E::UnsupportedPointerEncoding(e) => {
                ErrorKind::PointerEncoding(e.0)
            }
            E::CannotParseOmitPointerEncoding => ErrorKind::PointerEncoding(gimli::DW_EH_PE_omit.0),
            E::PcRelativePointerButSectionBaseIsUndefined
            | E::TextRelativePointerButTextBaseIsUndefined
            | E::DataRelativePointerButDataBaseIsUndefined
            | E::FuncRelativePointerInBadContext => ErrorKind::MissingBase,
            E::UnsupportedIndirectPointer => ErrorKind::IndirectPointer,
            E::BadUnsignedLeb128 | E::BadSignedLeb128 => ErrorKind::Leb128,
            E::NotCieId(_)
            | E::NotCiePointer(_)
            | E::NoEntryAtGivenOffset(_)
            | E::OffsetOutOfBounds(_) => ErrorKind::CiePointer,
            E::UnknownCallFrameInstruction(opcode) => ErrorKind::Instruction(opcode.0),
            E::InvalidCfiSetLoc(address) => ErrorKind::SetLocBackwards(address),
            E::AddressOverflow => ErrorKind::AddressOverflow,
            E::CfiInstructionInInvalidContext => ErrorKind::InstructionContext,
            E::PopWithEmptyStack => ErrorKind::NothingRemembered,
            E::StackFull => ErrorKind::TooManyStates,
            E::TooManyRegisterRules => ErrorKind::TooManyRules,
            E::UnsupportedRegister(number) => ErrorKind::Register(number),
            _ => ErrorKind::Unreadable,
        }
    }
}
