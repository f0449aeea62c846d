//! Hostile bytes: random, and valid conversations with bytes changed, cut, doubled and moved.

use super::*;
use crate::proto::wire::{GREETING, MAX_OPTION, OPTION, cmd, info};
use esker_base::Stream;

/// A conversation that uses every option and command.
fn conversation(structured: bool) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(encode(opt::LIST, &[]));
    bytes.extend(encode(opt::INFO, &go("rom", &[info::NAME, info::BLOCK_SIZE])));
    bytes.extend(encode(opt::STARTTLS, &[]));
    if structured {
        bytes.extend(encode(opt::STRUCTURED_REPLY, &[]));
        bytes.extend(encode(opt::LIST_META_CONTEXT, &contexts("disk", &["base:"])));
        bytes.extend(encode(opt::SET_META_CONTEXT, &contexts("disk", &["base:allocation", "qemu:x"])));
    }
    bytes.extend(encode(opt::GO, &go("disk", &[info::DESCRIPTION])));
    for command in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES, cmd::BLOCK_STATUS] {
        bytes.extend(request(command, 0, 1024, 512));
        if command == cmd::WRITE {
            bytes.extend([0xaa; 512]);
        }
    }
    bytes.extend(request(cmd::FLUSH, 0, 0, 0));
    bytes.extend(Replies::goodbye());
    bytes
}

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
    assert_eq!(feed_checked(&conversation(true), &mut rng), 6);
    assert_eq!(feed_checked(&conversation(false), &mut rng), 5, "no block status without structured replies");
}

#[test]
fn changed_conversations_never_panic_or_break_bounds() {
    let mut rng = Stream::named(2, "fuzz");
    let (mut served, rounds) = (0, 40_000);
    for round in 0..rounds {
        let mut bytes = conversation(round % 2 == 0);
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
        let valid = conversation(true);
        let keep = if round % 2 == 0 { 0 } else { rng.below(valid.len() as u64) as usize };
        feed_checked(&[&valid[..keep], &junk].concat(), &mut rng);
    }
}

/// What a server sends to a client that shakes hands and reads, writes and asks for status.
fn server_talk() -> Vec<u8> {
    let range = esker_base::ByteRange::new(0, 1024).unwrap();
    let terms = Terms { structured: true, allocation: true };
    let mut session = haggling();
    let mut bytes = Vec::new();
    bytes.u64(GREETING).u64(OPTION).u16(3);
    let options = [
        encode(opt::STRUCTURED_REPLY, &[]),
        encode(opt::SET_META_CONTEXT, &contexts("disk", &["base:allocation"])),
        encode(opt::GO, &go("disk", &[info::BLOCK_SIZE, info::NAME, info::DESCRIPTION])),
    ];
    for event in options.iter().flat_map(|o| session.feed(o)) {
        if let Event::Sent(reply) = event {
            bytes.extend(reply);
        }
    }
    let (first, second) = (esker_base::ByteRange::new(0, 512).unwrap(), esker_base::ByteRange::new(512, 512).unwrap());
    let heads = terms.parts(0, &[Part { range: first, hole: false }, Part { range: second, hole: true }]);
    bytes.extend([&heads[0][..], &[1; 512], &heads[1]].concat());
    bytes.extend(terms.done(1));
    bytes.extend(terms.status(2, range, false, &[Extent { len: 1024, hole: true, zero: true }]));
    bytes.extend(terms.failed(3, &Failure { at: Some(512), ..Failure::new(Errno::Io, "broken") }));
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
            Err(_) => return (0, true),
        }
    };
    let range = esker_base::ByteRange::new(0, 1024).unwrap();
    let mut replies = Replies::new(&remote);
    let ops = [
        Op::Read { range, whole: false },
        Op::Write { range, fua: true },
        Op::BlockStatus { range, one: false },
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
    assert_eq!(hear(&server_talk()), (4, false));
    let mut rng = Stream::named(4, "fuzz");
    let mut given_up = 0;
    for _ in 0..40_000 {
        let mut bytes = server_talk();
        mutate(&mut bytes, &mut rng);
        given_up += usize::from(hear(&bytes).1);
    }
    assert!(given_up > 10_000, "most changes must be noticed: {given_up}");
}
