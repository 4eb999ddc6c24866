//! What a mount does, seen through system calls.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tenure_mount::kernel::{Options, Session, Unmount};

use crate::memory::Memory;

/// A mount that is taken away at the end of its test.
struct Mount {
    session: Option<Session>,
    memory: Arc<Memory>,
    dir: TempDir,
}

impl Mount {
    fn with(options: &Options) -> Option<Mount> {
        if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
            println!("skipped: /dev/fuse cannot be opened: {error}");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let memory = Arc::new(Memory::default());
        let session = Session::mount(options, dir.path(), memory.clone()).unwrap();
        Some(Mount {
            session: Some(session),
            memory,
            dir,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn unmount(&mut self) {
        let session = self.session.take().unwrap();
        session.unmount(Unmount::Idle).unwrap();
        session.join();
        self.memory.wait_until_ended();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.unmount(Unmount::Force);
            session.join();
        }
    }
}

fn mount() -> Option<Mount> {
    Mount::with(&Options::default())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_and_directories_are_made_read_listed_and_removed() {
    let Some(mut mount) = mount() else { return };
    fs::create_dir(mount.path("d")).unwrap();
    fs::write(mount.path("d/f"), b"hello").unwrap();
    std::os::unix::fs::symlink("d/f", mount.path("l")).unwrap();
    assert_eq!(fs::read(mount.path("l")).unwrap(), b"hello");
    assert_eq!(fs::metadata(mount.path("d/f")).unwrap().size(), 5);
    assert_eq!(names(mount.dir.path()), ["d", "l"]);
    for number in 0..1000 {
        fs::write(mount.path(&format!("d/{number}")), b"").unwrap();
    }
    assert_eq!(names(&mount.path("d")).len(), 1001);
    fs::File::options()
        .write(true)
        .truncate(true)
        .open(mount.path("d/f"))
        .unwrap();
    assert_eq!(fs::read(mount.path("d/f")).unwrap(), b"");
    assert_eq!(
        fs::remove_dir(mount.path("d")).unwrap_err().kind(),
        ErrorKind::DirectoryNotEmpty
    );
    fs::remove_file(mount.path("l")).unwrap();
    assert_eq!(
        fs::metadata(mount.path("l")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    mount.unmount();
}
