//! What a client does when an owner is there and says or reads nothing: it waits within a bound.

use crate::fake::{Hand, LONG, owner, patience};
use crate::mend::{is_not_done, is_unknown};
use crate::samples::{batch, chunk};
use crate::script::{Owners, Script, serves};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_model::SessionId;
use tenure_wire::Patience;
use tenure_wire::message::Welcome;

/// Greets, reads everything and answers nothing.
pub(crate) fn is_silent() -> Script {
    Box::new(|stage| {
        stage.greet(&Welcome::In);
        while stage.read().is_some() {}
    })
}

#[test]
fn an_owner_that_does_not_answer_is_waited_for_within_a_bound() {
    let owners = Owners::new(vec![is_silent()]);
    let reply_max = Duration::from_secs(1);
    let connection = owners.reach(Patience {
        reply_max,
        ..patience()
    });
    let room = owner(&connection).room();
    assert!(is_unknown(&room), "{room:?}");
    drop(connection);
    owners.end();
}

#[test]
fn a_batch_that_is_not_answered_is_given_up_within_a_bound() {
    let owners = Owners::new(vec![is_silent()]);
    let clock = Arc::new(Hand::default());
    let reply_max = Duration::from_secs(1);
    let connection = owners.reach(Patience {
        reply_max,
        clock: clock.clone(),
        ..patience()
    });
    let (send, told) = mpsc::channel();
    owner(&connection).ship(
        batch(SessionId(5), 1),
        None,
        Box::new(move |shipped| drop(send.send(shipped))),
    );
    clock.advance(2 * reply_max);
    let shipped = told.recv_timeout(LONG).expect("it is told");
    assert!(is_unknown(&shipped), "{shipped:?}");
    drop(connection);
    owners.end();
}

#[test]
fn an_owner_that_does_not_read_is_waited_for_within_a_bound() {
    let (send, gate) = mpsc::channel::<()>();
    let deaf: Script = Box::new(move |stage| {
        stage.greet(&Welcome::In);
        // Until the test has ended.
        let _ = gate.recv();
    });
    let owners = Owners::new(vec![serves(), deaf]);
    let (write_max, reply_max) = (Duration::from_millis(20), Duration::from_secs(4));
    let connection = owners.reach(Patience {
        write_max,
        reply_max,
        redials_max: 0,
        ..patience()
    });
    let long = vec![0; 1 << 20];
    let placed = owner(&connection).place(SessionId(5), &[chunk(&long)]);
    assert!(is_not_done(&placed), "{placed:?}");
    drop(send);
    drop(connection);
    owners.end();
}

#[test]
fn time_in_which_this_machine_slept_makes_no_call_late() {
    let owners = Owners::new(vec![is_silent()]);
    let clock = Arc::new(Hand::default());
    let reply_max = Duration::from_secs(1);
    let connection = owners.reach(Patience {
        reply_max,
        clock: clock.clone(),
        ..patience()
    });
    // From here on the reader looks around.
    assert!(is_unknown(&owner(&connection).room()));
    let (send, told) = mpsc::channel();
    owner(&connection).ship(
        batch(SessionId(5), 1),
        None,
        Box::new(move |shipped| drop(send.send(shipped))),
    );
    clock.advance(Duration::from_secs(60));
    // It takes as long as the reader takes to look around several times.
    assert!(is_unknown(&owner(&connection).room()));
    let early = told.try_recv();
    assert!(early.is_err(), "it was given up for having slept: {early:?}");
    clock.advance(2 * reply_max);
    assert!(is_unknown(&told.recv_timeout(LONG).expect("it is told")));
    drop(connection);
    owners.end();
}
