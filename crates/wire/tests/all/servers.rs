//! Several servers: a client finds the owner of its drive, whichever it is given, and is sent nowhere that is less safe.

use crate::calls::ship;
use crate::carrier::{Carrier, dialling_to, over_every_carrier, serve_behind, servers, well_served};
use crate::fake::{Fake, Here, greeting, limits, owner, patience};
use crate::mend::is_not_done;
use crate::samples::{batch, chunk, who};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use tenure_model::{DriveName, Failure, Refusal};
use tenure_wire::{
    Connection, Dialer, Door, Error, Host, HostPort, Owner, ServerAddress, Service, Unencrypted, Whereabouts,
    serve,
};

/// Knows who owns every drive, and owns none.
struct Signpost(OnceLock<ServerAddress>);

impl Host<Here> for Signpost {
    fn drive(&self, _: &DriveName) -> Result<Whereabouts<Here>, Error> {
        let there = self.0.get().cloned();
        there
            .map(Whereabouts::Elsewhere)
            .ok_or_else(|| Failure::DidNotHappen("nobody owns it yet".into()).into())
    }

    fn control(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, Error> {
        Err(Refusal::NotSupported.into())
    }
}

/// A server that sends everybody elsewhere.
struct Sending {
    post: Arc<Signpost>,
    address: ServerAddress,
    _service: Service,
    _directory: tempfile::TempDir,
}

fn sending(carrier: Carrier) -> Sending {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let (door, address) = carrier.listen(&directory.path().join("socket"));
    let post = Arc::new(Signpost(OnceLock::new()));
    let service = serve([door], post.clone(), limits()).expect("there are threads");
    Sending {
        post,
        address,
        _service: service,
        _directory: directory,
    }
}

impl Sending {
    fn to(&self, address: &ServerAddress) {
        self.post.0.set(address.clone()).expect("it is said once");
    }
}

fn reach(addresses: Vec<ServerAddress>) -> Result<Connection, Error> {
    Connection::reach(Arc::new(servers(addresses)), greeting(), patience())
}

/// Returns an address at which nobody listens.
fn nowhere() -> ServerAddress {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there are ports");
    ServerAddress::Tls(HostPort {
        host: "127.0.0.1".into(),
        port: listener.local_addr().expect("it is bound").port(),
    })
}

over_every_carrier!(
    who_asks_another_server_is_sent_to_the_owner,
    servers_that_send_each_others_clients_round_are_left_within_a_bound,
    an_owner_that_was_deposed_is_left_for_the_next_one_and_the_client_asks_there_again,
);

/// A server that has owned the drive, was deposed, and owns it again.
struct Succession(Mutex<Vec<Arc<Fake>>>);

impl Host<Here> for Succession {
    fn drive(&self, _: &DriveName) -> Result<Whereabouts<Here>, Error> {
        let mut owners = self.0.lock();
        if owners[0].is_deposed() {
            owners.remove(0);
        }
        Ok(Whereabouts::Here(owners[0].clone()))
    }

    fn control(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, Error> {
        Err(Refusal::NotSupported.into())
    }
}

fn an_owner_that_was_deposed_is_left_for_the_next_one_and_the_client_asks_there_again(carrier: Carrier) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let (door, address) = carrier.listen(&directory.path().join("socket"));
    let first = Arc::<Fake>::default();
    let session = first.open(&who()).expect("it is opened").session;
    let next = Fake::after(&first);
    let owners = Arc::new(Succession(Mutex::new(vec![first.clone(), next.clone()])));
    let _service = serve([door], owners, limits()).expect("there are threads");
    let connection = Connection::reach(dialling_to(&address), greeting(), patience()).expect("it is there");
    assert!(owner(&connection).room().is_ok());
    first.depose();
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    assert!(owner(&connection).place(session, &[chunk(b"bytes")]).is_ok());
    assert!(owner(&connection).page(crate::samples::address(1)).is_ok());
    assert!(owner(&connection).branches().is_ok());
    assert_eq!((first.count("branches"), next.count("ship")), (0, 1));
}

fn who_asks_another_server_is_sent_to_the_owner(carrier: Carrier) {
    let (served, first, second) = (well_served(carrier), sending(carrier), sending(carrier));
    first.to(&second.address);
    second.to(&served.address);
    let connection = reach(vec![first.address.clone()]).expect("it is found");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    assert!(owner(&connection).page(crate::samples::address(1)).is_ok());
}

fn servers_that_send_each_others_clients_round_are_left_within_a_bound(carrier: Carrier) {
    let (first, second) = (sending(carrier), sending(carrier));
    first.to(&second.address);
    second.to(&first.address);
    let reached = reach(vec![first.address.clone(), second.address.clone()]).map(drop);
    assert!(is_not_done(&reached), "{reached:?}");
    assert!(
        format!("{reached:?}").contains("send this client round"),
        "{reached:?}"
    );
}

#[test]
fn a_server_that_is_not_there_is_passed_over() {
    let served = well_served(Carrier::Tls);
    let connection = reach(vec![nowhere(), served.address.clone()]).expect("the second is there");
    assert!(owner(&connection).room().is_ok());
    let reached = reach(vec![nowhere(), nowhere()]).map(drop);
    assert!(is_not_done(&reached), "{reached:?}");
    assert!(format!("{reached:?}").matches("nobody listens there").count() == 2);
}

#[test]
fn a_server_that_cannot_answer_for_the_drive_is_not_asked_for_ever() {
    let (cannot, served) = (sending(Carrier::Tls), well_served(Carrier::Tls));
    let servers = Arc::new(servers(vec![cannot.address.clone(), served.address.clone()]));
    let reach = || Connection::reach(servers.clone(), greeting(), patience());
    let first = reach().map(drop);
    assert!(is_not_done(&first), "{first:?}");
    assert!(owner(&reach().expect("the other is asked next")).room().is_ok());
}

#[test]
fn the_owner_is_found_at_another_server_when_its_own_has_stopped() {
    let first = well_served(Carrier::Tls);
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let (door, address) = Carrier::Tls.listen(&directory.path().join("socket"));
    let connection = reach(vec![first.address.clone(), address]).expect("the first is there");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    first.service.stop();
    let fake = Fake::after(&first.fake);
    let _second = serve_behind(door, &fake, limits());
    assert!(ship(owner(&connection), batch(session, 2)).is_ok());
    assert_eq!(fake.begun()[0], format!("renew {session}"));
}

/// A server that was given another bucket answers for another drive of the same name: nothing of the first goes there.
#[test]
fn another_drive_of_the_same_name_is_not_taken_for_the_one_before() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let path = directory.path().join("socket");
    let (door, address) = Carrier::Unix.listen(&path);
    let first = Arc::new(Fake::default());
    let service = serve_behind(door, &first, limits());
    let clock = Arc::new(crate::fake::Hand::default());
    let patience = tenure_wire::Patience {
        clock: clock.clone(),
        ..patience()
    };
    let connection = Connection::reach(dialling_to(&address), greeting(), patience).expect("it is served");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let lent = owner(&connection).lend(session, "main", tenure_wire::Access::Exclusive);
    assert!(lent.is_ok(), "{lent:?}");
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    service.stop();

    let other = Fake::born(1);
    let service = serve_behind(crate::carrier::again(&address), &other, limits());
    let shipped = ship(owner(&connection), batch(session, 2));
    assert!(
        format!("{shipped:?}").contains("is another drive than the work"),
        "{shipped:?}"
    );
    assert!(owner(&connection).page(crate::samples::address(1)).is_err());
    assert!(other.begun().is_empty(), "{:?}", other.begun());
    service.stop();

    let next = Fake::after(&first);
    let _service = serve_behind(crate::carrier::again(&address), &next, limits());
    clock.advance(std::time::Duration::from_secs(2));
    assert!(
        ship(owner(&connection), batch(session, 2)).is_ok(),
        "it is the first again"
    );
}

#[test]
fn a_client_is_sent_nowhere_that_is_less_safe() {
    let there = well_served(Carrier::Plain);
    let sending = sending(Carrier::Tls);
    sending.to(&there.address);
    let reached = reach(vec![sending.address.clone()]).map(drop);
    assert!(
        matches!(&reached, Err(Error::Refused(Refusal::Because(why))) if why.contains("another kind of address")),
        "{reached:?}"
    );
    assert!(there.fake.begun().is_empty());
}

/// The owner may come to where the client can reach it: it asks again.
#[test]
fn who_has_come_by_the_network_is_sent_to_no_socket_of_the_servers_machine() {
    let there = well_served(Carrier::Unix);
    for carrier in [Carrier::Plain, Carrier::Tls] {
        let sending = sending(carrier);
        sending.to(&there.address);
        let reached = reach(vec![sending.address.clone()]).map(drop);
        assert!(is_not_done(&reached), "{reached:?}");
        assert!(
            format!("{reached:?}").contains("answers there alone"),
            "{reached:?}"
        );
    }
    assert!(there.fake.begun().is_empty());
}

#[test]
fn a_client_that_knows_one_server_tells_where_it_was_sent() {
    let sending = sending(Carrier::Unix);
    sending.to(&"https://elsewhere.example:7430"
        .parse()
        .expect("it is an address"));
    let reached = Connection::reach(dialling_to(&sending.address), greeting(), patience()).map(drop);
    assert!(
        matches!(&reached, Err(Error::Refused(Refusal::Because(why))) if why.contains("https://elsewhere.example:7430")),
        "{reached:?}"
    );
}

#[test]
fn what_is_not_encrypted_stays_on_this_machine_unless_asked_for() {
    // An address of documentation (RFC 5737), which nobody has.
    let far: ServerAddress = "http://192.0.2.1:7430".parse().expect("it is an address");
    let refused = servers(vec![far]).dial().map(drop);
    assert!(
        matches!(&refused, Err(Error::Refused(Refusal::Because(why))) if why.contains("nothing would be encrypted")),
        "{refused:?}"
    );
    let served = well_served(Carrier::Plain);
    let asked = servers(vec![served.address.clone()]).with_unencrypted(Unencrypted::Anywhere);
    assert!(asked.dial().is_ok());
}

#[test]
fn one_process_serves_a_socket_and_a_port() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let doors = [Carrier::Unix, Carrier::Plain, Carrier::Tls]
        .map(|carrier| carrier.listen(&directory.path().join("socket")));
    let addresses: Vec<_> = doors.iter().map(|(_, address)| address.clone()).collect();
    let fake = Arc::new(Fake::default());
    let doors: Vec<Door> = doors.into_iter().map(|(door, _)| door).collect();
    let service =
        serve(doors, Arc::new(crate::fake::Hosting(fake.clone())), limits()).expect("there are threads");
    for address in addresses {
        assert!(owner(&reach(vec![address]).expect("it is served")).room().is_ok());
    }
    assert_eq!(fake.count("room"), 3);
    service.stop();
}

#[test]
fn a_session_comes_back_over_another_carrier() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let (socket, at_socket) = Carrier::Unix.listen(&directory.path().join("socket"));
    let (port, at_port) = Carrier::Tls.listen(directory.path());
    let fake = Arc::new(Fake::default());
    let by_port = serve_behind(port, &fake, limits());
    let connection = reach(vec![at_port, at_socket]).expect("it is served");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    by_port.stop();
    let next = Fake::after(&fake);
    let _by_socket = serve_behind(socket, &next, limits());
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    assert_eq!(next.count(&format!("renew {session}")), 1);
}
