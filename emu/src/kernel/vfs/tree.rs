//! Paths: looking up, creating, removing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::Errno;

use crate::engine::arena::MEMORY;
use crate::kernel::vfs::host::{Host, HostFile, Status};
use crate::kernel::vfs::node::{ProcFile, inode_of};
use crate::kernel::vfs::{File, Node};
use crate::mem::{Object, PAGE, Quota};

/// Symbolic links followed in one lookup (`MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;

/// An entry of the overlay.
#[derive(Clone, Debug)]
enum Overlay {
    File(Rc<File>),
    Directory,
    Symlink(String),
    /// Removed: hides what is below.
    Gone,
}

/// Pages that all files may hold: half of the machine's memory, as for a `tmpfs`.
const MOST_PAGES: u64 = MEMORY / 2 / PAGE;
/// Inode numbers of created files start here, above those made from paths.
const CREATED: u64 = 1 << 49;

/// All paths that the guest can see.
#[derive(Debug)]
pub struct Tree {
    /// Where host files are looked up.
    host: Rc<dyn Host>,
    /// Host folder that is the guest's `/`.
    root: Option<PathBuf>,
    /// Without a root: guest paths and the host files that they show.
    visible: BTreeMap<String, PathBuf>,
    overlay: BTreeMap<String, Overlay>,
    /// Host files seen so far, one node each.
    seen: RefCell<BTreeMap<String, Rc<File>>>,
    /// What all files may hold together.
    quota: Rc<Quota>,
    /// Files created so far.
    created: u64,
    /// Working directory.
    pub cwd: String,
    /// Path of the guest's own file, for `/proc/self/exe`.
    pub exe: String,
}

/// What a lookup does with the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Follow a symbolic link.
    Follow,
    /// Do not.
    NoFollow,
}

impl Tree {
    /// Files below the folder `root` of `host`, or none but those that [`Tree::show`] adds.
    pub fn new(host: Rc<dyn Host>, root: Option<PathBuf>, cwd: String, exe: String) -> Tree {
        Tree {
            host,
            root,
            cwd,
            exe,
            visible: BTreeMap::new(),
            overlay: BTreeMap::new(),
            seen: RefCell::default(),
            quota: Quota::new(MOST_PAGES),
            created: 0,
        }
    }

    /// Host folder that is the guest's `/`.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Pages that files can still take.
    pub fn free_pages(&self) -> u64 {
        MOST_PAGES.saturating_sub(self.quota.used())
    }

    /// Makes a host file visible at `path`.
    pub fn show(&mut self, path: String, host: PathBuf) {
        self.visible.insert(path, host);
    }

    /// An absolute path without `.`, `..` and empty components. `..` is resolved by name,
    /// as after following all links, which [`Tree::lookup`] does component by component.
    pub fn absolute(&self, base: &str, path: &str) -> String {
        let start = if path.starts_with('/') { "" } else { base };
        let mut parts: Vec<&str> = Vec::new();
        for part in start.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                name => parts.push(name),
            }
        }
        format!("/{}", parts.join("/"))
    }

    /// Resolves `path` from `base`; returns the final absolute path and its node.
    pub fn lookup(&self, base: &str, path: &[u8], how: Lookup) -> Result<(String, Node), Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        // Paths are bytes; those that are not UTF-8 name nothing that is visible.
        let path = std::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
        let wants_directory = path.ends_with('/') || path.ends_with("/.");
        let (path, node) = self.walk(self.start(base, path), path, how, MAX_LINKS)?;
        if wants_directory && !matches!(node, Node::Directory(_)) {
            return Err(Errno::ENOTDIR);
        }
        Ok((path, node))
    }

    fn start(&self, base: &str, path: &str) -> String {
        if path.starts_with('/') { String::new() } else { base.trim_end_matches('/').to_owned() }
    }

    fn walk(
        &self,
        mut at: String,
        path: &str,
        how: Lookup,
        links: u32,
    ) -> Result<(String, Node), Errno> {
        if links == 0 {
            return Err(Errno::ELOOP);
        }
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        let mut node = Node::Directory(if at.is_empty() { "/".to_owned() } else { at.clone() });
        for (i, part) in parts.iter().enumerate() {
            if part.len() > 255 {
                return Err(Errno::ENAMETOOLONG);
            }
            if !matches!(node, Node::Directory(_)) {
                return Err(Errno::ENOTDIR);
            }
            if *part == ".." {
                at.truncate(at.rfind('/').unwrap_or(0));
                node = Node::Directory(if at.is_empty() { "/".to_owned() } else { at.clone() });
                continue;
            }
            let parent = at.clone();
            at = format!("{at}/{part}");
            node = self.node_at(&at)?;
            let last = i + 1 == parts.len();
            if let Node::Symlink(target) = &node
                && (!last || how == Lookup::Follow)
            {
                let rest = parts[i + 1..].join("/");
                let full =
                    if rest.is_empty() { target.clone() } else { format!("{target}/{rest}") };
                let from = if target.starts_with('/') { String::new() } else { parent };
                return self.walk(from, &full, how, links - 1);
            }
        }
        Ok((if at.is_empty() { "/".to_owned() } else { at }, node))
    }

    /// The node with exactly this absolute path; links are not followed.
    fn node_at(&self, path: &str) -> Result<Node, Errno> {
        match self.overlay.get(path) {
            Some(Overlay::File(file)) => return Ok(Node::File(file.clone())),
            Some(Overlay::Directory) => return Ok(Node::Directory(path.to_owned())),
            Some(Overlay::Symlink(target)) => return Ok(Node::Symlink(target.clone())),
            Some(Overlay::Gone) => return Err(Errno::ENOENT),
            None => {}
        }
        if let Some(node) = self.special(path) {
            return Ok(node);
        }
        match &self.root {
            Some(root) => {
                let host = root.join(path.trim_start_matches('/'));
                match self.host_node(path, &host) {
                    // The kernel's own folders are there even if the root has none.
                    Err(Errno::ENOENT) if matches!(path, "/dev" | "/proc" | "/tmp") => {
                        Ok(Node::Directory(path.to_owned()))
                    }
                    other => other,
                }
            }
            None => match self.visible.get(path) {
                Some(host) => self.host_node(path, host),
                None if self.leads_to_visible(path) => Ok(Node::Directory(path.to_owned())),
                None => Err(Errno::ENOENT),
            },
        }
    }

    /// Whether `path` is a folder on the way to something visible.
    fn leads_to_visible(&self, path: &str) -> bool {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let below = |p: &str| p.starts_with(&prefix) || p == path;
        self.visible.keys().any(|p| below(p))
            || below(&self.cwd)
            || ["/tmp", "/dev", "/proc"].into_iter().any(below)
    }

    fn special(&self, path: &str) -> Option<Node> {
        Some(match path {
            "/dev/null" => Node::Null,
            "/dev/zero" => Node::Zero,
            "/dev/urandom" | "/dev/random" => Node::Random,
            "/dev/stdin" | "/proc/self/fd/0" => Node::Stdin,
            "/dev/stdout" | "/proc/self/fd/1" => Node::Stdout,
            "/dev/stderr" | "/proc/self/fd/2" => Node::Stderr,
            "/proc/self" | "/proc/self/fd" => Node::Directory(path.to_owned()),
            "/proc/self/exe" => Node::Symlink(self.exe.clone()),
            "/proc/self/maps" => Node::Proc(ProcFile::Maps),
            "/proc/self/auxv" => Node::Proc(ProcFile::Auxv),
            "/proc/self/cmdline" => Node::Proc(ProcFile::Cmdline),
            "/proc/self/comm" => Node::Proc(ProcFile::Comm),
            "/proc/self/environ" => Node::Proc(ProcFile::Environ),
            "/proc/self/stat" => Node::Proc(ProcFile::Stat),
            "/proc/self/status" => Node::Proc(ProcFile::Status),
            "/proc/sys" | "/proc/sys/kernel" => Node::Directory(path.to_owned()),
            "/proc/sys/kernel/perf_event_max_stack" => Node::Proc(ProcFile::MaxStack),
            "/proc/sys/kernel/perf_event_max_contexts_per_stack" => {
                Node::Proc(ProcFile::MaxContexts)
            }
            _ => return None,
        })
    }

    fn host_node(&self, path: &str, at: &Path) -> Result<Node, Errno> {
        let look = |how| self.host.status(at, how).map_err(|e| errno_of(&e));
        // Nothing is opened: that could wait for ever, and would be for `stat` alone.
        let mut status = look(Lookup::NoFollow)?;
        if status == Status::Symlink {
            if self.root.is_some() {
                let target = self.host.link(at).map_err(|e| errno_of(&e))?;
                return Ok(Node::Symlink(target));
            }
            status = look(Lookup::Follow)?;
        }
        match status {
            Status::Directory | Status::Symlink => Ok(Node::Directory(path.to_owned())),
            Status::Other(kind) => Ok(Node::Other(kind, inode_of(path))),
            Status::Regular { len, executable } => {
                if let Some(file) = self.seen.borrow().get(path) {
                    return Ok(Node::File(file.clone()));
                }
                let file = self.host_file(path, at, len, executable);
                self.seen.borrow_mut().insert(path.to_owned(), file.clone());
                Ok(Node::File(file))
            }
        }
    }

    fn host_file(&self, path: &str, at: &Path, len: u64, executable: bool) -> Rc<File> {
        let mode = if executable { 0o755 } else { 0o644 };
        let source = HostFile { host: self.host.clone(), path: at.to_owned() };
        let (name, inode) = (path.to_owned(), inode_of(path));
        File::new(Object::of_host(name, inode, self.quota.clone(), Box::new(source), len), mode)
    }

    /// Splits a path into its parent, which must be a folder, and the last name.
    pub fn parent(&self, base: &str, path: &[u8]) -> Result<String, Errno> {
        let path = std::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let trimmed = path.trim_end_matches('/');
        let (folder, name) = match trimmed.rfind('/') {
            Some(at) => (&trimmed[..=at], &trimmed[at + 1..]),
            None => (".", trimmed),
        };
        if name.is_empty() || name == "." || name == ".." {
            return Err(Errno::EEXIST);
        }
        let (folder, node) = self.lookup(base, folder.as_bytes(), Lookup::Follow)?;
        match node {
            Node::Directory(_) if self.is_gone(&folder) => Err(Errno::ENOENT),
            Node::Directory(_) => Ok(format!("{}/{name}", folder.trim_end_matches('/'))),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Where a new file at `path` goes: the target of a link that leads nowhere.
    ///
    /// # Errors
    ///
    /// As [`Tree::parent`], `ELOOP` for too many links.
    pub fn place_for(&self, base: &str, path: &[u8]) -> Result<String, Errno> {
        let mut place = self.parent(base, path)?;
        for _ in 0..MAX_LINKS {
            let Ok(Node::Symlink(target)) = self.node_at(&place) else { return Ok(place) };
            let folder = place[..place.rfind('/').unwrap_or(0)].to_owned();
            place = self.parent(&folder, target.as_bytes())?;
        }
        Err(Errno::ELOOP)
    }

    /// Whether the folder at an absolute path was removed: it may still be the working
    /// directory.
    pub fn is_gone(&self, folder: &str) -> bool {
        matches!(self.overlay.get(folder), Some(Overlay::Gone))
    }

    /// A file without a path (`O_TMPFILE`).
    pub fn unnamed(&mut self, folder: &str, mode: u32) -> Node {
        self.created += 1;
        let name = format!("{}/#{}", folder.trim_end_matches('/'), self.created);
        let object = Object::new(name, CREATED + self.created, self.quota.clone());
        let file = File::new(object, mode);
        file.unlink();
        Node::File(file)
    }

    /// Creates an empty file at an absolute path.
    pub fn create(&mut self, path: &str, mode: u32) -> Node {
        self.created += 1;
        let inode = CREATED + self.created;
        let file = File::new(Object::new(path.to_owned(), inode, self.quota.clone()), mode);
        self.overlay.insert(path.to_owned(), Overlay::File(file.clone()));
        Node::File(file)
    }

    /// `mkdir`
    pub fn make_directory(&mut self, base: &str, path: &[u8]) -> Result<(), Errno> {
        let path = self.parent(base, path)?;
        if self.node_at(&path).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.overlay.insert(path, Overlay::Directory);
        Ok(())
    }

    /// `symlink`
    pub fn make_symlink(&mut self, target: String, base: &str, path: &[u8]) -> Result<(), Errno> {
        let path = self.parent(base, path)?;
        if self.node_at(&path).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.overlay.insert(path, Overlay::Symlink(target));
        Ok(())
    }

    /// `unlink`, `rmdir`
    pub fn remove(&mut self, base: &str, path: &[u8], directory: bool) -> Result<(), Errno> {
        let last = path.rsplit(|&b| b == b'/').find(|part| !part.is_empty());
        let (path, node) = self.lookup(base, path, Lookup::NoFollow)?;
        match last {
            _ if !directory => {}
            Some(b".") => return Err(Errno::EINVAL),
            Some(b"..") => return Err(Errno::ENOTEMPTY),
            None => return Err(Errno::EBUSY),
            _ => {}
        }
        match (&node, directory) {
            (Node::Directory(_), false) => return Err(Errno::EISDIR),
            (Node::Directory(_), true) => {
                if !self.entries(&path)?.is_empty() {
                    return Err(Errno::ENOTEMPTY);
                }
            }
            (_, true) => return Err(Errno::ENOTDIR),
            (Node::File(file), false) => file.unlink(),
            (_, false) => {}
        }
        self.overlay.insert(path, Overlay::Gone);
        Ok(())
    }

    /// `rename` of files and links; folders answer -EXDEV, as between file systems.
    pub fn rename(
        &mut self,
        from: (&str, &[u8]),
        to: (&str, &[u8]),
        no_replace: bool,
    ) -> Result<(), Errno> {
        let (source, node) = self.lookup(from.0, from.1, Lookup::NoFollow)?;
        let target = self.parent(to.0, to.1)?;
        let replaced = self.node_at(&target).ok();
        match &replaced {
            Some(_) if no_replace => return Err(Errno::EEXIST),
            Some(Node::Directory(_)) => return Err(Errno::EISDIR),
            _ => {}
        }
        if source == target {
            return Ok(());
        }
        let entry = match node {
            Node::Directory(_) => return Err(Errno::EXDEV),
            Node::Symlink(link) => Overlay::Symlink(link),
            Node::File(file) => {
                file.object.set_name(target.clone());
                Overlay::File(file)
            }
            _ => return Err(Errno::EPERM),
        };
        if let Some(Node::File(file)) = replaced {
            file.unlink();
        }
        self.overlay.insert(source, Overlay::Gone);
        self.overlay.insert(target, entry);
        Ok(())
    }

    /// Names and nodes in a folder, sorted.
    pub fn entries(&self, folder: &str) -> Result<Vec<(String, Node)>, Errno> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let mut names: Vec<String> = Vec::new();
        if let Some(root) = &self.root {
            names.extend(self.host.list(&root.join(folder.trim_start_matches('/'))));
        }
        let child = |path: &str| {
            path.strip_prefix(&prefix).and_then(|p| p.split('/').next()).map(str::to_owned)
        };
        names.extend(self.visible.keys().filter_map(|p| child(p)));
        names.extend(self.overlay.keys().filter_map(|p| child(p)));
        names.retain(|n| !n.is_empty());
        names.sort_unstable();
        names.dedup();
        let nodes = names.into_iter().filter_map(|name| {
            let node = self.node_at(&format!("{prefix}{name}")).ok()?;
            Some((name, node))
        });
        Ok(nodes.collect())
    }

    /// How a profile names the file that the guest sees at `path`: where the host has it,
    /// or with a root the path below that (`perf --symfs ROOT`), so that the profile does
    /// not depend on where the root lies.
    pub fn profile_path(&self, path: &str) -> String {
        match (&self.root, self.visible.get(path)) {
            (None, Some(host)) => host.to_string_lossy().into_owned(),
            _ => path.to_owned(),
        }
    }

    /// The guest's own program, opened; it is visible at `path`. Its name is the path
    /// after all symbolic links, as the kernel names a mapped file.
    ///
    /// # Errors
    ///
    /// The host's.
    pub fn adopt(&mut self, path: &str, host: &Path) -> std::io::Result<Rc<File>> {
        let name = self.final_path(path, host).unwrap_or_else(|| path.to_owned());
        let (len, executable) = match self.host.status(host, Lookup::Follow)? {
            Status::Regular { len, executable } => (len, executable),
            // To open it fails.
            _ => (0, false),
        };
        let file = self.host_file(&name, host, len, executable);
        file.object.open()?;
        for path in [path, &name] {
            self.visible.insert(path.to_owned(), host.to_owned());
            self.seen.borrow_mut().insert(path.to_owned(), file.clone());
        }
        Ok(file)
    }

    /// Where the links of a path of the guest's lead: below the root, or on the host if
    /// that is where the path leads to `host`.
    fn final_path(&self, path: &str, host: &Path) -> Option<String> {
        if self.root.is_some() {
            return Some(self.lookup("", path.as_bytes(), Lookup::Follow).ok()?.0);
        }
        let full = self.host.canonical(Path::new(path))?;
        let same = self.host.canonical(host)? == full;
        if same { full.into_os_string().into_string().ok() } else { None }
    }
}

/// The host's path of bytes.
pub fn host_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The guest's view of a host error.
pub fn errno_of(error: &std::io::Error) -> Errno {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::NotFound => Errno::ENOENT,
        K::PermissionDenied => Errno::EACCES,
        K::IsADirectory => Errno::EISDIR,
        K::NotADirectory => Errno::ENOTDIR,
        K::InvalidInput => Errno::EACCES,
        _ => Errno::EIO,
    }
}
