//! Requests of the transmission phase: what is accepted and how the rest is refused.

use super::*;
use crate::proto::wire::{CHUNK, MAX_PAYLOAD, SIMPLE_REPLY, chunk, cmd, cmd_flag};
use esker_base::ByteRange;

fn r(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

fn served(feeder: &mut Feeder, bytes: &[u8]) -> Op {
    let events = feeder.feed(bytes);
    let [Event::Serve(Request { cookie: 7, op })] = events[..] else { panic!("{events:?}") };
    op
}

#[test]
fn a_cache_hint_that_would_do_nothing_is_refused() {
    assert_eq!(refused(&mut serving("rom", true), &request(cmd::CACHE, 0, 0, 4096)), Errno::Inval);
    let mut disk = serving("disk", true);
    assert_eq!(refused(&mut disk, &request(cmd::CACHE, cmd_flag::DF, 0, 512)), Errno::Inval, "no flag goes with it");
}

/// The error code of the reply to a request that is refused.
fn refused(feeder: &mut Feeder, bytes: &[u8]) -> Errno {
    let events = feeder.feed(bytes);
    let [Event::Sent(reply)] = &events[..] else { panic!("{events:?}") };
    let mut r = Reader::new(reply);
    let code = match r.be_u32().unwrap() {
        SIMPLE_REPLY => r.be_u32().unwrap(),
        CHUNK => {
            assert_eq!((r.be_u16().unwrap(), r.be_u16().unwrap()), (chunk::DONE, chunk::ERROR));
            assert_eq!(r.be_u64().unwrap(), 7);
            r.be_u32().unwrap();
            r.be_u32().unwrap()
        }
        magic => panic!("{magic:#x}"),
    };
    Errno::from_code(code)
}

#[test]
fn each_command_is_read_with_its_flags() {
    let mut s = serving("disk", true);
    assert_eq!(served(&mut s, &request(cmd::READ, 0, 512, 1024)), Op::Read { range: r(512, 1024), whole: false });
    assert_eq!(served(&mut s, &request(cmd::READ, cmd_flag::DF, 0, 512)), Op::Read { range: r(0, 512), whole: true });
    assert_eq!(served(&mut s, &request(cmd::CACHE, 0, 512, 512)), Op::Cache { range: r(512, 512) });
    assert_eq!(served(&mut s, &request(cmd::FLUSH, cmd_flag::FUA, 0, 0)), Op::Flush);
    assert_eq!(served(&mut s, &request(cmd::TRIM, 1, 0, 512)), Op::Trim { range: r(0, 512), fua: true });
    let zeroes = Op::WriteZeroes { range: r(0, 1 << 20), fua: false, no_hole: true, fast: false };
    assert_eq!(served(&mut s, &request(cmd::WRITE_ZEROES, cmd_flag::NO_HOLE, 0, 1 << 20)), zeroes);
    let status = Op::BlockStatus { range: r(0, 512), one: true, contexts: allocation() };
    assert_eq!(served(&mut s, &request(cmd::BLOCK_STATUS, cmd_flag::REQ_ONE, 0, 512)), status);
}

#[test]
fn a_resize_is_read_from_its_offset_where_it_is_offered() {
    let mut info = ExportInfo::new("thin", 4096, 512);
    info.resizable = true;
    let mut s = Feeder::new(Session::new(Exports::new(vec![info]).unwrap()));
    s.feed(&3u32.to_be_bytes());
    s.feed(&encode(opt::GO, &go("", &[])));
    assert_eq!(refused(&mut s, &request(cmd::READ, 0, 4096, 512)), Errno::Inval);
    assert_eq!(served(&mut s, &request(cmd::RESIZE, 0, 8192, 0)), Op::Resize { bytes: 8192 });
    s.session().note_size(0, 8192);
    assert_eq!(served(&mut s, &request(cmd::READ, 0, 4096, 512)), Op::Read { range: r(4096, 512), whole: false });
    for (offset, len) in [(8192, 512), (0, 0), (100, 0)] {
        assert_eq!(refused(&mut s, &request(cmd::RESIZE, 0, offset, len)), Errno::Inval, "{offset} {len}");
    }
    assert_eq!(refused(&mut serving("disk", true), &request(cmd::RESIZE, 0, 8192, 0)), Errno::Perm);
}

#[test]
fn a_write_is_announced_before_its_payload_arrives() {
    let mut s = serving("disk", true);
    assert_eq!(served(&mut s, &request(cmd::WRITE, 0, 0, 512)), Op::Write { range: r(0, 512), fua: false });
    assert_eq!(s.session().need(), Need::Payload(512));
    assert_eq!(s.feed(&[1; 500]), [Event::Payload(500)]);
    assert_eq!(s.held(), 0, "payload is never kept");
    let mut rest = vec![1; 12];
    rest.extend(request(cmd::FLUSH, 0, 0, 0));
    assert_eq!(s.feed(&rest), [Event::Payload(12), Event::Serve(Request { cookie: 7, op: Op::Flush })]);
}

#[test]
fn the_payload_of_a_refused_write_is_skipped() {
    for structured in [false, true] {
        let mut s = serving("rom", structured);
        assert_eq!(s.feed(&request(cmd::WRITE, 0, 0, 4096)), []);
        assert_eq!(s.session().need(), Need::Skip(4096));
        assert_eq!(refused(&mut s, &[0; 4096]), Errno::Perm);
        assert_eq!(served(&mut s, &request(cmd::FLUSH, 0, 0, 0)), Op::Flush);
    }
}

#[test]
fn requests_past_the_end_are_told_apart_by_command() {
    let mut s = serving("disk", true);
    for (command, errno) in [
        (cmd::READ, Errno::Inval),
        (cmd::TRIM, Errno::Inval),
        (cmd::BLOCK_STATUS, Errno::Inval),
        (cmd::WRITE_ZEROES, Errno::NoSpc),
    ] {
        assert_eq!(refused(&mut s, &request(command, 0, (1 << 20) - 512, 1024)), errno);
        assert_eq!(refused(&mut s, &request(command, 0, u64::MAX - 511, 1024)), errno);
    }
    let write = [request(cmd::WRITE, 0, 1 << 20, 512), vec![0; 512]].concat();
    assert_eq!(refused(&mut s, &write), Errno::NoSpc);
}

#[test]
fn partial_blocks_and_empty_ranges_are_invalid() {
    let mut s = serving("rom", false);
    for (offset, len) in [(512, 4096), (0, 512), (0, 0)] {
        assert_eq!(refused(&mut s, &request(cmd::READ, 0, offset, len)), Errno::Inval);
    }
    let mut s = serving("disk", false);
    assert_eq!(refused(&mut s, &request(cmd::WRITE, 0, 0, 0)), Errno::Inval);
    assert_eq!(refused(&mut s, &request(cmd::FLUSH, 0, 512, 0)), Errno::Inval);
}

#[test]
fn flags_that_do_not_go_with_a_command_are_invalid() {
    let mut s = serving("disk", true);
    for (command, flags) in [
        (cmd::READ, cmd_flag::NO_HOLE),
        (cmd::TRIM, cmd_flag::DF),
        (cmd::WRITE_ZEROES, cmd_flag::FAST_ZERO),
        (cmd::BLOCK_STATUS, cmd_flag::DF),
        (cmd::READ, 1 << 15),
    ] {
        assert_eq!(refused(&mut s, &request(command, flags, 0, 512)), Errno::Inval, "{command} {flags:#x}");
    }
    let mut simple = serving("disk", false);
    assert_eq!(refused(&mut simple, &request(cmd::READ, cmd_flag::DF, 0, 512)), Errno::Inval);
    assert_eq!(refused(&mut simple, &request(cmd::BLOCK_STATUS, 0, 0, 512)), Errno::Inval);
}

#[test]
fn unknown_commands_are_invalid_and_the_session_goes_on() {
    let mut s = serving("disk", true);
    for command in [9, 0xffff] {
        assert_eq!(refused(&mut s, &request(command, 0, 0, 512)), Errno::Inval);
    }
}

#[test]
fn oversized_payloads_are_refused_or_dropped() {
    let big = ExportInfo::new("big", 1 << 40, 512);
    let begin = || {
        let mut feeder = Feeder::new(Session::new(Exports::new(vec![big.clone()]).unwrap()));
        feeder.feed(&3u32.to_be_bytes());
        feeder.feed(&encode(opt::GO, &go("", &[])));
        feeder
    };
    let too_long = MAX_PAYLOAD + 512;
    assert_eq!(refused(&mut begin(), &request(cmd::READ, 0, 0, too_long)), Errno::Overflow);
    served(&mut begin(), &request(cmd::READ, 0, 0, MAX_PAYLOAD));
    served(&mut begin(), &request(cmd::TRIM, 0, 0, u32::MAX - 511));
    let events = begin().feed(&request(cmd::WRITE, 0, 0, too_long));
    assert_eq!(events, [Event::Ended(End::Drop(Violation::LongPayload(u64::from(too_long))))]);
}

#[test]
fn a_bad_magic_drops_the_connection_and_a_goodbye_ends_it() {
    let mut bytes = request(cmd::READ, 0, 0, 512);
    bytes[0] = 0;
    let events = serving("disk", false).feed(&bytes);
    assert_eq!(events, [Event::Ended(End::Drop(Violation::RequestMagic(0x0060_9513)))]);
    let mut s = serving("disk", false);
    assert_eq!(s.feed(&Replies::goodbye(Form::Simple)), [Event::Ended(End::Goodbye)]);
    assert_eq!(s.feed(&request(cmd::READ, 0, 0, 512)), [], "nothing is heard after the end");
}

#[test]
fn a_stopping_server_answers_requests_with_shutdown() {
    let mut s = serving("disk", true);
    s.session().stop();
    assert_eq!(refused(&mut s, &request(cmd::READ, 0, 0, 512)), Errno::Shutdown);
}

#[test]
fn a_session_that_is_fed_wrongly_ends_instead_of_guessing() {
    let mut session = Session::new(exports());
    assert!(matches!(session.message(&[0; 5]), Step::End(_, End::Drop(Violation::Feeding { .. }))));
    let mut session = Session::new(exports());
    assert!(matches!(session.taken(), Step::End(_, End::Drop(Violation::Feeding { .. }))));
}
