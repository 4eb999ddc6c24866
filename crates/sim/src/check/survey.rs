//! Reads a whole branch through its client: what a program would find by walking it.

use super::names::Inode;
use super::{Content, Snapshot};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tenure_client::{Branch, Seek};
use tenure_model::{Ino, Kind, Name, Refusal, XattrName};
use tenure_wire::Error;

/// Bytes that are read at once.
const READ_LEN: u64 = 1 << 20;

/// Returns everything that can be reached from the root.
pub(crate) fn survey(branch: &Branch) -> Result<Snapshot, Error> {
    let mut found = Snapshot::default();
    let mut directories = vec![(Ino::ROOT, Ino::ROOT)];
    visit(branch, &mut found, Ino::ROOT, Ino::ROOT)?;
    while let Some((ino, parent)) = directories.pop() {
        let entries = entries(branch, ino)?;
        for (name, child, kind) in &entries {
            let is_directory = *kind == Kind::Directory;
            visit(
                branch,
                &mut found,
                *child,
                if is_directory { ino } else { Ino(0) },
            )?;
            if is_directory {
                directories.push((*child, ino));
            }
            let (seen, _) = branch.lookup(ino, name)?;
            assert_eq!(seen, *child, "a name that is listed is the one that is looked up");
        }
        let inode = found.names.inodes.get_mut(&ino).expect("it was visited");
        inode.parent = parent;
        inode.entries = entries
            .into_iter()
            .map(|(name, child, _)| (name, child))
            .collect();
    }
    Ok(found)
}

fn visit(branch: &Branch, found: &mut Snapshot, ino: Ino, parent: Ino) -> Result<(), Error> {
    if found.names.inodes.contains_key(&ino) {
        return Ok(());
    }
    let attr = branch.attr(ino)?;
    let target = if attr.kind == Kind::Symlink {
        branch.target(ino)?
    } else {
        Box::default()
    };
    let mut xattrs = BTreeMap::new();
    let names = branch.xattrs(ino)?;
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let parsed = XattrName::parse(name).expect("only valid names are put");
        xattrs.insert(parsed, branch.xattr(ino, name)?);
    }
    if attr.kind == Kind::File {
        found.contents.insert(ino, content(branch, ino, attr.size)?);
    }
    let inode = Inode {
        kind: attr.kind,
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        target,
        xattrs,
        entries: BTreeMap::new(),
        parent,
    };
    found.names.inodes.insert(ino, inode);
    Ok(())
}

/// Returns the entries of a directory.
pub(crate) fn entries(branch: &Branch, ino: Ino) -> Result<Vec<(Name, Ino, Kind)>, Error> {
    branch.list(ino, 0, false, Vec::new, |listed, entry, _| {
        let name = Name::parse(entry.name).expect("only valid names are put");
        listed.push((name, entry.ino, entry.kind));
        ControlFlow::Continue(())
    })
}

/// Returns a file's bytes; holes are skipped, so that a sparse file costs what it holds.
fn content(branch: &Branch, ino: Ino, size: u64) -> Result<Content, Error> {
    let mut content = Content::default();
    let mut at = 0;
    let mut bytes = Vec::new();
    while at < size {
        at = match branch.seek(ino, at, Seek::Data) {
            Ok(data) => data,
            Err(Error::Refused(Refusal::NoSuchOffset)) => break,
            Err(error) => return Err(error),
        };
        let end = branch.seek(ino, at, Seek::Hole)?;
        while at < end {
            bytes.clear();
            branch.read(ino, at, (end - at).min(READ_LEN) as usize, &mut bytes)?;
            assert!(!bytes.is_empty(), "there is something before the end of a file");
            content.write(at, &bytes);
            at += bytes.len() as u64;
        }
    }
    content.resize(size);
    Ok(content)
}
