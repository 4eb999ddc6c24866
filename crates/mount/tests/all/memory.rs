//! A small file system in memory, with a few names in its root that misbehave on purpose.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tenure_mount::kernel::{
    Arming, Attr, DirectoryBuffer, Entry, Errno, FOREVER, Filesystem, InitFlags, Negotiated, Notifier,
    Opened, Operation, Original, ROOT, Reply, Request, Setattr, Shared, Wanted,
};

/// Looking this name up panics.
pub(crate) const PANICS: &str = "panics";
/// Looking this name up drops the reply.
pub(crate) const DROPS: &str = "drops";
/// Looking up a name that begins so is answered by another thread.
pub(crate) const LATER: &str = "later";
/// Looking up a name that begins so waits until it is interrupted.
pub(crate) const WAITS: &str = "waits";

#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    waiting: Arc<Mutex<HashMap<u64, Reply>>>,
    notifier: Mutex<Option<Notifier>>,
    pub(crate) bugs: Count,
    pub(crate) kept: Mutex<Vec<Shared>>,
    pub(crate) ended: Count,
    pub(crate) forgotten: Count,
    pub(crate) waited: Count,
}

/// A number that only rises, and can be waited for.
#[derive(Default)]
pub(crate) struct Count {
    value: Mutex<usize>,
    changed: Condvar,
}

impl Count {
    fn add(&self, more: usize) {
        *self.value.lock().unwrap() += more;
        self.changed.notify_all();
    }

    pub(crate) fn wait_for(&self, least: usize) {
        let value = self.value.lock().unwrap();
        let limit = Duration::from_secs(20);
        let (value, _) = self
            .changed
            .wait_timeout_while(value, limit, |value| *value < least)
            .unwrap();
        assert!(*value >= least, "{value} of {least} after {limit:?}");
    }
}

struct State {
    nodes: HashMap<u64, Node>,
    next: u64,
}

struct Node {
    attr: Attr,
    content: Content,
}

enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, u64>),
    Link(Vec<u8>),
}

impl Default for State {
    fn default() -> State {
        let attr = Attr {
            ino: ROOT,
            mode: libc::S_IFDIR | 0o755,
            nlink: 2,
            ..Attr::default()
        };
        let root = Node {
            attr,
            content: Content::Directory(BTreeMap::new()),
        };
        State {
            nodes: HashMap::from([(ROOT, root)]),
            next: 2,
        }
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn notifier(&self) -> Notifier {
        self.notifier.lock().unwrap().clone().unwrap()
    }

    /// Changes a file behind the kernel's back.
    pub(crate) fn replace(&self, ino: u64, bytes: &[u8]) {
        let mut state = self.state();
        let node = state.nodes.get_mut(&ino).unwrap();
        node.attr.size = bytes.len() as u64;
        node.content = Content::File(bytes.to_vec());
    }

    /// Removes a name behind the kernel's back.
    pub(crate) fn remove(&self, name: &str) {
        self.state().remove(ROOT, name.as_bytes()).unwrap();
    }

    fn wait(&self, mut reply: Reply) {
        let waiting = Arc::clone(&self.waiting);
        let unique = reply.unique();
        let mut all = self.waiting.lock().unwrap();
        let arming = reply.on_interrupt(move || {
            if let Some(reply) = waiting.lock().unwrap().remove(&unique) {
                reply.error(Errno::INTR);
            }
        });
        match arming {
            Arming::Armed => drop(all.insert(unique, reply)),
            Arming::Interrupted => reply.error(Errno::INTR),
        }
        drop(all);
        self.waited.add(1);
    }
}

impl State {
    fn directory(&mut self, ino: u64) -> Result<&mut BTreeMap<Vec<u8>, u64>, Errno> {
        match &mut self.nodes.get_mut(&ino).ok_or(Errno::NOENT)?.content {
            Content::Directory(names) => Ok(names),
            Content::File(_) | Content::Link(_) => Err(Errno::NOTDIR),
        }
    }

    fn file(&mut self, ino: u64) -> Result<(&mut Attr, &mut Vec<u8>), Errno> {
        let node = self.nodes.get_mut(&ino).ok_or(Errno::NOENT)?;
        match &mut node.content {
            Content::File(bytes) => Ok((&mut node.attr, bytes)),
            Content::Directory(_) | Content::Link(_) => Err(Errno::ISDIR),
        }
    }

    fn entry(&self, ino: u64) -> Entry {
        let attr = self.nodes[&ino].attr;
        Entry {
            nodeid: ino,
            generation: 0,
            entry_ttl: FOREVER,
            attr_ttl: FOREVER,
            attr,
        }
    }

    fn make(&mut self, parent: u64, name: &[u8], mode: u32, content: Content) -> Result<Entry, Errno> {
        let ino = self.next;
        if self.directory(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.directory(parent)?.insert(name.to_vec(), ino);
        self.next += 1;
        let attr = Attr {
            ino,
            mode,
            nlink: 1,
            ..Attr::default()
        };
        self.nodes.insert(ino, Node { attr, content });
        Ok(self.entry(ino))
    }

    fn lookup(&mut self, parent: u64, name: &[u8]) -> Result<Entry, Errno> {
        match self.directory(parent)?.get(name).copied() {
            Some(ino) => Ok(self.entry(ino)),
            None => Ok(Entry::negative(Duration::ZERO)),
        }
    }

    fn setattr(&mut self, ino: u64, setattr: &Setattr) -> Result<Attr, Errno> {
        if let Some(size) = setattr.size {
            let (attr, bytes) = self.file(ino)?;
            bytes.resize(size as usize, 0);
            attr.size = size;
        }
        let attr = &mut self.nodes.get_mut(&ino).ok_or(Errno::NOENT)?.attr;
        attr.mode = setattr.mode.unwrap_or(attr.mode);
        attr.uid = setattr.uid.unwrap_or(attr.uid);
        attr.gid = setattr.gid.unwrap_or(attr.gid);
        Ok(*attr)
    }

    fn write(&mut self, ino: u64, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let (attr, bytes) = self.file(ino)?;
        let end = offset as usize + data.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset as usize..end].copy_from_slice(data);
        attr.size = bytes.len() as u64;
        Ok(data.len() as u32)
    }

    fn remove(&mut self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let ino = *self.directory(parent)?.get(name).ok_or(Errno::NOENT)?;
        if let Content::Directory(names) = &self.nodes[&ino].content
            && !names.is_empty()
        {
            return Err(Errno::NOTEMPTY);
        }
        self.directory(parent)?.remove(name);
        Ok(())
    }

    fn list(&mut self, ino: u64, offset: u64, size: u32, plus: bool) -> Result<DirectoryBuffer, Errno> {
        let names: Vec<_> = self
            .directory(ino)?
            .iter()
            .map(|(name, ino)| (name.clone(), *ino))
            .collect();
        let mut listing = DirectoryBuffer::new(size);
        for (at, (name, ino)) in names.iter().enumerate().skip(offset as usize) {
            let next = at as u64 + 1;
            let entry = self.entry(*ino);
            let added = match plus {
                true => listing.add_plus(&entry, next, name),
                false => listing.add(*ino, next, entry.attr.mode, name),
            };
            if added.is_err() {
                break;
            }
        }
        Ok(listing)
    }
}

/// Answers with what `make` returns, or its error.
fn answer<T>(reply: Reply, result: Result<T, Errno>, success: impl FnOnce(Reply, T)) {
    match result {
        Ok(value) => success(reply, value),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Memory {
    fn wanted(&self) -> Wanted {
        let flags = InitFlags::ASYNC_READ
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::DO_READDIRPLUS
            | InitFlags::ATOMIC_O_TRUNC
            | InitFlags::EXPLICIT_INVAL_DATA
            | InitFlags::SETXATTR_EXT;
        Wanted {
            flags,
            ..Wanted::default()
        }
    }

    fn ready(&self, negotiated: &Negotiated, notifier: Notifier) {
        assert!(negotiated.minor >= 31);
        *self.notifier.lock().unwrap() = Some(notifier);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the rest is not implemented, whatever it is"
    )]
    fn handle(&self, request: Request<'_>, _: Original<'_>, reply: Reply) {
        let ino = request.nodeid;
        match request.operation {
            Operation::Lookup { name } if name == PANICS.as_bytes() => panic!("on purpose"),
            Operation::Lookup { name } if name == DROPS.as_bytes() => drop(reply),
            Operation::Lookup { name } if name.starts_with(WAITS.as_bytes()) => self.wait(reply),
            Operation::Lookup { name } if name.starts_with(LATER.as_bytes()) => {
                std::thread::spawn(move || reply.entry(&Entry::negative(Duration::ZERO)));
            }
            Operation::Lookup { name } => {
                answer(reply, self.state().lookup(ino, name), |reply, entry| {
                    reply.entry(&entry)
                });
            }
            Operation::Getattr { .. } => match self.state().nodes.get(&ino) {
                Some(node) => reply.attr(&node.attr, FOREVER),
                None => reply.error(Errno::NOENT),
            },
            Operation::Setattr(setattr) => {
                let set = self.state().setattr(ino, &setattr);
                answer(reply, set, |reply, attr| reply.attr(&attr, FOREVER));
            }
            Operation::Mkdir { name, mode, .. } => {
                let content = Content::Directory(BTreeMap::new());
                let made = self.state().make(ino, name, libc::S_IFDIR | mode, content);
                answer(reply, made, |reply, entry| reply.entry(&entry));
            }
            Operation::Symlink { name, target } => {
                let made =
                    self.state()
                        .make(ino, name, libc::S_IFLNK | 0o777, Content::Link(target.to_vec()));
                answer(reply, made, |reply, entry| reply.entry(&entry));
            }
            Operation::Readlink => match &self.state().nodes[&ino].content {
                Content::Link(target) => reply.data(target),
                Content::File(_) | Content::Directory(_) => reply.error(Errno::INVAL),
            },
            Operation::Create { name, mode, .. } => {
                let made = self.state().make(ino, name, mode, Content::File(Vec::new()));
                answer(reply, made, |reply, entry| {
                    reply.create(&entry, Opened::default())
                });
            }
            Operation::Open { flags, .. } => {
                if flags & libc::O_TRUNC as u32 != 0 {
                    let _ = self.state().setattr(
                        ino,
                        &Setattr {
                            size: Some(0),
                            ..Setattr::default()
                        },
                    );
                }
                let flags = tenure_mount::kernel::OpenFlags::KEEP_CACHE;
                reply.open(Opened { fh: 7, flags });
            }
            Operation::Opendir { .. } => reply.open(Opened::default()),
            Operation::Read { offset, size, .. } => {
                let mut state = self.state();
                answer(reply, state.file(ino), |reply, (_, bytes)| {
                    let start = bytes.len().min(offset as usize);
                    let end = bytes.len().min(start + size as usize);
                    let middle = (start + end) / 2;
                    reply.data_vectored(&[&bytes[start..middle], &bytes[middle..end]]);
                });
            }
            Operation::Write { offset, data, .. } => {
                self.kept.lock().unwrap().push(data.share());
                let written = self.state().write(ino, offset, data.bytes());
                answer(reply, written, |reply, size| reply.written(size));
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                answer(reply, self.state().remove(ino, name), |reply, ()| reply.ok());
            }
            Operation::Readdir { offset, size, .. } => {
                let listed = self.state().list(ino, offset, size, false);
                answer(reply, listed, |reply, listing| reply.directory(&listing));
            }
            Operation::Readdirplus { offset, size, .. } => {
                let listed = self.state().list(ino, offset, size, true);
                answer(reply, listed, |reply, listing| reply.directory(&listing));
            }
            Operation::Release { .. } | Operation::Releasedir { .. } => reply.ok(),
            Operation::Flush { .. } | Operation::Fsync { .. } | Operation::Fsyncdir { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn forget(&self, _ino: u64, lookups: u64) {
        self.forgotten.add(lookups as usize);
    }

    fn bug(&self) {
        self.bugs.add(1);
    }

    fn ended(&self) {
        self.ended.add(1);
    }
}
