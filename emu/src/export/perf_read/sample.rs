//! `PERF_RECORD_SAMPLE`: fields in the order of the wire, there if `sample_type` has their bit.

use super::ReadError;
use super::attr::Attr;
use super::cursor::{Cursor, Words};
use crate::perf::abi::{self, sample_type as bit};
use crate::perf::encode::pair;

/// The fields of a sample. Each `Option` is there if the event's `sample_type` has its bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// `PERF_SAMPLE_IDENTIFIER`: the event's id.
    pub identifier: Option<u64>,
    /// `PERF_SAMPLE_IP`
    pub ip: Option<u64>,
    /// `PERF_SAMPLE_TID`: process and thread.
    pub pid_tid: Option<(u32, u32)>,
    /// `PERF_SAMPLE_TIME`, nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// `PERF_SAMPLE_ADDR`
    pub addr: Option<u64>,
    /// `PERF_SAMPLE_ID`
    pub id: Option<u64>,
    /// `PERF_SAMPLE_STREAM_ID`
    pub stream_id: Option<u64>,
    /// `PERF_SAMPLE_CPU`: number, reserved.
    pub cpu: Option<(u32, u32)>,
    /// `PERF_SAMPLE_PERIOD`
    pub period: Option<u64>,
    /// `PERF_SAMPLE_READ`: laid out by `read_format`.
    pub read: Option<Words<'a>>,
    /// `PERF_SAMPLE_CALLCHAIN`, context markers included.
    pub callchain: Option<Vec<u64>>,
    /// `PERF_SAMPLE_RAW`: its bytes, padding included.
    pub raw: Option<&'a [u8]>,
    /// `PERF_SAMPLE_BRANCH_STACK`
    pub branch_stack: Option<BranchStack<'a>>,
    /// `PERF_SAMPLE_REGS_USER`
    pub user_regs: Option<Regs<'a>>,
    /// `PERF_SAMPLE_STACK_USER`
    pub user_stack: Option<UserStack<'a>>,
    /// `PERF_SAMPLE_WEIGHT` or `_WEIGHT_STRUCT`
    pub weight: Option<u64>,
    /// `PERF_SAMPLE_DATA_SRC`
    pub data_src: Option<u64>,
    /// `PERF_SAMPLE_TRANSACTION`
    pub transaction: Option<u64>,
    /// `PERF_SAMPLE_REGS_INTR`
    pub intr_regs: Option<Regs<'a>>,
    /// `PERF_SAMPLE_PHYS_ADDR`
    pub phys_addr: Option<u64>,
    /// `PERF_SAMPLE_CGROUP`
    pub cgroup: Option<u64>,
    /// `PERF_SAMPLE_DATA_PAGE_SIZE`
    pub data_page_size: Option<u64>,
    /// `PERF_SAMPLE_CODE_PAGE_SIZE`
    pub code_page_size: Option<u64>,
    /// `PERF_SAMPLE_AUX`
    pub aux: Option<&'a [u8]>,
}

/// Branches, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// `hw_idx`, if `PERF_SAMPLE_BRANCH_HW_INDEX` is set.
    pub hw_index: Option<u64>,
    /// Three words each: from, to, flags.
    pub entries: Words<'a>,
    /// A word each, if `PERF_SAMPLE_BRANCH_COUNTERS` is set.
    pub counters: Option<Words<'a>>,
}

/// Registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regs<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`; 0 without registers.
    pub abi: u64,
    /// Values in the order of the mask's bits.
    pub values: Words<'a>,
}

/// A copy of the user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// Bytes from the stack pointer up, `size` of them.
    pub bytes: &'a [u8],
    /// How many of them were copied; not there if `size` is 0.
    pub copied: Option<u64>,
}

impl<'a> Sample<'a> {
    /// Reads the fields of a sample of `attr`.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if a field does not fit.
    pub fn read(attr: &Attr, c: &mut Cursor<'a>) -> Result<Sample<'a>, ReadError> {
        use abi::sample_type as more;
        let mut s = Sample::default();
        let any = |bits: u64| attr.sample_type & bits != 0;
        let word = |c: &mut Cursor, bits: u64, field| any(bits).then(|| c.u64(field)).transpose();
        s.identifier = word(c, bit::IDENTIFIER, "sample identifier")?;
        s.ip = word(c, bit::IP, "sample ip")?;
        s.pid_tid = any(bit::TID).then(|| c.pair("sample pid and tid")).transpose()?;
        s.time = word(c, bit::TIME, "sample time")?;
        s.addr = word(c, more::ADDR, "sample addr")?;
        s.id = word(c, more::ID, "sample id")?;
        s.stream_id = word(c, more::STREAM_ID, "sample stream_id")?;
        s.cpu = any(bit::CPU).then(|| c.pair("sample cpu")).transpose()?;
        s.period = word(c, bit::PERIOD, "sample period")?;
        if any(more::READ) {
            s.read = Some(read_values(attr.read_format, c)?);
        }
        if any(bit::CALLCHAIN) {
            let count = c.u64("sample callchain nr")?;
            s.callchain = Some(c.words(count, "sample callchain")?.iter().collect());
        }
        if any(bit::RAW) {
            let len = c.u32("sample raw size")?;
            s.raw = Some(c.take(u64::from(len), "sample raw data")?);
        }
        if any(more::BRANCH_STACK) {
            s.branch_stack = Some(BranchStack::read(attr.branch_sample_type, c)?);
        }
        if any(bit::REGS_USER) {
            s.user_regs = Some(Regs::read(attr.regs_user, c)?);
        }
        if any(more::STACK_USER) {
            s.user_stack = Some(UserStack::read(c)?);
        }
        s.weight = word(c, more::WEIGHT, "sample weight")?;
        s.data_src = word(c, more::DATA_SRC, "sample data_src")?;
        s.transaction = word(c, more::TRANSACTION, "sample transaction")?;
        if any(more::REGS_INTR) {
            s.intr_regs = Some(Regs::read(attr.regs_intr, c)?);
        }
        s.phys_addr = word(c, more::PHYS_ADDR, "sample phys_addr")?;
        s.cgroup = word(c, more::CGROUP, "sample cgroup")?;
        s.data_page_size = word(c, more::DATA_PAGE_SIZE, "sample data_page_size")?;
        s.code_page_size = word(c, more::CODE_PAGE_SIZE, "sample code_page_size")?;
        if any(more::AUX) {
            let len = c.u64("sample aux size")?;
            s.aux = Some(c.take(len, "sample aux data")?);
        }
        Ok(s)
    }

    /// Appends its bytes: those that were read, if nothing was changed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let word = |out: &mut Vec<u8>, word: Option<u64>| {
            out.extend(word.into_iter().flat_map(u64::to_le_bytes));
        };
        let two = |out: &mut Vec<u8>, two: Option<(u32, u32)>| {
            out.extend(two.into_iter().flat_map(|(a, b)| pair(a, b)));
        };
        word(out, self.identifier);
        word(out, self.ip);
        two(out, self.pid_tid);
        word(out, self.time);
        word(out, self.addr);
        word(out, self.id);
        word(out, self.stream_id);
        two(out, self.cpu);
        word(out, self.period);
        out.extend(self.read.unwrap_or_default().bytes());
        if let Some(chain) = &self.callchain {
            word(out, Some(chain.len() as u64));
            out.extend(chain.iter().flat_map(|word| word.to_le_bytes()));
        }
        if let Some(raw) = self.raw {
            out.extend((raw.len() as u32).to_le_bytes());
            out.extend(raw);
        }
        if let Some(branches) = self.branch_stack {
            word(out, Some(branches.entries.len() as u64 / 3));
            word(out, branches.hw_index);
            out.extend(branches.entries.bytes());
            out.extend(branches.counters.unwrap_or_default().bytes());
        }
        let regs = |out: &mut Vec<u8>, regs: Option<Regs>| {
            if let Some(regs) = regs {
                word(out, Some(regs.abi));
                out.extend(regs.values.bytes());
            }
        };
        regs(out, self.user_regs);
        if let Some(stack) = self.user_stack {
            word(out, Some(stack.bytes.len() as u64));
            out.extend(stack.bytes);
            word(out, stack.copied);
        }
        word(out, self.weight);
        word(out, self.data_src);
        word(out, self.transaction);
        regs(out, self.intr_regs);
        word(out, self.phys_addr);
        word(out, self.cgroup);
        word(out, self.data_page_size);
        word(out, self.code_page_size);
        if let Some(aux) = self.aux {
            word(out, Some(aux.len() as u64));
            out.extend(aux);
        }
    }
}

/// The values of `PERF_SAMPLE_READ`, of one event or of a group.
fn read_values<'a>(format: u64, c: &mut Cursor<'a>) -> Result<Words<'a>, ReadError> {
    use abi::read_format::{EACH, GROUP, TIMES};
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & EACH).count_ones());
    let count = if format & GROUP == 0 {
        each + times
    } else {
        let events = c.clone().u64("sample read nr")?;
        events.saturating_mul(each).saturating_add(1 + times)
    };
    c.words(count, "sample read values")
}

impl<'a> BranchStack<'a> {
    fn read(kind: u64, c: &mut Cursor<'a>) -> Result<BranchStack<'a>, ReadError> {
        let count = c.u64("sample branch stack nr")?;
        let index = kind & abi::branch::HW_INDEX != 0;
        let counters = kind & abi::branch::COUNTERS != 0;
        Ok(BranchStack {
            hw_index: index.then(|| c.u64("sample branch stack hw_idx")).transpose()?,
            entries: c.words(count.saturating_mul(3), "sample branch stack")?,
            counters: counters.then(|| c.words(count, "sample branch counters")).transpose()?,
        })
    }
}

impl<'a> Regs<'a> {
    fn read(mask: u64, c: &mut Cursor<'a>) -> Result<Regs<'a>, ReadError> {
        let abi = c.u64("sample registers' abi")?;
        let count = if abi == 0 { 0 } else { u64::from(mask.count_ones()) };
        Ok(Regs { abi, values: c.words(count, "sample registers")? })
    }
}

impl<'a> UserStack<'a> {
    fn read(c: &mut Cursor<'a>) -> Result<UserStack<'a>, ReadError> {
        let len = c.u64("sample user stack size")?;
        let bytes = c.take(len, "sample user stack")?;
        let copied = (len != 0).then(|| c.u64("sample user stack dyn_size")).transpose()?;
        Ok(UserStack { bytes, copied })
    }
}
