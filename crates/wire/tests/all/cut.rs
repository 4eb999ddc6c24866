//! Cables that are cut: at every byte of a conversation, and without a word.

use crate::calls::ship;
use crate::carrier::{Carrier, dialling_to, well_served};
use crate::fake::{greeting, owner, patience};
use crate::mend::is_not_done;
use crate::samples::{address, batch, chunk, who};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tenure_wire::{Access, Connection, HostPort, ServerAddress};

/// How many bytes go over the first connection before it is cut; later ones are left alone.
type Budget = Arc<AtomicUsize>;

/// Something between a client and a server.
struct Cable {
    at: HostPort,
    /// Bytes that went over the first connection, both ways.
    carried: Budget,
    /// Whether it carries nothing more of what has been connected so far, and says nothing of it.
    is_cut: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Cable {
    /// Stands before a server; its first connection ends behind `most` bytes.
    fn to(server: &ServerAddress, most: usize) -> Self {
        let (ServerAddress::Plain(server) | ServerAddress::Tls(server)) = server.clone() else {
            panic!("{server} is no port");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let at = HostPort {
            host: "127.0.0.1".into(),
            port: listener.local_addr().expect("it is bound").port(),
        };
        let (carried, is_cut) = (Budget::default(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::new(AtomicBool::new(false));
        let (counted, cut, over) = (carried.clone(), is_cut.clone(), is_over.clone());
        let accept = move || {
            for (number, client) in listener.incoming().enumerate() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let client = client.expect("there are descriptors");
                let Ok(server) = TcpStream::connect((&*server.host, server.port)) else {
                    continue;
                };
                let (counted, most) = match number {
                    0 => (counted.clone(), most),
                    _ => (Budget::default(), usize::MAX),
                };
                // A cable that is cut later is cut for those who are there by then.
                let cut = if cut.load(Ordering::SeqCst) {
                    Arc::default()
                } else {
                    cut.clone()
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let ends = [from, to].map(|end| end.try_clone().expect("there are descriptors"));
                    let (counted, cut) = (counted.clone(), cut.clone());
                    std::thread::spawn(move || carry(&ends, &counted, most, &cut));
                }
            }
        };
        Self {
            at,
            carried,
            is_cut,
            is_over,
            acceptor: Some(std::thread::spawn(accept)),
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((&*self.at.host, self.at.port));
        let acceptor = self.acceptor.take().expect("it is dropped once");
        acceptor.join().expect("it has not failed");
    }
}

/// Carries bytes one way until one end has gone, or the budget has.
fn carry(ends: &[TcpStream; 2], counted: &AtomicUsize, most: usize, cut: &AtomicBool) {
    let [mut from, mut to] = ends.each_ref();
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if cut.load(Ordering::SeqCst) {
            continue;
        }
        let before = counted.fetch_add(len, Ordering::SeqCst);
        let left = most.saturating_sub(before).min(len);
        if to.write_all(&bytes[..left]).is_err() || left < len {
            break;
        }
    }
    [from, to]
        .into_iter()
        .for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

/// Speaks with a server over a cable whose first connection is cut behind `most` bytes; returns how many went over it.
fn converse(carrier: Carrier, most: usize) -> usize {
    let served = well_served(carrier);
    let cable = Cable::to(&served.address, most);
    let address_of_cable = match &served.address {
        ServerAddress::Tls(_) => ServerAddress::Tls(cable.at.clone()),
        ServerAddress::Unix(_) | ServerAddress::Plain(_) => ServerAddress::Plain(cable.at.clone()),
    };
    let dial = dialling_to(&address_of_cable);
    // What is not found at first is looked for once; a cut there is a failure that says that nothing happened.
    let reach = || Connection::reach(dial.clone(), greeting(), patience());
    let connection = reach().or_else(|error| {
        assert!(is_not_done(&Err::<(), _>(error)), "a cut refuses nothing");
        reach()
    });
    let connection = connection.expect("the second is not cut");
    let owned = owner(&connection);
    let session = owned.open(&who()).expect("it is opened").session;
    let lent = owned
        .lend(session, "main", Access::Exclusive)
        .expect("it is lent");
    assert_eq!(lent.branch, Some(tenure_model::BranchId(1)));
    for number in 1..=3 {
        assert!(ship(owned, batch(session, number)).is_ok(), "behind {most} bytes");
    }
    let placed = owned.place(session, &[chunk(b"bytes")]).expect("it is placed");
    let mut out = [0; 5];
    owned.read(placed[0].at, 0, &mut out).expect("it is there");
    assert_eq!(&out, b"bytes");
    assert_eq!(owned.page(address(7)), Ok(vec![7; 4000]));
    owned.close(session).expect("it is closed");
    drop(connection);
    served.service.stop();
    cable.carried.load(Ordering::SeqCst).min(most)
}

/// Has conversations that are cut behind more and more bytes, until one is not.
fn cut_at_every(carrier: Carrier, step: usize) {
    let mut most = 0;
    while converse(carrier, most) == most {
        most += step;
    }
    assert!(most > 500, "a conversation is longer than {most} bytes");
}

#[test]
fn a_conversation_goes_on_whatever_byte_it_is_cut_at() {
    cut_at_every(Carrier::Plain, 1);
}

#[test]
fn a_conversation_over_tls_goes_on_wherever_it_is_cut() {
    cut_at_every(Carrier::Tls, 23);
}

#[test]
fn a_cable_that_is_cut_without_a_word_is_noticed_while_a_session_is_held() {
    let served = well_served(Carrier::Tls);
    let cable = Cable::to(&served.address, usize::MAX);
    let dial = dialling_to(&ServerAddress::Tls(cable.at.clone()));
    let connection = Connection::reach(dial, greeting(), patience()).expect("somebody answers");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    assert_eq!(served.fake.count("renew"), 0);
    cable.is_cut.store(true, Ordering::SeqCst);
    // Nobody asks anything; it comes back by itself.
    served.fake.wait_for(&format!("renew {session}"), 1);
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
}

#[test]
fn a_call_over_a_cable_that_is_cut_without_a_word_goes_to_the_owner_again() {
    let served = well_served(Carrier::Plain);
    let cable = Cable::to(&served.address, usize::MAX);
    let dial = dialling_to(&ServerAddress::Plain(cable.at.clone()));
    let connection = Connection::reach(dial, greeting(), patience()).expect("somebody answers");
    cable.is_cut.store(true, Ordering::SeqCst);
    assert_eq!(
        owner(&connection).branches().map(|branches| branches.len()),
        Ok(2)
    );
}
