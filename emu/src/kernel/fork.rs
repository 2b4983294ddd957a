//! New tasks: `clone`, `clone3`, `fork`, `vfork`.
//!
//! ```text
//! copy_process: task, memory, files, signals ─► FORK record ─► wake_up_new_task
//!                                                                    └─► first_run ─► X1..X6
//! ```
//!
//! The child's deferred-unwind state starts empty (`unwind_task_init`), its performance events are
//! its parent's, begun anew.

use std::cell::RefCell;
use std::rc::Rc;

use arch::{Errno, Regs};

use crate::kernel::kstack::{KernelContext, KernelStack};
use crate::kernel::machine::UserHw;
use crate::kernel::process::{Process, Shared};
use crate::kernel::symbols::{Function, Named};
use crate::kernel::task::{Place, SwitchedOut, Task, TaskId};
use crate::kernel::wait::Wait;
use crate::kernel::{Kernel, Point, State, wait};
use crate::mem::mm::MmId;
use crate::perf::record::{EventKind, Raw, Record};

/// `CLONE_*` flags.
#[allow(missing_docs)]
pub mod flag {
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const SIGHAND: u64 = 0x800;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const THREAD: u64 = 0x10000;
    pub const NEWNS: u64 = 0x20000;
    pub const SYSVSEM: u64 = 0x40000;
    pub const SETTLS: u64 = 0x80000;
    pub const PARENT_SETTID: u64 = 0x100000;
    pub const CHILD_CLEARTID: u64 = 0x200000;
    pub const DETACHED: u64 = 0x400000;
    pub const CHILD_SETTID: u64 = 0x1000000;
    pub const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
    /// What can be had.
    pub const KNOWN: u64 = VM
        | FS
        | FILES
        | SIGHAND
        | VFORK
        | PARENT
        | THREAD
        | SYSVSEM
        | SETTLS
        | PARENT_SETTID
        | CHILD_CLEARTID
        | DETACHED
        | CHILD_SETTID
        | CLEAR_SIGHAND;
}

/// Most tasks at a time (`RLIMIT_NPROC` is not looked at).
const MOST_TASKS: usize = 4096;

/// What a new task is to be (`struct kernel_clone_args`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CloneArgs {
    /// [`flag`]
    pub flags: u64,
    /// Its stack pointer; 0: the parent's.
    pub stack: u64,
    /// Where the parent finds the child's id.
    pub parent_tid: u64,
    /// Where the child finds it, or where it is cleared at its end.
    pub child_tid: u64,
    /// Its thread pointer.
    pub tls: u64,
    /// The signal that its parent gets at its end.
    pub exit_signal: u8,
}

impl CloneArgs {
    /// Whether any bit of `flags` is set.
    const fn has(self, flags: u64) -> bool {
        self.flags & flags != 0
    }
}

/// `kernel_clone`: the child's thread id, or why there is none.
pub async fn clone(k: &Kernel, args: CloneArgs) -> Result<u32, Errno> {
    k.enter(&[Named::KernelClone, Named::CopyProcess]).await;
    k.parts(Point::ForkPart, 7).await;
    let made = k.step(Point::ForkCopy, |s| s.copy_process(args)).await;
    k.leave(&[Named::CopyProcess]).await;
    let result = match made {
        Err(errno) => Err(errno),
        Ok(child) => {
            let tid = k.step(Point::ForkDone, |s| s.announce_fork(child, args)).await;
            k.step(Point::ForkWake, |s| s.enqueue(child)).await;
            if args.has(flag::VFORK) {
                vfork_wait(k, child).await;
            }
            Ok(tid)
        }
    };
    k.leave(&[Named::KernelClone]).await;
    result
}

/// The parent goes on when the child has called `execve` or `_exit`.
async fn vfork_wait(k: &Kernel, child: TaskId) {
    let on = Wait::Vfork(child);
    let waits = |s: &mut State| {
        let busy = s.task_of(child).is_some_and(|t| t.vfork);
        if busy {
            s.prepare_to_wait(on, None, false);
        }
        busy
    };
    while k.step(Point::ForkVfork, waits).await {
        wait::finish(k).await;
    }
}

impl State {
    /// Makes the child: it can run, and is in no queue yet.
    fn copy_process(&mut self, args: CloneArgs) -> Result<TaskId, Errno> {
        check(args)?;
        if self.tasks().count() >= MOST_TASKS {
            return Err(Errno::EAGAIN);
        }
        let (id, stack) = self.next_task().ok_or(Errno::ENOMEM)?;
        let mm = self.child_mm(args).inspect_err(|_| stack.free(&mut self.arena))?;
        let tid = self.next_pid();
        let process = self.child_process(args, tid);
        process.borrow_mut().live += 1;
        let events = self.inherited_events(args.has(flag::THREAD));
        let regs = self.child_regs(args);
        let child = Task {
            mm: Some(mm),
            events,
            hw: Some(Box::new(UserHw { regs, fp: self.hw_fp() })),
            tls: regs.tls,
            gs_base: regs.gs_base,
            ..self.child_task(args, id, tid, process, stack)
        };
        self.others.tasks.insert(id, Box::new(child));
        self.others.born.push(id);
        self.start_in_kernel(id, Named::RetFromForkAsm, Named::RetFromFork);
        // It is in the same system call.
        self.on_behalf_of(id, |s| s.set_user_regs(&regs));
        Ok(id)
    }

    /// The id of a new task, and its kernel stack; `None`: no memory is left.
    pub fn next_task(&mut self) -> Option<(TaskId, KernelStack)> {
        let id = TaskId(self.others.last_task + 1);
        let stack = KernelStack::new(stack_base(self.arch, id), &mut self.arena)?;
        self.others.last_task = id.0;
        Some((id, stack))
    }

    /// `copy_mm`: the child's address space, which is the present one or a copy of it.
    fn child_mm(&mut self, args: CloneArgs) -> Result<MmId, Errno> {
        if args.has(flag::VM) {
            self.mm.users += 1;
            return Ok(self.mm.id);
        }
        self.copy_mm()
    }

    /// The process of the child with thread id `tid`: a thread's is its parent's.
    fn child_process(&self, args: CloneArgs, tid: u32) -> Shared {
        let parent = &self.task;
        if args.has(flag::THREAD) {
            return parent.process.clone();
        }
        let own = parent.process.borrow();
        Rc::new(RefCell::new(Process {
            pid: tid,
            parent: if args.has(flag::PARENT) { own.parent } else { parent.pid },
            group: own.group,
            exit_signal: args.exit_signal,
            ..Process::default()
        }))
    }

    /// `copy_thread`: the child's user registers, in which the call returns 0.
    fn child_regs(&self, args: CloneArgs) -> Regs {
        let mut regs = self.user_regs();
        regs.set_ret(0);
        if args.stack != 0 {
            regs.set_sp(args.stack);
        }
        if args.has(flag::SETTLS) {
            regs.tls = args.tls;
        }
        regs
    }

    /// What the child has of its parent's besides memory, events and registers: files, signals,
    /// identity.
    fn child_task(
        &self,
        args: CloneArgs,
        id: TaskId,
        tid: u32,
        process: Shared,
        stack: KernelStack,
    ) -> Task {
        let parent = &self.task;
        let is_thread = args.has(flag::THREAD);
        let ppid = process.borrow().parent;
        Task {
            process,
            affinity: parent.affinity,
            // Threads begin with none.
            returns: match args.flags & (flag::VM | flag::VFORK) == flag::VM {
                true => Vec::new(),
                false => parent.returns.clone(),
            },
            fds: if args.has(flag::FILES) { parent.fds.shared() } else { parent.fds.copied() },
            cwd: match args.has(flag::FS) {
                true => parent.cwd.clone(),
                false => Rc::new(RefCell::new(parent.cwd.borrow().clone())),
            },
            vfork: args.has(flag::VFORK),
            pid: if is_thread { parent.pid } else { tid },
            tid,
            ppid,
            uid: parent.uid,
            gid: parent.gid,
            signals: parent.signals.for_child(is_thread, args.has(flag::SIGHAND)),
            orig_nr: parent.orig_nr,
            clear_child_tid: if args.has(flag::CHILD_CLEARTID) { args.child_tid } else { 0 },
            // A thread registers its own; a process keeps its parent's.
            rseq: parent.rseq.filter(|_| !args.has(flag::VM)),
            limits: parent.limits,
            umask: parent.umask,
            random: parent.random.clone(),
            image: parent.image.clone(),
            vdso_sigreturn: parent.vdso_sigreturn,
            ..Task::empty(id, parent.comm.clone(), stack, Place::Off(self.cpu.id))
        }
    }

    /// Where a new task's kernel path begins: in `inner`, called by `outer`.
    pub fn start_in_kernel(&mut self, id: TaskId, outer: Named, inner: Named) {
        let arch = self.arch;
        self.on_behalf_of(id, |s| {
            let kernel = s.cpu.kernel.take();
            let functions = std::mem::take(&mut s.cpu.functions);
            let outer = Function::from(outer);
            let ip = outer.step_address(arch, Point::EntryRaw);
            s.cpu.kernel = Some(KernelContext { ip, sp: s.slot(), fp: s.outermost_fp() });
            s.cpu.functions.push(outer);
            s.push_function(inner.into());
            s.task.out = SwitchedOut {
                kernel: std::mem::replace(&mut s.cpu.kernel, kernel),
                functions: std::mem::replace(&mut s.cpu.functions, functions),
            };
        });
    }

    /// Does something as if `id` were the present task.
    pub fn on_behalf_of(&mut self, id: TaskId, f: impl FnOnce(&mut State)) {
        let Some(other) = self.others.tasks.remove(&id) else { return };
        let own = std::mem::replace(&mut self.task, other);
        f(self);
        let other = std::mem::replace(&mut self.task, own);
        self.others.tasks.insert(id, other);
    }

    /// A copy of the address space, whose pages are copied at the first store.
    fn copy_mm(&mut self) -> Result<MmId, Errno> {
        self.others.last_mm += 1;
        let id = MmId(self.others.last_mm);
        let mut copy = self.mm.fork(id, &mut self.arena)?;
        copy.sframe = self.child_sframe();
        self.copy_trampoline(&mut copy);
        self.others.mms.insert(id, Box::new(copy));
        Ok(id)
    }

    /// A process or thread id that is not in use; they begin again after `pid_max`.
    fn next_pid(&mut self) -> u32 {
        const PID_MAX: u32 = 32768;
        const RESERVED: u32 = 300;
        loop {
            self.others.last_pid += 1;
            if self.others.last_pid >= PID_MAX {
                self.others.last_pid = RESERVED;
            }
            let pid = self.others.last_pid;
            if !self.tasks().any(|t| t.tid == pid || t.pid == pid)
                && !self.zombies.contains_key(&pid)
            {
                return pid;
            }
        }
    }

    /// The child is there: its id is written where it was asked for, the FORK record is made.
    /// Returns the id.
    fn announce_fork(&mut self, id: TaskId, args: CloneArgs) -> u32 {
        let Some(child) = self.task_of(id) else { return 0 };
        let (pid, tid, ppid) = (child.pid, child.tid, child.ppid);
        let (mm, comm) = (child.mm, child.name());
        if args.has(flag::PARENT_SETTID) {
            // An address that cannot be written is nobody's fault.
            let _ = self.write_user(args.parent_tid, &tid.to_le_bytes());
        }
        if args.has(flag::CHILD_SETTID)
            && let Some(mm) = mm
        {
            self.write_to(mm, args.child_tid, &tid.to_le_bytes());
        }
        let ppid = if args.has(flag::THREAD) { self.task.pid } else { ppid };
        let (ptid, time, cpu) = (self.task.tid, self.cpu.clock, self.cpu.id);
        self.record(Record::Fork { pid, ppid, tid, ptid, time, cpu });
        if self.perf.wants(EventKind::ProcessFork) {
            let raw = Raw::ProcessFork {
                parent_comm: self.task.name(),
                parent_pid: self.task.tid,
                child_comm: comm,
                child_pid: tid,
            };
            self.tracepoint(EventKind::ProcessFork, raw);
        }
        let parent = self.task.id;
        if let Some(observer) = &mut self.observer {
            observer.forked(parent, id, args.stack);
        }
        tid
    }

    /// Writes to another address space; what is not there is left alone.
    pub fn write_to(&mut self, mm: MmId, addr: u64, bytes: &[u8]) {
        if mm == self.mm.id {
            let _ = self.write_user(addr, bytes);
        } else if let Some(mut other) = self.others.mms.remove(&mm) {
            let _ = other.write(&mut self.arena, addr, bytes);
            other.kernel_faults.clear();
            self.others.mms.insert(mm, other);
        }
    }
}

/// `copy_process`'s own checks.
fn check(args: CloneArgs) -> Result<(), Errno> {
    let bad = args.has(flag::THREAD) && !args.has(flag::SIGHAND)
        || args.has(flag::SIGHAND) && !args.has(flag::VM)
        || args.has(flag::CLEAR_SIGHAND) && args.has(flag::SIGHAND)
        || args.flags & !flag::KNOWN != 0;
    if bad { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Where the kernel stack of a task is: 16 KiB of every 32 KiB, the rest guards it.
pub fn stack_base(arch: arch::Arch, id: TaskId) -> u64 {
    kernel_stacks(arch) + 0x1000_0000 + u64::from(id.0) * 0x8000
}

/// First address of the kernel's stacks.
pub const fn kernel_stacks(arch: arch::Arch) -> u64 {
    match arch {
        arch::Arch::X86_64 => 0xffff_c900_0000_0000,
        arch::Arch::Aarch64 => 0xffff_8000_8200_0000,
    }
}
