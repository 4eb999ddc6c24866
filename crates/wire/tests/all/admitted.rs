//! Who was let in once: with the server itself, and for as long as his token counts.

use crate::calls::ship;
use crate::carrier::{Carrier, TOKEN, identity, serve_behind, servers, well_served};
use crate::fake::{Fake, Hand, LONG, greeting, limits, owner, patience};
use crate::mend::{is_not_done, is_unknown};
use crate::samples::{batch, who};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tenure_model::{DriveName, Refusal};
use tenure_wire::web::{self, Security, Token};
use tenure_wire::{
    Connection, Dialer, Door, Error, Greeting, HostPort, Patience, ServerAddress, Servers, Service, Stream,
};

fn nobody() -> Greeting {
    Greeting {
        drive: None,
        who: who(),
    }
}

fn with_no_drive(address: &ServerAddress) -> Servers {
    let trust = web::Trust::Pinned(Arc::new(crate::carrier::Seen::default()));
    Servers::new(vec![address.clone()], None, trust).with_token(|| Ok(Token::parse(TOKEN)?))
}

#[test]
fn who_comes_to_the_server_itself_speaks_with_it_and_of_no_drive() {
    for carrier in [Carrier::Plain, Carrier::Tls] {
        let served = well_served(carrier);
        let dial = Arc::new(with_no_drive(&served.address));
        let connection = Connection::reach(dial.clone(), nobody(), patience()).expect("the token is good");
        assert_eq!(
            connection.control("echo", b"a word", LONG),
            Ok(b"a word".to_vec())
        );
        let of_a_drive = Connection::reach(dial, greeting(), patience()).map(drop);
        assert!(
            matches!(&of_a_drive, Err(Error::Refused(Refusal::Because(why))) if why.contains("may speak about no drive")),
            "{of_a_drive:?}"
        );
        let trust = web::Trust::Pinned(Arc::new(crate::carrier::Seen::default()));
        let without = Servers::new(vec![served.address.clone()], None, trust);
        let refused = without.dial().map(drop);
        assert!(
            matches!(&refused, Err(Error::Refused(Refusal::Because(why))) if why.contains("does not open the server")),
            "{refused:?}"
        );
    }
}

/// A server whose doorkeeper can be told to let nobody in.
struct Closing {
    fake: Arc<Fake>,
    is_open: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    address: ServerAddress,
    service: Service,
}

fn closing() -> Closing {
    let (is_open, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (open, count) = (is_open.clone(), asked.clone());
    let keeper = move |_: Option<&str>, _: Option<&DriveName>| {
        count.fetch_add(1, Ordering::SeqCst);
        if open.load(Ordering::SeqCst) {
            Ok(None)
        } else {
            Err(Refusal::Because("this token does not count any more".into()))
        }
    };
    let at = HostPort {
        host: "127.0.0.1".into(),
        port: 0,
    };
    let listener = web::listen(&at, &Security::Tls(identity()), Arc::new(keeper)).expect("there are ports");
    let port = listener.address().expect("it is bound").port();
    let fake = Arc::new(Fake::default());
    let service = serve_behind(Door::Web(listener), &fake, limits());
    Closing {
        fake,
        is_open,
        asked,
        address: ServerAddress::Tls(HostPort { port, ..at }),
        service,
    }
}

#[test]
fn who_is_not_to_be_in_any_more_is_put_out_and_nothing_that_he_asks_is_taken_for_refused() {
    let closing = closing();
    let clock = Arc::new(Hand::default());
    let patience = Patience {
        clock: clock.clone(),
        ..patience()
    };
    let dial = Arc::new(servers(vec![closing.address.clone()]));
    let connection = Connection::reach(dial, greeting(), patience).expect("the door is open");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    closing.service.review();
    assert!(
        ship(owner(&connection), batch(session, 1)).is_ok(),
        "nothing has changed"
    );

    closing.is_open.store(false, Ordering::SeqCst);
    closing.service.review();
    let shipped = std::iter::repeat_with(|| ship(owner(&connection), batch(session, 2)))
        .find(Result::is_err)
        .expect("there is no end of tries");
    assert!(is_not_done(&shipped) || is_unknown(&shipped), "{shipped:?}");
    assert!(
        format!("{shipped:?}").contains("does not count any more"),
        "{shipped:?}"
    );

    // Whoever asks meanwhile does not knock each time.
    let asked = closing.asked.load(Ordering::SeqCst);
    for _ in 0..100 {
        assert!(is_not_done(&ship(owner(&connection), batch(session, 2))));
    }
    let knocked = closing.asked.load(Ordering::SeqCst) - asked;
    assert!(
        knocked <= 1,
        "the clock stands still, and the door was knocked at {knocked} times"
    );

    closing.is_open.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(1));
    assert!(
        ship(owner(&connection), batch(session, 2)).is_ok(),
        "the door is open again"
    );
    assert_eq!(closing.fake.open_sessions(), [session]);
}

#[test]
fn a_token_that_was_replaced_is_shown_from_then_on() {
    let first = well_served(Carrier::Tls);
    let is_replaced = Arc::new(AtomicBool::new(false));
    let shown = is_replaced.clone();
    let trust = web::Trust::Pinned(Arc::new(crate::carrier::Seen::default()));
    let servers = Servers::new(vec![first.address.clone()], greeting().drive, trust).with_token(move || {
        let is_replaced = shown.load(Ordering::SeqCst);
        Ok(Token::parse(if is_replaced {
            TOKEN
        } else {
            "one-that-has-ended"
        })?)
    });
    assert!(matches!(servers.dial().map(drop), Err(Error::Refused(_))));
    is_replaced.store(true, Ordering::SeqCst);
    let stream: Stream = servers.dial().expect("the new one counts");
    drop(stream);
}
