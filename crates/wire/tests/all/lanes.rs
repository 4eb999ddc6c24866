//! Nothing slow stands in front of a batch: every test here would hang if it did, because the slow thing is held.

use crate::bytes::framed;
use crate::calls::ship;
use crate::carrier::{Carrier, over_every_carrier, served, well_served};
use crate::fake::{limits, owner};
use crate::guests::greet;
use crate::samples::{address, batch, chunk, who};
use std::io::Write;
use std::sync::mpsc;
use tenure_model::{Address, Digest, PackNumber};
use tenure_wire::message::{Call, Request};

over_every_carrier!(
    a_bulk_transfer_that_is_stuck_delays_neither_a_batch_nor_a_page,
    pages_that_are_slow_to_load_delay_no_batch,
    batches_of_one_connection_are_shipped_in_the_order_in_which_they_came,
);

fn a_bulk_transfer_that_is_stuck_delays_neither_a_batch_nor_a_page(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    served.fake.hold("place");
    let bulk: Vec<_> = (0..64u8).map(|number| vec![number; 1 << 20]).collect();
    let chunks: Vec<_> = bulk.iter().map(|bytes| chunk(bytes)).collect();
    std::thread::scope(|scope| {
        let placed = scope.spawn(|| owner(&connection).place(session, &chunks));
        served.fake.wait_for("place", 4);
        assert!(ship(owner(&connection), batch(session, 1)).is_ok());
        assert!(owner(&connection).page(address(1)).is_ok());
        served.fake.let_go("place");
        assert_eq!(
            placed.join().expect("it is told").expect("they are placed").len(),
            64
        );
    });
}

fn pages_that_are_slow_to_load_delay_no_batch(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    served.fake.hold("page");
    std::thread::scope(|scope| {
        let pages: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| owner(&connection).page(address(1))))
            .collect();
        served.fake.wait_for("page", 16);
        assert!(ship(owner(&connection), batch(session, 1)).is_ok());
        served.fake.let_go("page");
        assert!(
            pages
                .into_iter()
                .all(|page| page.join().expect("it is told").is_ok())
        );
    });
}

#[test]
fn what_takes_long_delays_neither_a_batch_nor_what_is_short() {
    let served = served(limits());
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    ["check", "control", "branches"]
        .into_iter()
        .for_each(|kind| served.fake.hold(kind));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| owner(&connection).check(false));
            scope.spawn(|| connection.control("echo", b"", crate::fake::LONG));
            scope.spawn(|| owner(&connection).branches());
        }
        served.fake.wait_for("check", 2);
        served.fake.wait_for("control", 3);
        served.fake.wait_for("branches", 3);
        assert!(ship(owner(&connection), batch(session, 1)).is_ok());
        assert!(owner(&connection).room().is_ok());
        ["check", "control", "branches"]
            .into_iter()
            .for_each(|kind| served.fake.let_go(kind));
    });
}

fn batches_of_one_connection_are_shipped_in_the_order_in_which_they_came(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let (send, told) = mpsc::channel();
    for number in 1..=50 {
        let send = send.clone();
        owner(&connection).ship(
            batch(session, number),
            None,
            Box::new(move |shipped| drop(send.send(shipped))),
        );
    }
    // Out of order one would be refused.
    (0..50).for_each(|_| assert!(told.recv().expect("it is told").is_ok()));
    assert_eq!(served.fake.count("ship"), 50);
}

#[test]
fn a_client_that_reads_no_answers_holds_up_no_other() {
    let served = served(limits());
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let long = vec![7; 1 << 20];
    owner(&connection)
        .place(session, &[chunk(&long)])
        .expect("it is placed");
    let at = Address {
        pack: PackNumber(7),
        digest: Digest::of(&long),
    };
    let (mut deaf, _) = greet(&served);
    for number in 0..64 {
        let call = Call {
            number,
            request: Request::Read {
                at,
                start: 0,
                len: 1 << 20,
            },
        };
        deaf.write_all(&framed(&[&call.head()])).expect("somebody reads");
    }
    served.fake.wait_for("read", 64);
    for _ in 0..64 {
        let mut out = vec![0; 1 << 20];
        owner(&connection).read(at, 0, &mut out).expect("it is read");
        assert_eq!(out, long);
    }
}
