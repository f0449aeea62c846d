//! Hostile bytes: random, and valid conversations with bytes changed, cut, doubled and moved.

use super::*;
use crate::proto::option::OptionReply;
use crate::proto::wire::{GREETING, MAX_OPTION, OPTION, cmd, cmd_flag, info, rep};
use esker_base::Stream;

/// A conversation that uses every option and command.
fn conversation(form: Form) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(encode(opt::LIST, &[]));
    bytes.extend(encode(opt::INFO, &go("rom", &[info::NAME, info::BLOCK_SIZE])));
    bytes.extend(encode(opt::STARTTLS, &[]));
    if form != Form::Simple {
        let option = if form == Form::Extended { opt::EXTENDED_HEADERS } else { opt::STRUCTURED_REPLY };
        bytes.extend(encode(option, &[]));
        bytes.extend(encode(opt::LIST_META_CONTEXT, &contexts("disk", &["base:"])));
        bytes.extend(encode(opt::SET_META_CONTEXT, &contexts("disk", &["base:allocation", "qemu:x"])));
    }
    bytes.extend(encode(opt::GO, &go("disk", &[info::DESCRIPTION])));
    for command in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES, cmd::BLOCK_STATUS] {
        let flags = if form == Form::Extended && command == cmd::WRITE { cmd_flag::PAYLOAD_LEN } else { 0 };
        bytes.extend(Header { flags, command, cookie: 7, offset: 1024, len: 512 }.encode(form));
        if command == cmd::WRITE {
            bytes.extend([0xaa; 512]);
        }
    }
    if form == Form::Extended {
        bytes.extend(long_request(cmd::BLOCK_STATUS, cmd_flag::PAYLOAD_LEN, 0, 12));
        bytes.u64(1024).u32(Context::Allocation.id());
    }
    bytes.extend(Header { flags: 0, command: cmd::FLUSH, cookie: 7, offset: 0, len: 0 }.encode(form));
    bytes.extend(Replies::goodbye(form));
    bytes
}

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

fn mutate(bytes: &mut Vec<u8>, rng: &mut Stream) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        let len = rng.below(40) as usize;
        let end = (at + len).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let mut junk = vec![0; len];
                rng.fill(&mut junk);
                bytes.splice(at..at, junk);
            }
        }
    }
}

/// Feeds `bytes` in random pieces; checks bounds at each step and that what is served keeps the rules.
fn feed_checked(bytes: &[u8], rng: &mut Stream) -> usize {
    let mut feeder = new_session();
    let (mut at, mut served) = (0, 0);
    while at < bytes.len() {
        let end = (at + 1 + rng.below(100) as usize).min(bytes.len());
        let events = feeder.feed(&bytes[at..end]);
        assert!(feeder.held() <= MAX_OPTION as usize);
        let sent: usize = events.iter().map(|e| if let Event::Sent(b) = e { b.len() } else { 0 }).sum();
        assert!(sent <= (end - at) * 5000, "{sent} bytes answer {} bytes", end - at);
        for event in events {
            if let Event::Serve(Request { op, .. }) = event {
                let inside = op.range().is_none_or(|r| r.end() <= 1 << 20 && !r.is_empty() && r.is_aligned(512));
                assert!(inside, "{op:?}");
                served += 1;
            }
        }
        at = end;
    }
    served
}

#[test]
fn the_valid_conversations_serve_every_command() {
    let mut rng = Stream::named(1, "fuzz");
    assert_eq!(feed_checked(&conversation(Form::Extended), &mut rng), 8);
    assert_eq!(feed_checked(&conversation(Form::Structured), &mut rng), 7);
    assert_eq!(feed_checked(&conversation(Form::Simple), &mut rng), 6, "no block status without structured replies");
}

#[test]
fn changed_conversations_never_panic_or_break_bounds() {
    let mut rng = Stream::named(2, "fuzz");
    let (mut served, rounds) = (0, 40_000);
    for round in 0..rounds {
        let mut bytes = conversation(FORMS[round % 3]);
        mutate(&mut bytes, &mut rng);
        served += feed_checked(&bytes, &mut rng);
    }
    assert!(served > rounds, "changes must leave enough of a conversation alive: {served} requests");
}

#[test]
fn random_bytes_never_panic_in_any_phase() {
    let mut rng = Stream::named(3, "fuzz");
    for round in 0..20_000 {
        let mut junk = vec![0; 1 + rng.below(300) as usize];
        rng.fill(&mut junk);
        // Most junk dies at the first magic, so half of the rounds begin behind valid bytes.
        let valid = conversation(FORMS[round / 2 % 3]);
        let keep = if round % 2 == 0 { 0 } else { rng.below(valid.len() as u64) as usize };
        feed_checked(&[&valid[..keep], &junk].concat(), &mut rng);
    }
}

/// What a server sends to a client that shakes hands and reads, writes and asks for status.
fn server_talk(form: Form) -> Vec<u8> {
    let range = esker_base::ByteRange::new(0, 1024).unwrap();
    let terms = Terms { form, contexts: Context::ALL.into_iter().collect() };
    let mut session = haggling();
    let mut bytes = Vec::new();
    bytes.u64(GREETING).u64(OPTION).u16(3);
    let mut options = vec![encode(opt::EXTENDED_HEADERS, &[])];
    if form != Form::Extended {
        // As a server that has never heard of it.
        bytes.extend(OptionReply::to(opt::EXTENDED_HEADERS).error(rep::ERR_UNSUP, "no"));
        options = vec![encode(opt::STRUCTURED_REPLY, &[])];
    }
    options.push(encode(opt::SET_META_CONTEXT, &contexts("disk", &Context::ALL.map(Context::name))));
    options.push(encode(opt::GO, &go("disk", &[info::BLOCK_SIZE, info::NAME, info::DESCRIPTION])));
    for event in options.iter().flat_map(|o| session.feed(o)) {
        if let Event::Sent(reply) = event {
            bytes.extend(reply);
        }
    }
    let (first, second) = (esker_base::ByteRange::new(0, 512).unwrap(), esker_base::ByteRange::new(512, 512).unwrap());
    let to = |cookie, offset| ReplyTo { cookie, offset };
    let heads =
        terms.parts(to(0, 0), &[ReadChunk { range: first, hole: false }, ReadChunk { range: second, hole: true }]);
    bytes.extend([&heads[0][..], &[1; 512], &heads[1]].concat());
    bytes.extend(terms.done(to(1, 0)));
    let extent = |flags| vec![Extent { len: 1024, flags }];
    let statuses = [(Context::Allocation, extent(3)), (Context::Written, extent(0))];
    bytes.extend(terms.status(to(2, 0), range, false, &statuses));
    bytes.extend(terms.failed(to(3, 0), &Failure { at: Some(512), ..Failure::new(Errno::Io, "broken") }));
    bytes
}

/// How many requests a client sees end, and whether it gave up on the server.
fn hear(bytes: &[u8]) -> (usize, bool) {
    let mut at = 0;
    let mut next = |len: usize| {
        let piece = bytes.get(at..at + len);
        at += len;
        piece
    };
    let mut handshake = Handshake::new("disk").unwrap();
    let remote = loop {
        let Need::Message(len) = handshake.need() else { return (0, true) };
        let Some(piece) = next(len) else { return (0, false) };
        match handshake.message(piece) {
            Ok(HandshakeStep::Ready(remote)) => break remote,
            Ok(HandshakeStep::Send(_)) => {}
            Ok(HandshakeStep::Secure) | Err(_) => return (0, true),
        }
    };
    let range = esker_base::ByteRange::new(0, 1024).unwrap();
    let mut replies = Replies::new(&remote);
    let ops = [
        Op::Read { range, whole: false },
        Op::Write { range, fua: true },
        Op::BlockStatus { range, one: false, contexts: Contexts::default() },
        Op::Read { range, whole: true },
    ];
    ops.into_iter().enumerate().for_each(|(i, op)| assert!(replies.ask(Request { cookie: i as u64, op }).is_some()));
    let mut done = 0;
    loop {
        let heard = match replies.need() {
            Need::Message(len) => match next(len) {
                Some(piece) => replies.message(piece),
                None => return (done, false),
            },
            Need::Payload(len) => {
                assert!(len <= 1024, "{len} bytes for a read of 1024");
                next(len);
                replies.taken()
            }
            _ => return (done, true),
        };
        match heard {
            Ok(heard) => done += usize::from(matches!(heard, Heard::Done { .. })),
            Err(_) => return (done, true),
        }
    }
}

#[test]
fn a_client_never_panics_on_a_broken_server() {
    for form in [Form::Structured, Form::Extended] {
        assert_eq!(hear(&server_talk(form)), (4, false), "{form:?}");
    }
    let mut rng = Stream::named(4, "fuzz");
    let mut given_up = 0;
    for round in 0..40_000 {
        let mut bytes = server_talk(if round % 2 == 0 { Form::Structured } else { Form::Extended });
        mutate(&mut bytes, &mut rng);
        given_up += usize::from(hear(&bytes).1);
    }
    assert!(given_up > 10_000, "most changes must be noticed: {given_up}");
}
