//! Which sessions are there: each at the connection over which it was opened, or over which it came back last.
//!
//! Invariant: a session is given up only by the connection that it was at last.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use tenure_model::{DriveName, SessionId};

/// The number of a connection.
pub(super) type VisitNumber = u64;

/// Where the sessions of every drive are.
#[derive(Default)]
pub(super) struct Presence(Mutex<BTreeMap<(DriveName, SessionId), VisitNumber>>);

impl Presence {
    /// Notes that a session is at a connection, and returns the one at which it was.
    pub(super) fn come(
        &self,
        drive: &DriveName,
        session: SessionId,
        visit: VisitNumber,
    ) -> Option<VisitNumber> {
        self.0.lock().insert((drive.clone(), session), visit)
    }

    /// Forgets a session that is over.
    pub(super) fn forget(&self, drive: &DriveName, session: SessionId) {
        self.0.lock().remove(&(drive.clone(), session));
    }

    /// Tells whether any session is at a connection.
    pub(super) fn is_any_at(&self, visit: VisitNumber) -> bool {
        self.0.lock().values().any(|at| *at == visit)
    }

    /// Forgets the sessions that are at a connection, and returns them.
    pub(super) fn give_up(&self, visit: VisitNumber) -> Vec<SessionId> {
        self.0
            .lock()
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
        presence.forget(&drive, SessionId(1));
        assert_eq!(presence.give_up(11), []);
    }
}
