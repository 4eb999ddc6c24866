//! Calls that wait in the daemon can be interrupted, and nothing hangs.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::memory::WAITS;
use crate::mounted::mounts;

/// Waits for the end of a process that must not hang.
fn ended(mut child: Child) -> ExitStatus {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(child.wait().unwrap()));
    receive
        .recv_timeout(Duration::from_secs(20))
        .expect("the process ends")
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: kill touches no memory, and the child has not been waited for.
    let sent = unsafe { libc::kill(child.id().cast_signed(), signal) };
    assert_eq!(sent, 0);
}

#[test]
fn a_waiting_call_ends_when_its_process_is_killed() {
    for mut mount in mounts() {
        for (count, number) in [libc::SIGKILL, libc::SIGTERM, libc::SIGINT]
            .into_iter()
            .enumerate()
        {
            let mut command = Command::new("stat");
            let child = command
                .arg(mount.path(WAITS))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            mount.memory.waited.wait_for(count + 1);
            signal(&child, number);
            assert_eq!(ended(child).signal(), Some(number));
        }
        mount.unmount();
    }
}

extern "C" fn ignore(_: i32) {}

#[test]
fn a_signal_gives_eintr_to_a_waiting_call() {
    for mut mount in mounts() {
        // SAFETY: the action is zeroed but for a handler that does nothing, so that it is safe at any moment.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
                0
            );
        }
        let path = mount.path(WAITS);
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: pthread_self cannot fail.
            send.send(unsafe { libc::pthread_self() }).unwrap();
            fs::metadata(path)
        });
        mount.memory.waited.wait_for(1);
        let handle = receive.recv().unwrap();
        // SAFETY: the thread waits in its call, so that its handle is valid.
        let sent = unsafe { libc::pthread_kill(handle, libc::SIGUSR1) };
        assert_eq!(sent, 0);
        let error = thread.join().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINTR));
        mount.unmount();
    }
}

#[test]
fn many_waiting_calls_keep_nobody_out_and_all_are_interrupted() {
    for mut mount in mounts() {
        // The kernel lets nobody change a directory while a name in it is looked up.
        fs::create_dir(mount.path("d")).unwrap();
        let wait = |number| {
            let path = mount.path(&format!("d/{WAITS}{number}"));
            Command::new("stat")
                .arg(path)
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let children: Vec<_> = (0..150).map(wait).collect();
        mount.memory.waited.wait_for(150);
        fs::write(mount.path("f"), b"meanwhile").unwrap();
        for child in &children {
            signal(child, libc::SIGTERM);
        }
        for child in children {
            assert_eq!(ended(child).signal(), Some(libc::SIGTERM));
        }
        mount.unmount();
    }
}
