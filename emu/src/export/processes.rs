//! What the records so far say about processes: names of threads, mappings.
//! The text formats resolve samples with it, as `perf` does when it reads.

use std::collections::HashMap;

use super::Images;
use crate::perf::record::{CpuMode, KernelSymbol, Record, Sample, context};
use crate::symbols::{Frame, LookupAddress, Symbolizer};

/// Threads and address spaces at a time in the session.
pub struct Processes {
    images: Images,
    /// A process without mappings: what new ones start from.
    blank: Symbolizer,
    threads: HashMap<u32, Thread>,
    spaces: HashMap<u32, Symbolizer>,
}

struct Thread {
    pid: u32,
    comm: String,
}

/// One entry of a resolved callchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFrame {
    /// Kernel or user code.
    pub mode: CpuMode,
    /// Address, function, file.
    pub frame: Frame,
}

impl Processes {
    /// No process yet.
    pub fn new(kernel: &[KernelSymbol], images: Images) -> Processes {
        Processes {
            images,
            blank: Symbolizer::new(kernel),
            threads: HashMap::new(),
            spaces: HashMap::new(),
        }
    }

    /// Takes a record other than a sample into account.
    pub fn update(&mut self, record: &Record) {
        match record {
            Record::Comm { pid, tid, comm, exec, .. } => {
                if *exec {
                    self.space(*pid).clear_mappings();
                }
                self.threads.insert(*tid, Thread { pid: *pid, comm: comm.clone() });
            }
            Record::Mmap2 { pid, addr, len, pgoff, file, path, .. } => {
                let image = self.images.get(path, file);
                self.space(*pid).add_mapping(*addr, *len, *pgoff, image);
            }
            Record::Fork { pid, ppid, tid, ptid, .. } => self.fork(*pid, *ppid, *tid, *ptid),
            Record::Exit { pid, tid, .. } => {
                self.threads.remove(tid);
                if !self.threads.values().any(|t| t.pid == *pid) {
                    self.spaces.remove(pid);
                }
            }
            Record::Sample(_)
            | Record::CallchainDeferred { .. }
            | Record::Switch { .. }
            | Record::Lost { .. }
            | Record::Throttle { .. }
            | Record::LostSamples { .. } => {}
        }
    }

    /// The thread's name; `:TID` if none was recorded, as in `perf`.
    pub fn comm(&self, tid: u32) -> String {
        self.threads.get(&tid).map_or_else(|| format!(":{tid}"), |t| t.comm.clone())
    }

    /// The sample's frames, innermost first: its callchain, or else its
    /// instruction pointer.
    pub fn frames(&self, sample: &Sample) -> Vec<ChainFrame> {
        let space = self.spaces.get(&sample.pid).unwrap_or(&self.blank);
        let resolve = |(at, mode)| ChainFrame { mode, frame: space.lookup(at, mode) };
        if sample.callchain.is_empty() {
            return vec![resolve((LookupAddress::Instruction(sample.ip), sample.mode))];
        }
        addresses(&sample.callchain, sample.mode).into_iter().map(resolve).collect()
    }

    /// Function and file of one address of process `pid`.
    pub fn lookup(&self, pid: u32, at: LookupAddress, mode: CpuMode) -> Frame {
        self.spaces.get(&pid).unwrap_or(&self.blank).lookup(at, mode)
    }

    fn space(&mut self, pid: u32) -> &mut Symbolizer {
        self.spaces.entry(pid).or_insert_with(|| self.blank.clone())
    }

    fn fork(&mut self, pid: u32, ppid: u32, tid: u32, ptid: u32) {
        if pid != ppid {
            let parent = self.spaces.get(&ppid).unwrap_or(&self.blank).clone();
            self.spaces.insert(pid, parent);
        }
        if let Some(parent) = self.threads.get(&ptid) {
            let comm = parent.comm.clone();
            self.threads.insert(tid, Thread { pid, comm });
        }
    }
}

/// The code addresses of a callchain. What follows a context marker is a
/// program counter, what follows an address is a return address.
fn addresses(chain: &[u64], mode: CpuMode) -> Vec<(LookupAddress, CpuMode)> {
    let mut out = Vec::with_capacity(chain.len());
    let mut mode = mode;
    let mut first = true;
    let mut entries = chain.iter();
    while let Some(&entry) = entries.next() {
        match entry {
            context::KERNEL => mode = CpuMode::Kernel,
            context::USER => mode = CpuMode::User,
            context::USER_DEFERRED => {
                entries.next(); // the cookie of a user part that never came
            }
            marker if marker >= context::MAX => {}
            address => {
                let at = if first {
                    LookupAddress::Instruction(address)
                } else {
                    LookupAddress::Return(address)
                };
                out.push((at, mode));
                first = false;
                continue;
            }
        }
        first = true;
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::testing::{sample, start};
    use LookupAddress::{Instruction, Return};

    fn processes() -> Processes {
        let mut p = Processes::new(&[], Images::new(|_| None));
        start("/bin/guest").iter().for_each(|r| p.update(r));
        p
    }

    #[test]
    fn markers_part_the_chain() {
        let chain = [context::KERNEL, 1, 2, context::USER, 3, 4, context::USER_DEFERRED, 99];
        let got = addresses(&chain, CpuMode::Kernel);
        let (k, u) = (CpuMode::Kernel, CpuMode::User);
        assert_eq!(got, [(Instruction(1), k), (Return(2), k), (Instruction(3), u), (Return(4), u)]);
        assert_eq!(addresses(&[context::USER_DEFERRED], CpuMode::User), []);
    }

    #[test]
    fn names_follow_fork_and_exit() {
        let mut p = processes();
        assert_eq!(p.comm(101), "guest");
        assert_eq!(p.comm(7), ":7");
        p.update(&Record::Fork { pid: 200, ppid: 100, tid: 200, ptid: 101, time: 2, cpu: 0 });
        assert_eq!(p.comm(200), "guest");
        let mut s = sample(0, 3);
        s.pid = 200;
        assert_eq!(p.frames(&s)[0].frame.dso.as_deref(), Some("/bin/guest"));
        p.update(&Record::Exit { pid: 200, ppid: 100, tid: 200, ptid: 101, time: 3, cpu: 0 });
        assert_eq!(p.frames(&s)[0].frame.dso, None);
        assert_eq!(p.comm(200), ":200");
        assert_eq!(p.comm(101), "guest");
    }

    #[test]
    fn exec_drops_the_mappings() {
        let mut p = processes();
        let s = sample(0, 3);
        assert!(p.frames(&s)[0].frame.dso.is_some());
        p.update(&Record::Comm {
            pid: 100,
            tid: 100,
            time: 2,
            cpu: 0,
            comm: "next".into(),
            exec: true,
        });
        assert!(p.frames(&s)[0].frame.dso.is_none());
    }
}
