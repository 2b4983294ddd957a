//! What can be wrong with a section: errors, by which something is not used, and warnings.

use super::header::{Abi, Flags, Version};
use super::source::ByteOrder;

/// What is wrong with an SFrame section, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(".sframe, offset {offset:#x}: {kind}")]
pub struct Error {
    /// Offset in the section.
    pub offset: u64,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong. The first group makes the section unusable, the second one a function, the
/// third one a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The section ends in its header.
    #[error("a header takes 28 bytes, and {len} are there")]
    ShortHeader {
        /// Bytes that are there.
        len: u64,
    },
    /// Memory that holds the section cannot be read.
    #[error("cannot be read")]
    Unreadable,
    /// It does not begin as a section does.
    #[error("magic {0:#06x}, which should be 0xdee2 in one of the byte orders")]
    Magic(u16),
    /// A version that is not known.
    #[error("version {0}, which should be 1, 2 or 3")]
    Version(u8),
    /// Flags that the version does not have.
    #[error("flags {flags:#04x}, some of which {version:?} does not have")]
    Flags {
        /// All flags.
        flags: u8,
        /// The section's version.
        version: Version,
    },
    /// An ABI that is not known.
    #[error("ABI {0}, which should be 1 to 4")]
    Abi(u8),
    /// The magic and the ABI contradict each other.
    #[error("the magic is {magic:?}-endian, but the ABI {abi:?} is not")]
    ByteOrder {
        /// As the header says.
        abi: Abi,
        /// As the magic tells.
        magic: ByteOrder,
    },
    /// A section for another architecture.
    #[error("the section is for {found:?}, which should be {wanted}")]
    Arch {
        /// The section's.
        found: Abi,
        /// The module's.
        wanted: &'static str,
    },
    /// Sections for several ABIs follow each other.
    #[error("the section is for {found:?}, but the first one for {first:?}")]
    OtherAbi {
        /// This section's.
        found: Abi,
        /// The first one's.
        first: Abi,
    },
    /// The auxiliary header does not fit.
    #[error("the auxiliary header ends at {end:#x}, but there are only {len:#x} bytes")]
    AuxiliaryOutside {
        /// Its end.
        end: u64,
        /// Bytes that are there.
        len: u64,
    },
    /// The list of functions does not fit.
    #[error("the list of functions ends at {end:#x}, but there are only {len:#x} bytes")]
    FunctionsOutside {
        /// Its end.
        end: u64,
        /// Bytes that are there.
        len: u64,
    },
    /// The row data does not fit.
    #[error("the row data ends at {end:#x}, but there are only {len:#x} bytes")]
    RowsOutside {
        /// Its end.
        end: u64,
        /// Bytes that are there.
        len: u64,
    },
    /// The functions run into the row data, or are behind it.
    #[error("the list of functions ends at {end:#x}, in or behind the row data at {rows:#x}")]
    ListsOverlap {
        /// End of the list.
        end: u64,
        /// Start of the row data.
        rows: u64,
    },
    /// More rows are announced than can be there.
    #[error("the announced rows take {needed} bytes at least, but the row data has {len}")]
    TooManyRows {
        /// Bytes needed at least.
        needed: u64,
        /// Bytes that are there.
        len: u32,
    },
    /// Functions without a single row, before version 3.
    #[error("functions, but no rows: only version 3 has functions without rows")]
    NoRows,
    /// The functions are not in the order that is promised.
    #[error("function {index} starts below the one before, but the section is flagged as sorted")]
    Unsorted {
        /// Number of the function.
        index: u32,
    },
    /// The functions have more or fewer rows than the header says.
    #[error("the functions have {found} rows, which should be {announced}")]
    RowCount {
        /// Sum over the functions.
        found: u64,
        /// As in the header.
        announced: u32,
    },
    /// Rows of an architecture that is not unwound here.
    #[error("stacks of {0:?} cannot be unwound")]
    Unsupported(Abi),
    /// More sections or functions than can be numbered.
    #[error("too large")]
    TooLarge,
    /// A function that was read from another table.
    #[error("the function is not of this table")]
    OtherTable,

    /// The function's addresses do not fit 64 bits.
    #[error("the function is not within 64 bits")]
    AddressOverflow,
    /// The function is not in the module's code.
    #[error("the function at {start:#x} is not code")]
    NotCode {
        /// Its address.
        start: u64,
    },
    /// The function's rows are outside the row data.
    #[error("the function's rows begin at {at:#x}, behind the row data's end {end:#x}")]
    RowsAt {
        /// Their start.
        at: u64,
        /// End of the row data.
        end: u64,
    },
    /// Version 3: what precedes the rows does not fit.
    #[error("the function's attribute does not fit the row data")]
    Attribute,
    /// An undefined width of row starts.
    #[error("width code {0} of the row starts, which should be 0, 1 or 2")]
    StartWidth(u8),
    /// A repeated block without a size.
    #[error("the function repeats a block of 0 bytes")]
    NoBlock,
    /// Version 3: a function type that is not known.
    #[error("function type {0}, which should be 0 or 1")]
    FunctionType(u8),
    /// Flexible rows where registers are not known.
    #[error("flexible rows, which {0:?} does not have")]
    NotFlexible(Abi),
    /// More rows than can be there.
    #[error("{rows} rows take {needed} bytes at least, but {len} are left")]
    RowsDoNotFit {
        /// Rows of the function.
        rows: u32,
        /// Bytes needed at least.
        needed: u64,
        /// Bytes that are left.
        len: u64,
    },

    /// The row does not end inside the row data.
    #[error("the row runs past the row data's end {end:#x}")]
    RowTruncated {
        /// End of the row data.
        end: u64,
    },
    /// An undefined size of data words.
    #[error("size code 3 of the data words, which should be 0, 1 or 2")]
    WordSize,
    /// Rows that are not in order.
    #[error("the row starts at {start:#x}, which should be {lowest:#x} or above")]
    RowOrder {
        /// Start of the row in the function.
        start: u32,
        /// As the row before has it.
        lowest: u64,
    },
    /// A row behind the function, or behind its repeated block.
    #[error("the row starts at {start:#x}, which should be below {bound:#x}")]
    RowStart {
        /// Start of the row in the function or block.
        start: u32,
        /// Size of the function or block.
        bound: u32,
    },
    /// More or fewer data words than mean something.
    #[error("{0} data words, which mean nothing here")]
    WordCount(u8),
    /// Flexible: the CFA is defined by itself.
    #[error("the CFA's control word {0:#x} names no register")]
    CfaControl(u32),
    /// Flexible: a register that is not known.
    #[error("register {0}, which is no general register")]
    Register(u32),
    /// Neither the header nor the row tells where the return address is.
    #[error("the return address is nowhere")]
    NoReturnAddress,
}

/// What is strange about an SFrame section but does not keep it from being used, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(".sframe, offset {offset:#x}: {kind}")]
pub struct Warning {
    /// Offset in the section.
    pub offset: u64,
    /// What is strange.
    pub kind: WarningKind,
}

/// What is strange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// The section is not aligned.
    #[error("the section is at {0:#x}, which should be a multiple of 8")]
    Misaligned(u64),
    /// An auxiliary header, whose content is not defined.
    #[error("auxiliary header of {0} bytes, which is skipped")]
    Auxiliary(u8),
    /// No functions.
    #[error("no functions")]
    NoFunctions,
    /// A fixed place of the frame pointer, which no tool writes.
    #[error("fixed frame pointer offset {0}, which should be 0")]
    FixedFp(i8),
    /// An unusual fixed place of the return address.
    #[error("fixed return address offset {found}, which should be {usual}")]
    FixedRa {
        /// As in the header.
        found: i8,
        /// What the ABI makes it.
        usual: i8,
    },
    /// Something that is neither padding nor a further section.
    #[error("{len} bytes behind the section's end, not all of them 0")]
    Trailing {
        /// How many bytes.
        len: u64,
    },
    /// A further section follows, as lld leaves them.
    #[error("a further section")]
    Concatenated,
    /// The functions are not flagged as sorted.
    #[error("flags {:#04x}: not sorted", .0.0)]
    NotSorted(Flags),
    /// Attributes that do not fit keep the rows from being counted.
    #[error("{found} rows found, which should be {announced}: not all functions can be read")]
    RowsMissing {
        /// Sum over the functions that can be read.
        found: u64,
        /// As in the header.
        announced: u32,
    },

    /// A function without instructions.
    #[error("the function at {0:#x} has size 0")]
    EmptyFunction(u64),
    /// Two functions for one instruction: the one with the lower start is used, the first one
    /// if they start together.
    #[error("the function at {start:#x} overlaps another one that ends at {end:#x}")]
    Overlap {
        /// Start of the one that is used less.
        start: u64,
        /// End of the other one.
        end: u64,
    },
    /// Two functions share row data.
    #[error("the rows from {0:#x} are those of another function, too")]
    SharedRows(u64),
    /// The repeated block is larger than the function.
    #[error("the repeated block has {block} bytes, the function only {size}")]
    Block {
        /// Size of the block.
        block: u8,
        /// Size of the function.
        size: u32,
    },
    /// Bits without a meaning.
    #[error("unused bits are set: {0:#04x}")]
    UnusedBits(u8),
    /// Padding that is not 0.
    #[error("padding {0:#06x}, which should be 0")]
    Padding(u16),
    /// Signature key where return addresses are not signed.
    #[error("signature bit, which {0:?} does not have")]
    Signed(Abi),
    /// Signal bit in a version that does not have it.
    #[error("signal bit, which {0:?} does not have")]
    Signal(Version),

    /// Two rows with the same start: the later one is used.
    #[error("two rows start at {0:#x}")]
    EqualRows(u32),
    /// The function's first instructions have no row.
    #[error("the first row starts at {0:#x}, which should be 0")]
    FirstRow(u32),
    /// A row without instructions, at the function's end.
    #[error("the row starts at {0:#x}, the function's end")]
    EmptyRow(u32),
    /// A row without data words that says something else.
    #[error("outermost row with other bits set: {0:#04x}")]
    OutermostBits(u8),
    /// Flexible: an unused bit of a control word.
    #[error("control word {0:#x} has an unused bit set")]
    Control(u32),
    /// Flexible: a last word that could be left out.
    #[error("the last data word is 0 and could be left out")]
    LoneZero,
}
