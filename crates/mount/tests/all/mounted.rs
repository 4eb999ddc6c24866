//! What a mount does, seen through system calls.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use tempfile::TempDir;
use tenure_mount::kernel::{
    MountError, Notice, Options, ROOT, Session, Transport, Unmount, UnmountError, Wakeups, unmount,
};

use crate::memory::{DROPS, LATER, Memory, PANICS};

/// A mount that is taken away at the end of its test.
pub(crate) struct Mount {
    session: Option<Session>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) dir: TempDir,
}

impl Mount {
    pub(crate) fn with(options: &Options) -> Option<Mount> {
        if !has_fuse() {
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn unmount(&mut self) {
        let session = self.session.take().unwrap();
        // A process that another test is just starting may hold copies of this one's open files for a moment.
        session.unmount(Unmount::Detach).unwrap();
        session.join();
        self.memory.ended.wait_for(1);
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

/// Returns the ways in which this machine lets requests come; says which it does not.
pub(crate) fn transports() -> Vec<Transport> {
    if !has_fuse() {
        return vec![];
    }
    let rings = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    if rings.is_ok_and(|on| on.starts_with('Y')) {
        return vec![Transport::Device, Transport::Ring];
    }
    println!("skipped for io_uring: enable_uring is off");
    vec![Transport::Device]
}

/// Returns a mount for each of them, to run a test with one after the other.
pub(crate) fn mounts() -> impl Iterator<Item = Mount> {
    transports().into_iter().map(|transport| {
        let mount = Mount::with(&Options {
            transport,
            ..Options::default()
        })
        .unwrap();
        assert_eq!(mount.session.as_ref().unwrap().transport(), transport);
        mount
    })
}

/// Returns whether this machine lets the test mount; says so where it does not.
pub(crate) fn has_fuse() -> bool {
    let opened = fs::File::options().read(true).write(true).open("/dev/fuse");
    opened
        .inspect_err(|error| println!("skipped: /dev/fuse cannot be opened: {error}"))
        .is_ok()
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
    for mut mount in mounts() {
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
}

#[test]
fn a_dropped_reply_gives_eio() {
    for mut mount in mounts() {
        let error = fs::metadata(mount.path(DROPS)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        mount.unmount();
    }
}

#[test]
fn a_panic_gives_eio_and_the_mount_goes_on() {
    for mut mount in mounts() {
        for _ in 0..3 {
            let error = fs::metadata(mount.path(PANICS)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
        fs::write(mount.path("f"), b"still here").unwrap();
        mount.memory.bugs.wait_for(3);
        mount.unmount();
    }
}

/// Bytes that a page's worth of them tells from any other page.
fn pattern(len: u32) -> Vec<u8> {
    (0..len / 4)
        .flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

#[test]
fn a_large_write_is_kept_without_a_copy_and_a_small_one_copied() {
    let Some(mut mount) = Mount::with(&Options::default()) else {
        return;
    };
    let large = pattern(1 << 20);
    fs::write(mount.path("large"), &large).unwrap();
    let kept = std::mem::take(&mut *mount.memory.kept.lock().unwrap());
    assert!(
        kept.iter().all(tenure_mount::kernel::Shared::is_kept),
        "{} writes",
        kept.len()
    );
    fs::write(mount.path("small"), &large[..1000]).unwrap();
    let small = mount.memory.kept.lock().unwrap().pop().unwrap();
    assert!(!small.is_kept());
    assert_eq!(*small, large[..1000]);
    let joined: Vec<u8> = kept.iter().flat_map(|shared| shared.to_vec()).collect();
    assert!(
        joined == large,
        "what was kept is not overwritten by later requests"
    );
    mount.unmount();
}

#[test]
fn large_files_are_written_and_read_back() {
    for mut mount in mounts() {
        let large = pattern(9 << 20);
        fs::write(mount.path("f"), &large).unwrap();
        mount.memory.kept.lock().unwrap().clear();
        let ino = fs::metadata(mount.path("f")).unwrap().ino();
        notify(
            &mount,
            Notice::InvalInode {
                ino,
                offset: 0,
                length: 0,
            },
        );
        assert!(fs::read(mount.path("f")).unwrap() == large);
        mount.unmount();
    }
}

#[test]
fn a_reply_is_given_later_from_another_thread() {
    for mut mount in mounts() {
        let paths: Vec<_> = (0..50)
            .map(|number| mount.path(&format!("{LATER}{number}")))
            .collect();
        let asking = paths
            .into_iter()
            .map(|path| std::thread::spawn(move || fs::metadata(path)));
        for asked in asking.collect::<Vec<_>>() {
            assert_eq!(asked.join().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
        }
        mount.unmount();
    }
}

#[test]
fn a_mount_whose_threads_keep_their_class_serves_and_ends() {
    for transport in [Transport::Device, Transport::Ring] {
        let Some(mut mount) = Mount::with(&Options {
            transport,
            wakeups: Wakeups::Sleep,
            ..Options::default()
        }) else {
            return;
        };
        for number in 0..200 {
            fs::write(mount.path(&number.to_string()), b"x").unwrap();
        }
        mount.unmount();
    }
}

#[test]
fn more_large_writes_than_spare_buffers_are_copied() {
    let Some(mut mount) = Mount::with(&Options {
        spare_buffers: 3,
        ..Options::default()
    }) else {
        return;
    };
    // A source that was never written to would be sent in pieces: the kernel faults its pages in one by one.
    for number in 1_u8..11 {
        fs::write(mount.path("f"), vec![number; 128 << 10]).unwrap();
    }
    let kept = std::mem::take(&mut *mount.memory.kept.lock().unwrap());
    assert_eq!(kept.iter().filter(|shared| shared.is_kept()).count(), 3);
    for (number, shared) in (1_u8..11).zip(&kept) {
        assert!(shared.iter().all(|byte| *byte == number));
    }
    mount.unmount();
}

/// Sends `notice` and waits until the kernel has acted on it.
fn notify(mount: &Mount, notice: Notice) {
    let (done, wait) = mpsc::channel();
    mount
        .memory
        .notifier()
        .send_then(notice, move |result| done.send(result).unwrap())
        .unwrap();
    wait.recv().unwrap().unwrap();
}

#[test]
fn what_the_kernel_caches_is_invalidated_by_a_notification() {
    for mut mount in mounts() {
        fs::write(mount.path("f"), b"old").unwrap();
        assert_eq!(fs::read(mount.path("f")).unwrap(), b"old");
        let ino = fs::metadata(mount.path("f")).unwrap().ino();
        mount.memory.replace(ino, b"newer");
        assert_eq!(
            fs::read(mount.path("f")).unwrap(),
            b"old",
            "the kernel answers from its cache"
        );
        notify(
            &mount,
            Notice::InvalInode {
                ino,
                offset: 0,
                length: 0,
            },
        );
        assert_eq!(fs::read(mount.path("f")).unwrap(), b"newer");

        mount.memory.remove("f");
        assert!(mount.path("f").exists());
        notify(
            &mount,
            Notice::InvalEntry {
                parent: ROOT,
                name: b"f".to_vec(),
            },
        );
        assert!(!mount.path("f").exists());

        fs::write(mount.path("g"), b"").unwrap();
        let child = fs::metadata(mount.path("g")).unwrap().ino();
        mount.memory.remove("g");
        notify(
            &mount,
            Notice::Delete {
                parent: ROOT,
                child,
                name: b"g".to_vec(),
            },
        );
        assert!(!mount.path("g").exists());
        notify(
            &mount,
            Notice::ExpireEntry {
                parent: ROOT,
                name: b"nobody".to_vec(),
            },
        );
        mount.unmount();
    }
}

#[test]
fn bytes_are_stored_into_the_kernels_cache() {
    for mut mount in mounts() {
        fs::write(mount.path("f"), vec![1; 4096]).unwrap();
        let ino = fs::metadata(mount.path("f")).unwrap().ino();
        notify(
            &mount,
            Notice::Store {
                ino,
                offset: 0,
                bytes: vec![2; 4096],
            },
        );
        assert_eq!(fs::read(mount.path("f")).unwrap(), vec![2; 4096]);
        mount.unmount();
    }
}

#[test]
fn an_inode_without_a_name_is_forgotten() {
    for mut mount in mounts() {
        fs::write(mount.path("f"), b"").unwrap();
        fs::remove_file(mount.path("f")).unwrap();
        mount.memory.forgotten.wait_for(1);
        mount.unmount();
    }
}

#[test]
fn notifications_are_refused_when_the_mount_is_gone() {
    for mut mount in mounts() {
        let notifier = mount.memory.notifier();
        mount.unmount();
        let refused = notifier.send(Notice::InvalInode {
            ino: ROOT,
            offset: 0,
            length: 0,
        });
        assert_eq!(refused, Err(tenure_mount::kernel::NotTaken::Ended));
    }
}

#[test]
fn an_unmount_from_outside_ends_the_session() {
    for mut mount in mounts() {
        unmount(mount.dir.path(), Unmount::Idle).unwrap();
        mount.session.take().unwrap().join();
        mount.memory.ended.wait_for(1);
    }
}

#[test]
fn a_mount_in_use_is_unmounted_lazily_only() {
    for mut mount in mounts() {
        fs::write(mount.path("f"), b"x").unwrap();
        let open = fs::File::open(mount.path("f")).unwrap();
        let session = mount.session.take().unwrap();
        assert!(matches!(
            session.unmount(Unmount::Idle),
            Err(UnmountError::Busy(_))
        ));
        session.unmount(Unmount::Detach).unwrap();
        assert!(matches!(
            unmount(session.path(), Unmount::Idle),
            Err(UnmountError::NotMounted(_))
        ));
        assert_eq!(
            std::io::read_to_string(&open).unwrap(),
            "x",
            "whoever has it open goes on"
        );
        session.unmount(Unmount::Idle).unwrap();
        drop(open);
        session.join();
        mount.memory.ended.wait_for(1);
    }
}

#[test]
fn a_second_mount_on_the_same_place_is_refused() {
    for mut mount in mounts() {
        let second = Session::mount(&Options::default(), mount.dir.path(), mount.memory.clone());
        assert!(matches!(second, Err(MountError::Busy(_))), "{second:?}");
        mount.unmount();
    }
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let Some(mut mount) = Mount::with(&Options {
        read_only: true,
        ..Options::default()
    }) else {
        return;
    };
    assert_eq!(
        fs::write(mount.path("f"), b"").unwrap_err().kind(),
        ErrorKind::ReadOnlyFilesystem
    );
    mount.unmount();
}

#[test]
fn the_list_of_mounts_shows_the_source_and_the_type_as_given() {
    let options = Options {
        source: "a drive, with@main".into(),
        subtype: "tenure".into(),
        ..Options::default()
    };
    let Some(mut mount) = Mount::with(&options) else {
        return;
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.contains(mount.dir.path().to_str().unwrap()))
        .unwrap();
    assert!(
        line.contains(r" - fuse.tenure a\040drive,\040with@main "),
        "{line}"
    );
    mount.unmount();
}

#[test]
fn the_read_ahead_is_set() {
    let Some(mut mount) = Mount::with(&Options {
        read_ahead_kib: Some(1024),
        ..Options::default()
    }) else {
        return;
    };
    let device = fs::metadata(mount.dir.path()).unwrap().dev();
    let file = format!(
        "/sys/class/bdi/{}:{}/read_ahead_kb",
        libc::major(device),
        libc::minor(device)
    );
    assert_eq!(fs::read_to_string(file).unwrap().trim(), "1024");
    mount.unmount();
}
