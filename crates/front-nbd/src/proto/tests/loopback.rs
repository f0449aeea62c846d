//! The client's machine against the server's, over a device in memory and a model of it.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::proto::option::OptionReply;
use crate::proto::wire::rep;
use esker_base::ByteRange;
use proptest::prelude::*;

/// A server with its device, as bytes in and bytes out.
struct Server {
    feeder: Feeder,
    terms: Terms,
    disk: Vec<u8>,
    /// Bytes on their way.
    to_client: VecDeque<u8>,
}

impl Server {
    fn new() -> Server {
        let to_client = Session::greeting().into();
        Server { feeder: new_session(), terms: Terms::default(), disk: vec![0; 1 << 20], to_client }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.to_client.extend(bytes);
    }

    /// Takes the client's bytes; the payload of a write is what follows its header.
    fn take(&mut self, bytes: &[u8], payload: &[u8]) {
        for event in self.feeder.feed(bytes) {
            match event {
                Event::Sent(bytes) => self.send(bytes),
                Event::Began { terms, .. } => self.terms = terms,
                Event::Serve(request) => self.serve(request, payload),
                other => panic!("{other:?}"),
            }
        }
        let rest = self.feeder.feed(payload);
        assert!(rest.iter().all(|e| matches!(e, Event::Payload(_))), "{rest:?}");
    }

    fn serve(&mut self, request: Request, payload: &[u8]) {
        let (to, op) = (request.reply_to(), request.op);
        let at = |range: ByteRange| range.start() as usize..range.end() as usize;
        match op {
            Op::Read { range, whole } => return self.read(to, range, whole),
            Op::Write { range, .. } => self.disk[at(range)].copy_from_slice(payload),
            Op::WriteZeroes { range, .. } | Op::Trim { range, .. } => self.disk[at(range)].fill(0),
            Op::Flush | Op::Cache { .. } | Op::Resize { .. } => {}
            Op::BlockStatus { range, one, contexts } => {
                let known =
                    |context| (context, if context == Context::Allocation { self.extents(range) } else { vec![] });
                let statuses: Statuses = contexts.iter().map(known).collect();
                return self.send(self.terms.status(to, range, one, &statuses));
            }
        }
        self.send(self.terms.done(to));
    }

    fn extents(&self, range: ByteRange) -> Vec<Extent> {
        let empty = |sector: &[u8]| sector.iter().all(|b| *b == 0);
        let sectors = self.disk[range.start() as usize..range.end() as usize].chunks(512);
        sectors.map(|s| Extent::allocation(512, empty(s), empty(s))).collect()
    }

    fn read(&mut self, to: ReplyTo, range: ByteRange, whole: bool) {
        if whole || self.terms.form == Form::Simple {
            self.send(self.terms.data(to, range));
            return self.send_bytes(range);
        }
        let pieces = range.split_at_multiples(512).zip(self.extents(range));
        let parts: Vec<ReadChunk> = pieces.map(|(range, e)| ReadChunk { range, hole: e.zero() }).collect();
        for (head, part) in self.terms.parts(to, &parts).into_iter().zip(&parts) {
            self.send(head);
            if !part.hole {
                self.send_bytes(part.range);
            }
        }
    }

    fn send_bytes(&mut self, range: ByteRange) {
        self.to_client.extend(&self.disk[range.start() as usize..range.end() as usize]);
    }

    /// The next bytes for the client.
    fn give(&mut self, len: usize) -> Vec<u8> {
        assert!(self.to_client.len() >= len, "the client waits for {len} bytes that were never sent");
        self.to_client.drain(..len).collect()
    }
}

fn shake(server: &mut Server, name: &str) -> Result<Remote, ClientError> {
    let mut handshake = Handshake::new(name).unwrap();
    while let Need::Message(len) = handshake.need() {
        match handshake.message(&server.give(len))? {
            HandshakeStep::Ready(remote) => return Ok(remote),
            HandshakeStep::Send(bytes) => server.take(&bytes, &[]),
            HandshakeStep::Secure => panic!("the client asked for no TLS"),
        }
    }
    unreachable!("a handshake ends with an answer")
}

/// Asks, serves, and hears the whole answer; reads return their bytes.
fn ask(server: &mut Server, replies: &mut Replies, op: Op, payload: &[u8]) -> (Vec<u8>, Result<Answer, Failure>) {
    let header = replies.ask(Request { cookie: 42, op }).expect("the cookie is free");
    server.take(&header, payload);
    let mut read = BTreeMap::new();
    loop {
        let heard = match replies.need() {
            Need::Message(len) => replies.message(&server.give(len)),
            Need::Payload(_) => replies.taken(),
            need => panic!("{need:?}"),
        };
        match heard.unwrap() {
            Heard::More => {}
            Heard::Data { range, .. } => {
                read.insert(range.start(), server.give(range.len() as usize));
            }
            Heard::Done { result, .. } => {
                let holes = result.iter().flat_map(|answer| &answer.holes);
                read.extend(holes.map(|hole| (hole.start(), vec![0; hole.len() as usize])));
                assert!(server.to_client.is_empty(), "bytes are left over");
                return (read.into_values().flatten().collect(), result);
            }
        }
    }
}

#[test]
fn a_handshake_learns_all_about_an_export() {
    let remote = shake(&mut Server::new(), "disk").unwrap();
    assert_eq!((remote.size, remote.blocks), (1 << 20, Some((512, 4096, 32 << 20))));
    assert_eq!((remote.name.as_deref(), remote.description.as_deref()), (Some("disk"), Some("a disk")));
    assert_eq!(remote.terms, Terms { form: Form::Extended, contexts: Context::ALL.into_iter().collect() });
    let rom = shake(&mut Server::new(), "rom").unwrap();
    assert!(rom.read_only() && rom.terms.contexts.is_empty());
}

#[test]
fn a_handshake_says_why_it_failed() {
    let error = shake(&mut Server::new(), "nope").unwrap_err();
    assert!(matches!(&error, ClientError::Refused { kind: rep::ERR_UNKNOWN, .. }), "{error}");
    assert!(error.to_string().contains("no export is named \"nope\""), "{error}");
    assert!(Handshake::new("a\0").is_err());
    let web = Handshake::new("a").unwrap().message(b"HTTP/1.1 400 Bad R");
    assert!(matches!(web, Err(ClientError::Greeting(..))));
}

#[test]
fn a_cookie_in_use_is_not_given_twice() {
    let mut replies = Replies::new(&Remote::default());
    let request = Request { cookie: 1, op: Op::Flush };
    assert!(replies.ask(request).is_some());
    assert!(replies.ask(request).is_none());
}

/// One operation of a random load; sectors of 512 bytes.
fn ops() -> impl Strategy<Value = (u8, u64, u64, u8)> {
    (0u8..7, 0u64..2040, 1u64..8, 1u8..255)
}

fn forms() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Simple), Just(Form::Structured), Just(Form::Extended)]
}

/// A handshake in which the server has never heard of longer forms than `form`.
fn shake_for(server: &mut Server, form: Form) -> Remote {
    let unknown: &[u32] = match form {
        Form::Extended => &[],
        Form::Structured => &[opt::EXTENDED_HEADERS],
        Form::Simple => &[opt::EXTENDED_HEADERS, opt::STRUCTURED_REPLY],
    };
    let mut handshake = Handshake::new("disk").unwrap();
    while let Need::Message(len) = handshake.need() {
        match handshake.message(&server.give(len)).unwrap() {
            HandshakeStep::Ready(remote) => return remote,
            HandshakeStep::Send(bytes) => match unknown.iter().find(|option| bytes.ends_with(&encode(**option, &[]))) {
                Some(option) => {
                    server.take(&bytes[..bytes.len() - 16], &[]);
                    server.send(OptionReply::to(*option).error(rep::ERR_UNSUP, "unheard of"));
                }
                None => server.take(&bytes, &[]),
            },
            HandshakeStep::Secure => panic!("the client asked for no TLS"),
        }
    }
    unreachable!("a handshake ends with an answer")
}

proptest! {
    #[test]
    fn a_random_load_reads_what_it_wrote(load in proptest::collection::vec(ops(), 1..60), form in forms()) {
        let mut server = Server::new();
        let remote = shake_for(&mut server, form);
        let structured = form != Form::Simple;
        let mut replies = Replies::new(&remote);
        let mut model = vec![0u8; 1 << 20];
        for (kind, sector, count, fill) in load {
            let range = ByteRange::new(sector * 512, count * 512).unwrap();
            let place = range.start() as usize..range.end() as usize;
            let (op, payload) = match kind {
                0 | 1 => (Op::Write { range, fua: kind == 1 }, vec![fill; place.len()]),
                2 => (Op::WriteZeroes { range, fua: false, no_hole: false, fast: false }, vec![]),
                3 => (Op::Trim { range, fua: false }, vec![]),
                4 if fill % 2 == 0 => (Op::Cache { range }, vec![]),
                4 => (Op::Flush, vec![]),
                5 if structured => (Op::BlockStatus { range, one: fill % 2 == 0, contexts: allocation() }, vec![]),
                // Without structured replies the flag for one whole chunk is not offered.
                _ => (Op::Read { range, whole: structured && fill % 2 == 0 }, vec![]),
            };
            let (read, result) = ask(&mut server, &mut replies, op, &payload);
            let answer = result.unwrap();
            match op {
                Op::Write { .. } => model[place].copy_from_slice(&payload),
                Op::WriteZeroes { .. } | Op::Trim { .. } => model[place].fill(0),
                Op::Read { .. } => prop_assert_eq!(&read, &model[place]),
                Op::BlockStatus { .. } => {
                    let zero = model[place.start..place.start + 512].iter().all(|b| *b == 0);
                    prop_assert_eq!(answer.status(Context::Allocation).unwrap()[0].zero(), zero);
                }
                Op::Flush | Op::Cache { .. } | Op::Resize { .. } => {}
            }
        }
    }
}
