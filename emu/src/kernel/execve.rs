//! `execve` by a guest: the address space is replaced, the task goes on in the new program.
//!
//! There is no hook of the deferred unwinder (1.9): cookie, cache and what is pending survive, so
//! that a stack that was asked for before shows the new program (H11).

use std::rc::Rc;

use arch::{Errno, FpState, Sysno};

use super::syscalls::{Outcome, encode};
use crate::kernel::image::{self, ImageError, Loaded, Request};
use crate::kernel::symbols::Named;
use crate::kernel::vfs::{File, Lookup, Node};
use crate::kernel::wait::Wait;
use crate::kernel::{Kernel, Point, State, do_exit, exec, uprobe, wait};
use crate::mem::mm::MmId;
use crate::perf::record::{EventKind, Raw};

/// Most strings of an argument or environment list.
const MOST_STRINGS: usize = 1 << 16;
/// Longest single string (`MAX_ARG_STRLEN`).
const MOST_BYTES: usize = 128 << 10;

const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;

/// What the call asks for.
struct Wanted {
    file: Rc<File>,
    path: String,
    args: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
}

/// `execve` and `execveat`.
pub async fn execve(k: &Kernel, sysno: Sysno, a: [u64; 6]) -> Outcome {
    const FUNCTIONS: [Named; 3] = [Named::DoExecveat, Named::BprmExecve, Named::LoadElfBinary];
    k.enter(&FUNCTIONS).await;
    k.parts(Point::ExecPart, 19).await;
    let loaded = k
        .step(Point::ExecLoad, |s| {
            let mut unhashed = Unhashed(None);
            let failed = match s.load_program(sysno, a) {
                Ok(loaded) => {
                    unhashed.0 = Some(loaded);
                    None
                }
                Err(errno) => Some(errno),
            };
            (unhashed, failed)
        })
        .await;
    let outcome = match loaded {
        (Unhashed(Some((loaded, path))), None) => {
            alone(k).await;
            k.step(Point::ExecSwitch, |s| s.become_program(loaded, path)).await;
            Outcome::Keep
        }
        (_, failed) => Outcome::Return(encode(Err(failed.unwrap_or(Errno::EINVAL)))),
    };
    k.leave(&FUNCTIONS).await;
    outcome
}

/// A loaded program, which a step may return: what it is follows from the call's arguments.
struct Unhashed(Option<(Box<Loaded>, String)>);

impl std::hash::Hash for Unhashed {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_ref().map(|(_, path)| path).hash(state);
    }
}

/// The other threads of the process end first (`de_thread`).
async fn alone(k: &Kernel) {
    let kill = |s: &mut State| {
        let own = s.task.id;
        s.kill_other_threads(own);
    };
    k.step(Point::ExecKill, kill).await;
    let waits = |s: &mut State| {
        let busy = s.task.process.borrow().live > 1;
        if busy {
            let pid = s.task.pid;
            s.prepare_to_wait(Wait::Threads(pid), None, false);
        }
        busy
    };
    while k.step(Point::ExecAlone, waits).await {
        wait::finish(k).await;
    }
}

impl State {
    /// The program that the call names, in an address space that nobody uses yet, and its path.
    fn load_program(&mut self, sysno: Sysno, a: [u64; 6]) -> Result<(Box<Loaded>, String), Errno> {
        let wanted = self.wanted(sysno, a)?;
        let mut random = [0; 16];
        self.task.random.fill(&mut random);
        self.others.last_mm += 1;
        let request = Request {
            file: &wanted.file,
            path: wanted.path.as_bytes(),
            args: &wanted.args,
            env: &wanted.env,
            ids: (self.task.uid, self.task.gid),
            limits: &self.task.limits,
            aslr: self.config.aslr,
            random,
            mm: MmId(self.others.last_mm),
        };
        if image::arch_of(&wanted.file).map_err(|_| Errno::ENOEXEC)? != self.arch {
            return Err(Errno::ENOEXEC);
        }
        let loaded = image::load(&request, &self.config, &mut self.arena).map_err(|e| match e {
            ImageError::Load(_) => Errno::ENOEXEC,
            ImageError::Arguments(_) => Errno::E2BIG,
            ImageError::Map(errno) => errno,
            ImageError::Memory => Errno::ENOMEM,
        })?;
        Ok((Box::new(loaded), wanted.path))
    }

    fn wanted(&mut self, sysno: Sysno, a: [u64; 6]) -> Result<Wanted, Errno> {
        let (dirfd, path, argv, envp, flags) = match sysno {
            Sysno::Execveat => (a[0] as i32, a[1], a[2], a[3], a[4]),
            _ => (AT_FDCWD, a[0], a[1], a[2], 0),
        };
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        let name = self.read_path(path)?;
        let (_, node) = match name.is_empty() && flags & AT_EMPTY_PATH != 0 {
            true => (format!("/dev/fd/{dirfd}"), self.task.fds.get(dirfd)?.node.clone()),
            false => {
                let base = match dirfd {
                    _ if name.starts_with(b"/") => String::new(),
                    AT_FDCWD => self.task.cwd.borrow().clone(),
                    fd => match &self.task.fds.get(fd)?.node {
                        Node::Directory(path) => path.clone(),
                        _ => return Err(Errno::ENOTDIR),
                    },
                };
                self.vfs.tree.lookup(&base, &name, Lookup::Follow)?
            }
        };
        // The program's name is what the call says, whatever that leads to.
        let path = match name.is_empty() {
            true => format!("/dev/fd/{dirfd}"),
            false => String::from_utf8_lossy(&name).into_owned(),
        };
        let Node::File(file) = node else { return Err(Errno::EACCES) };
        if file.mode & 0o111 == 0 {
            return Err(Errno::EACCES);
        }
        file.object.open().map_err(|_| Errno::EIO)?;
        if file.object.pristine().is_none() {
            self.note_unsupported("execve of a file that the guest made");
            return Err(Errno::ENOEXEC);
        }
        let (args, env) = (self.strings(argv)?, self.strings(envp)?);
        Ok(Wanted { file, path, args, env })
    }

    /// The strings of a list that ends with a null pointer.
    fn strings(&mut self, list: u64) -> Result<Vec<Vec<u8>>, Errno> {
        let mut strings = Vec::new();
        let mut total = 0;
        if list == 0 {
            return Ok(strings);
        }
        loop {
            let at = self.read_u64(list.wrapping_add(8 * strings.len() as u64))?;
            if at == 0 {
                return Ok(strings);
            }
            let string = self.read_string(at, MOST_BYTES).ok_or(Errno::EFAULT)?;
            let string = string.ok_or(Errno::E2BIG)?;
            total += string.len();
            if strings.len() >= MOST_STRINGS || total > 32 * MOST_BYTES {
                return Err(Errno::E2BIG);
            }
            strings.push(string);
        }
    }

    /// The task goes on in the new program (`begin_new_exec`).
    fn become_program(&mut self, loaded: Box<Loaded>, path: String) {
        let Loaded { mm, regs, image, vdso_sigreturn } = *loaded;
        do_exit::release_mm(self);
        let old = std::mem::replace(&mut self.mm, Box::new(mm));
        self.leave_mm(old);
        let old_tid = self.task.tid;
        let task = &mut self.task;
        task.mm = Some(self.mm.id);
        task.image = image;
        task.vdso_sigreturn = vdso_sigreturn;
        task.comm = exec::comm_of(&path);
        task.signals.flush_handlers();
        task.returns.clear();
        (task.uprobe, task.step_over, task.debug_step) = (None, None, None);
        task.fds.exec();
        task.rseq = None;
        task.clear_child_tid = 0;
        // A thread that calls it takes the place of the first thread.
        task.tid = task.pid;
        self.wake(Wait::Files, usize::MAX);
        self.set_hw_regs(&regs);
        self.set_hw_fp(&FpState::new(self.arch));
        self.task.orig_nr = u64::MAX;
        self.save_user_regs(&regs, u64::MAX);
        if let Some(observer) = &mut self.observer {
            observer.about(self.task.id);
            observer.exec(&regs);
        }
        if self.perf.wants(EventKind::ProcessExec) {
            let raw = Raw::ProcessExec { filename: path, pid: self.task.tid, old_pid: old_tid };
            self.tracepoint(EventKind::ProcessExec, raw);
        }
        self.register_sframe_of_image();
        uprobe::install_all(self);
        self.release_events();
        self.exec_events();
        exec::announce(self);
    }

    /// A task has left an address space.
    fn leave_mm(&mut self, mut mm: Box<crate::mem::Mm>) {
        mm.users -= 1;
        if mm.users == 0 {
            mm.release(&mut self.arena);
        } else {
            self.others.mms.insert(mm.id, mm);
        }
    }
}
