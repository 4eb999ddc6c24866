//! The life of a process: told from that of every other, also of one that has its number later.
//!
//! Invariant: one is over only where this process would see it if it went on.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::unix::fs::MetadataExt;

/// How many numbers tell a life.
pub(crate) const NUMBERS: usize = 5;

/// The life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pid: u64,
    /// When it began, in the kernel's ticks.
    started: u64,
    /// The namespace in which it has its number.
    namespace: u64,
    /// Since when the machine runs, by what that run is called.
    boot: u128,
}

impl Life {
    /// Returns that of this process; none where the system does not tell.
    pub(crate) fn own() -> Option<Self> {
        let pid = std::process::id();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Life {
            pid: u64::from(pid),
            started: started(pid)?,
            namespace: std::fs::metadata("/proc/self/ns/pid").ok()?.ino(),
            boot: u128::from_str_radix(&boot.trim().replace('-', ""), 16).ok()?,
        })
    }

    /// Returns the numbers that tell it.
    pub(crate) fn numbers(self) -> [u64; NUMBERS] {
        let (high, low) = ((self.boot >> 64) as u64, self.boot as u64);
        [self.pid, self.started, self.namespace, high, low]
    }

    /// Returns the life that numbers tell.
    pub(crate) fn of([pid, started, namespace, high, low]: [u64; NUMBERS]) -> Self {
        Life {
            pid,
            started,
            namespace,
            boot: u128::from(high) << 64 | u128::from(low),
        }
    }

    /// Tells whether it is over; not where it may be that of a process which cannot be seen from here.
    pub(crate) fn is_over(self) -> bool {
        let is_seen = Life::own().is_some_and(|own| own.namespace == self.namespace && own.boot == self.boot);
        let number = u32::try_from(self.pid).ok().filter(|_| is_seen);
        let Some((number, pid)) =
            number.and_then(|number| Some((number, Pid::from_raw(number.cast_signed())?)))
        else {
            return false;
        };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(errno) => return errno == Errno::SRCH,
        };
        let is_another = started(number).is_some_and(|started| started != self.started);
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // One that has ended may still be there for its parent.
        is_another || poll(&mut ends, Some(&now)).is_ok_and(|ended| ended > 0)
    }
}

/// Returns when a process began (proc_pid_stat(5)).
fn started(pid: u32) -> Option<u64> {
    /// The fields between the name and this one.
    const BEFORE: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split(' ').nth(BEFORE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_life_is_over_once_its_process_has_ended_and_never_while_that_is_not_known() {
        let own = Life::own().expect("a machine with /proc");
        assert_eq!(Life::of(own.numbers()), own);
        let mut child = Command::new("sleep").arg("60").spawn().expect("it is there");
        let of_child = Life {
            pid: u64::from(child.id()),
            started: started(child.id()).expect("it runs"),
            ..own
        };
        assert!(!own.is_over() && !of_child.is_over());
        let earlier = Life {
            started: own.started - 1,
            ..own
        };
        assert!(earlier.is_over(), "another has its number");
        child.kill().expect("it is ours");
        while !of_child.is_over() {
            std::thread::yield_now();
        }
        child.wait().expect("it is ours");
        assert!(of_child.is_over());
        for unseen in [
            Life { boot: 1, ..of_child },
            Life {
                namespace: 1,
                ..of_child
            },
        ] {
            assert!(!unseen.is_over(), "{unseen:?}");
        }
    }
}
