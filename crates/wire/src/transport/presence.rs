//! Which sessions are there: each at the connection over which it was opened, or over which it came back last.
//!
//! Invariant: a session is given up only by the connection that it was at last.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_model::{DriveName, SessionId};

/// The number of a connection.
pub(super) type VisitNumber = u64;

/// Where the sessions of every drive are.
#[derive(Default)]
pub(super) struct Presence {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    sessions: BTreeMap<(DriveName, SessionId), VisitNumber>,
    is_stopping: bool,
}

impl Known {
    fn is_any_at(&self, visit: VisitNumber) -> bool {
        self.sessions.values().any(|at| *at == visit)
    }
}

impl Presence {
    /// Notes that a session is at a connection, and returns the one at which it was.
    pub(super) fn come(
        &self,
        drive: &DriveName,
        session: SessionId,
        visit: VisitNumber,
    ) -> Option<VisitNumber> {
        let left = self.known.lock().sessions.insert((drive.clone(), session), visit);
        self.changed.notify_all();
        left
    }

    /// Forgets a session that is over.
    pub(super) fn forget(&self, drive: &DriveName, session: SessionId) {
        self.known.lock().sessions.remove(&(drive.clone(), session));
        self.changed.notify_all();
    }

    /// Tells whether any session is at a connection.
    pub(super) fn is_any_at(&self, visit: VisitNumber) -> bool {
        self.known.lock().is_any_at(visit)
    }

    /// Waits until no session is at a connection any more, at most `wait`. Returns true when some still are.
    pub(super) fn wait_for_return(&self, visit: VisitNumber, wait: Duration) -> bool {
        let mut known = self.known.lock();
        let is_awaited = |known: &mut Known| !known.is_stopping && known.is_any_at(visit);
        self.changed.wait_while_for(&mut known, is_awaited, wait);
        !known.is_stopping && known.is_any_at(visit)
    }

    /// Lets nobody wait any more.
    pub(super) fn stop(&self) {
        self.known.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Forgets the sessions that are at a connection, and returns them.
    pub(super) fn give_up(&self, visit: VisitNumber) -> Vec<SessionId> {
        let mut known = self.known.lock();
        known
            .sessions
            .extract_if(.., |_, at| *at == visit)
            .map(|((_, session), _)| session)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_came_back_is_not_given_up_by_the_connection_that_ended() {
        let drive = DriveName::parse("work").expect("it is a name");
        let presence = Presence::default();
        presence.come(&drive, SessionId(1), 10);
        presence.come(&drive, SessionId(2), 10);
        presence.come(&drive, SessionId(1), 11);
        assert_eq!(presence.give_up(10), [SessionId(2)]);
        assert!(!presence.is_any_at(10) && presence.is_any_at(11));
        assert!(!presence.wait_for_return(10, Duration::MAX));
        assert!(presence.wait_for_return(11, Duration::ZERO));
        presence.forget(&drive, SessionId(1));
        assert_eq!(presence.give_up(11), []);
    }
}
