//! Who is at the other end of a stream: a process of this machine, as the kernel says, or somebody far away.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::process::{Pid, PidfdFlags, Uid, geteuid, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tenure_model::Refusal;

/// Who is at the other end.
#[derive(Debug)]
pub(super) enum Peer {
    /// A process of this machine whose end the kernel tells.
    Near(OwnedFd),
    /// Somebody whose end nobody tells.
    Far,
}

impl Peer {
    /// Looks who is at the other end of a unix socket; only the same user and root may be.
    pub(super) fn of(socket: impl AsFd) -> Result<Self, Refusal> {
        let peer = getsockopt(&socket, PeerCredentials)
            .map_err(|error| Refusal::Because(format!("the kernel does not say who is there: {error}")))?;
        if !may_speak(Uid::from_raw(peer.uid()), geteuid()) {
            return Err(Refusal::Because(format!(
                "user {} is at the other end, but only user {} and root may speak here",
                peer.uid(),
                geteuid().as_raw()
            )));
        }
        // One that cannot be watched (it lives in another namespace, where it has no number, or has ended) is as good as far.
        let process = Pid::from_raw(peer.pid()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(process.map_or(Self::Far, Self::Near))
    }
}

/// Tells whether a process ends within `wait`; false as soon as `stop` can be read.
pub(super) fn ends_within(process: &OwnedFd, wait: Duration, stop: BorrowedFd<'_>) -> bool {
    let mut ends =
        [&stop as &dyn AsFd, process].map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
    let wait = Timespec::try_from(wait).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    // An interrupted wait is a short one: the owner hears no more of who ends later.
    let _ = poll(&mut ends, Some(&wait));
    ends[0].revents().is_empty() && !ends[1].revents().is_empty()
}

fn may_speak(peer: Uid, own: Uid) -> bool {
    peer == own || peer.is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_user_and_root_may_speak_and_nobody_else() {
        let user = Uid::from_raw;
        assert!(may_speak(user(7), user(7)));
        assert!(may_speak(user(0), user(7)));
        assert!(!may_speak(user(8), user(7)));
        assert!(!may_speak(user(7), user(0)));
    }
}
