//! The WebSocket as others speak it: a client and a server that somebody else wrote.

use crate::bytes::framed;
use crate::carrier::{Carrier, TOKEN, servers, well_served};
use crate::fake::{greeting, owner, patience};
use crate::samples::hello;
use crate::script::outcome;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tenure_wire::frame::FrameReader;
use tenure_wire::message::{Answer, Call, Hello, Request, Response, Welcome};
use tenure_wire::{Connection, HostPort, Room, ServerAddress};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Message, WebSocket};

/// Returns the payloads of the frames that stand in binary messages, as many as are asked for.
fn read(socket: &mut WebSocket<TcpStream>, count: usize) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if let Message::Binary(more) = socket.read().expect("the other end speaks") {
            bytes.extend_from_slice(&more);
        }
        let (mut frames, mut rest) = (FrameReader::new(1 << 20), &bytes[..]);
        let whole: Vec<_> = std::iter::from_fn(|| frames.next(&mut rest).ok().flatten()).collect();
        if whole.len() == count {
            return whole;
        }
    }
}

fn connect() -> (crate::carrier::Served, WebSocket<TcpStream>) {
    let served = well_served(Carrier::Plain);
    let ServerAddress::Plain(at) = &served.address else {
        panic!("it is a port");
    };
    let mut request = format!("ws://{at}/v1/drives/work/session")
        .into_client_request()
        .expect("it is an address");
    let token = format!("Bearer {TOKEN}").parse().expect("it is a header");
    request.headers_mut().insert("authorization", token);
    let stream = TcpStream::connect((&*at.host, at.port)).expect("somebody listens");
    let (socket, _) = tungstenite::client(request, stream).expect("it is let in");
    (served, socket)
}

fn greeting_of_one() -> Vec<u8> {
    framed(&[&Hello {
        sessions: Vec::new(),
        ..hello()
    }
    .written()])
}

#[test]
fn a_client_that_cuts_its_messages_otherwise_and_pings_between_them_is_understood() {
    let (_served, mut socket) = connect();
    let room = Call {
        number: 1,
        request: Request::Room,
    };
    let said = [greeting_of_one(), framed(&[&room.head()])].concat();
    let mut pieces: Vec<_> = said.chunks(13).map(<[u8]>::to_vec).collect();
    pieces.push(Vec::new());
    let last = pieces.len() - 1;
    for (number, piece) in pieces.into_iter().enumerate() {
        let data = if number == 0 { Data::Binary } else { Data::Continue };
        let piece = Frame::message(piece, OpCode::Data(data), number == last);
        socket.send(Message::Frame(piece)).expect("it is open");
        socket
            .send(Message::Ping(vec![number as u8].into()))
            .expect("it is open");
    }
    let answered = read(&mut socket, 2);
    assert_eq!(Welcome::parse(&answered[0]), Ok(Welcome::In));
    let answer = Answer::parse(&answered[1]).expect("it is an answer");
    assert_eq!(
        answer.outcome,
        Ok(Response::Room(Room {
            total: 1000,
            free: 10
        }))
    );
}

#[test]
fn a_ping_is_answered_with_its_words_and_a_close_with_a_close() {
    let (_served, mut socket) = connect();
    socket
        .send(Message::Ping(b"are you there"[..].into()))
        .expect("it is open");
    assert_eq!(
        socket.read().expect("it answers"),
        Message::Pong(b"are you there"[..].into())
    );
    socket.close(None).expect("it is open");
    // Until the close is answered and the connection has ended.
    let ended = std::iter::repeat_with(|| socket.read()).find_map(Result::err);
    assert!(
        matches!(ended, Some(tungstenite::Error::ConnectionClosed)),
        "{ended:?}"
    );
}

#[test]
fn what_no_client_of_drives_says_ends_the_connection() {
    let served_and_said: [fn(&mut WebSocket<TcpStream>); 3] = [
        |socket| drop(socket.send(Message::Text("words".into()))),
        |socket| {
            // It comes without a mask, which only a server may do.
            let bytes = greeting_of_one();
            let head = [0x82, u8::try_from(bytes.len()).expect("a greeting is short")];
            let _ = std::io::Write::write_all(socket.get_mut(), &[&head[..], &bytes].concat());
        },
        |socket| {
            let _ = std::io::Write::write_all(socket.get_mut(), &[0xc2, 0x80, 0, 0, 0, 0]);
        },
    ];
    for say in served_and_said {
        let (served, mut socket) = connect();
        say(&mut socket);
        assert!(std::iter::repeat_with(|| socket.read()).any(|read| read.is_err()));
        assert!(owner(&served.connect()).room().is_ok());
    }
}

#[test]
fn a_server_that_cuts_its_messages_otherwise_and_pings_between_them_is_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let port = listener.local_addr().expect("it is bound").port();
    let serves = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("it comes");
        let mut socket = tungstenite::accept(stream).expect("it asks for a WebSocket");
        let greeted = read(&mut socket, 1);
        assert!(Hello::parse(&greeted[0]).is_ok_and(|hello| hello.is_ok()));
        // Behind the greeting, and before its answer.
        socket.send(Message::Ping(b"who"[..].into())).expect("it is open");
        socket
            .send(Message::Binary(framed(&[&Welcome::In.written()]).into()))
            .expect("it is open");
        let mut frames = FrameReader::new(1 << 20);
        let mut call = None;
        let mut pongs = 0;
        while call.is_none() || pongs == 0 {
            match socket.read().expect("the client speaks") {
                Message::Binary(bytes) => call = frames.next(&mut &bytes[..]).expect("it is a frame"),
                Message::Pong(words) => {
                    assert_eq!(&words[..], b"who");
                    pongs += 1;
                }
                other @ (Message::Text(_) | Message::Ping(_) | Message::Close(_) | Message::Frame(_)) => {
                    panic!("{other:?}")
                }
            }
        }
        let call = call.expect("it was read");
        let call = Call::parse(&call).expect("it is a call");
        let answer = Answer {
            number: call.number,
            outcome: outcome(&call.request),
        };
        for byte in framed(&[&answer.head(), answer.tail()]) {
            socket
                .send(Message::Binary(vec![byte].into()))
                .expect("it is open");
            socket.send(Message::Pong(Vec::new().into())).expect("it is open");
        }
        // Until the client has gone.
        while socket.read().is_ok() {}
    });
    let at = HostPort {
        host: "127.0.0.1".into(),
        port,
    };
    let dial = Arc::new(servers(vec![ServerAddress::Plain(at)]));
    let connection = Connection::reach(dial, greeting(), patience()).expect("it is let in");
    assert_eq!(owner(&connection).room(), Ok(Room { total: 2, free: 1 }));
    drop(connection);
    serves.join().expect("it went as written");
}
