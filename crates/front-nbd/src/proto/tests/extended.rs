//! Extended headers: 64-bit lengths, payload lengths, and status of several contexts.

use super::*;
use crate::proto::wire::{EXTENDED_CHUNK, MAX_PAYLOAD, chunk, cmd, cmd_flag, flag, rep};
use esker_base::ByteRange;

fn r(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

fn extended() -> Terms {
    Terms { form: Form::Extended, contexts: Context::ALL.into_iter().collect() }
}

fn served(feeder: &mut Feeder, bytes: &[u8]) -> Op {
    let events = feeder.feed(bytes);
    let [Event::Serve(Request { cookie: 7, op })] = events[..] else { panic!("{events:?}") };
    op
}

/// The error of an extended error chunk, which names the request's offset.
fn refused(feeder: &mut Feeder, bytes: &[u8], offset: u64) -> Errno {
    let events = feeder.feed(bytes);
    let [Event::Sent(reply)] = &events[..] else { panic!("{events:?}") };
    let mut r = Reader::new(reply);
    assert_eq!((r.be_u32(), r.be_u16(), r.be_u16()), (Ok(EXTENDED_CHUNK), Ok(chunk::DONE), Ok(chunk::ERROR)));
    assert_eq!((r.be_u64(), r.be_u64()), (Ok(7), Ok(offset)));
    assert_eq!(r.be_u64(), Ok(r.left() as u64));
    Errno::from_code(r.be_u32().unwrap())
}

#[test]
fn a_trim_may_be_longer_than_32_bits_say() {
    let big = ExportInfo::new("disk", 1 << 40, 512);
    let mut feeder = Feeder::new(Session::new(Exports::new(vec![big]).unwrap()));
    feeder.feed(&3u32.to_be_bytes());
    feeder.feed(&encode(opt::EXTENDED_HEADERS, &[]));
    feeder.feed(&encode(opt::GO, &go("", &[])));
    let all = r(0, 1 << 40);
    assert_eq!(served(&mut feeder, &long_request(cmd::TRIM, 0, 0, 1 << 40)), Op::Trim { range: all, fua: false });
    let zeroes = Op::WriteZeroes { range: all, fua: true, no_hole: false, fast: false };
    assert_eq!(served(&mut feeder, &long_request(cmd::WRITE_ZEROES, cmd_flag::FUA, 0, 1 << 40)), zeroes);
    assert_eq!(refused(&mut feeder, &long_request(cmd::TRIM, 0, 512, 1 << 40), 512), Errno::Inval);
    assert_eq!(refused(&mut feeder, &long_request(cmd::TRIM, 0, 512, u64::MAX), 512), Errno::Inval);
    assert_eq!(refused(&mut feeder, &long_request(cmd::READ, 0, 0, 1 << 33), 0), Errno::Overflow);
}

#[test]
fn a_write_says_that_its_length_is_that_of_a_payload() {
    let mut feeder = serving_extended();
    let write = long_request(cmd::WRITE, cmd_flag::PAYLOAD_LEN, 512, 512);
    assert_eq!(served(&mut feeder, &write), Op::Write { range: r(512, 512), fua: false });
    assert_eq!(feeder.session().need(), Need::Payload(512));
    feeder.feed(&[1; 512]);
    assert_eq!(refused(&mut feeder, &long_request(cmd::WRITE, 0, 512, 512), 512), Errno::Inval);
    assert_eq!(served(&mut feeder, &long_request(cmd::FLUSH, 0, 0, 0)), Op::Flush, "no payload was skipped");
}

#[test]
fn a_payload_where_none_belongs_is_skipped_and_refused() {
    let mut feeder = serving_extended();
    assert_eq!(feeder.feed(&long_request(cmd::READ, cmd_flag::PAYLOAD_LEN, 0, 512)), []);
    assert_eq!(feeder.session().need(), Need::Skip(512));
    assert_eq!(refused(&mut feeder, &[0; 512], 0), Errno::Inval);
    let too_long = u64::from(MAX_PAYLOAD) + 1;
    let events = feeder.feed(&long_request(cmd::READ, cmd_flag::PAYLOAD_LEN, 0, too_long));
    assert_eq!(events, [Event::Ended(End::Drop(Violation::LongPayload(too_long)))]);
}

#[test]
fn a_status_may_be_about_some_of_the_selected_contexts() {
    let mut feeder = serving_extended();
    let both = Op::BlockStatus { range: r(0, 512), one: false, contexts: extended().contexts };
    assert_eq!(served(&mut feeder, &long_request(cmd::BLOCK_STATUS, 0, 0, 512)), both);
    let query = |ids: &[u32]| {
        let flags = cmd_flag::PAYLOAD_LEN | cmd_flag::REQ_ONE;
        let mut bytes = long_request(cmd::BLOCK_STATUS, flags, 512, 8 + 4 * ids.len() as u64);
        bytes.u64(1024);
        ids.iter().for_each(|id| {
            bytes.u32(*id);
        });
        bytes
    };
    let written = Contexts::default().with(Context::Written);
    let one = Op::BlockStatus { range: r(512, 1024), one: true, contexts: written };
    assert_eq!(served(&mut feeder, &query(&[2])), one);
    for ids in [&[][..], &[0], &[3], &[1, 1], &[1, 2, 1]] {
        assert_eq!(refused(&mut feeder, &query(ids), 512), Errno::Inval, "{ids:?}");
    }
    // More numbers than there can be contexts are not even read.
    assert_eq!(feeder.feed(&query(&[1; 100])[..32]), []);
    assert_eq!(feeder.session().need(), Need::Skip(408));
}

#[test]
fn replies_name_the_offset_and_carry_long_extents() {
    let to = ReplyTo { cookie: 9, offset: 4096 };
    let done = extended().done(to);
    assert_eq!(done[..8], [0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0, 0]);
    assert_eq!(done[8..], [&9u64.to_be_bytes()[..], &4096u64.to_be_bytes(), &0u64.to_be_bytes()].concat());
    let extents = |len, flags| vec![Extent { len, flags }];
    let statuses = [(Context::Allocation, extents(1 << 40, 3)), (Context::Written, extents(1 << 40, 1))];
    let bytes = extended().status(to, r(4096, 1 << 40), false, &statuses);
    let mut r = Reader::new(&bytes);
    for (flags, id, state) in [(0, 1, 3), (chunk::DONE, 2, 1)] {
        let head = (r.be_u32().unwrap(), r.be_u16().unwrap(), r.be_u16().unwrap());
        assert_eq!(head, (EXTENDED_CHUNK, flags, chunk::BLOCK_STATUS_EXT));
        r.take(16).unwrap();
        assert_eq!((r.be_u64(), r.be_u32(), r.be_u32()), (Ok(24), Ok(id), Ok(1)));
        assert_eq!((r.be_u64(), r.be_u64()), (Ok(1 << 40), Ok(state)));
    }
    assert_eq!(r.left(), 0);
}

#[test]
fn extended_headers_cannot_be_taken_back_and_forbid_the_old_way() {
    let mut feeder = haggling();
    assert_eq!(kinds(&haggle(&mut feeder, opt::EXTENDED_HEADERS, &[])), [rep::ACK]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::STRUCTURED_REPLY, &[])), [rep::ERR_EXT_HEADER_REQD]);
    let flags = exports().list()[0].flags(extended());
    let both = flag::BLOCK_STATUS_PAYLOAD | flag::SEND_DF;
    assert_eq!(flags & both, both);
    let events = feeder.feed(&encode(opt::EXPORT_NAME, b"disk"));
    assert!(matches!(events[..], [Event::Ended(End::Drop(Violation::OldWay(_)))]), "{events:?}");
}

fn tls(mode: TlsMode) -> Feeder {
    let mut feeder = Feeder::new(Session::new(exports()).with_tls(mode));
    feeder.feed(&3u32.to_be_bytes());
    feeder
}

#[test]
fn tls_forgets_what_was_agreed_in_the_clear() {
    let mut feeder = tls(TlsMode::On);
    haggle(&mut feeder, opt::EXTENDED_HEADERS, &[]);
    haggle(&mut feeder, opt::SET_META_CONTEXT, &contexts("disk", &["base:allocation"]));
    let events = feeder.feed(&encode(opt::STARTTLS, &[]));
    let [Event::Secured(reply)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(kinds(&option_replies(opt::STARTTLS, reply)), [rep::ACK]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::STARTTLS, &[])), [rep::ERR_INVALID]);
    let events = feeder.feed(&encode(opt::GO, &go("disk", &[])));
    assert_eq!(events[1], Event::Began { export: 0, terms: Terms::default() });
}

#[test]
fn a_server_that_requires_tls_tells_nothing_before_it() {
    for option in [opt::LIST, opt::INFO, opt::GO, opt::EXTENDED_HEADERS, opt::LIST_META_CONTEXT, 99] {
        assert_eq!(kinds(&haggle(&mut tls(TlsMode::Require), option, b"")), [rep::ERR_TLS_REQD], "{option}");
    }
    let events = tls(TlsMode::Require).feed(&encode(opt::EXPORT_NAME, b"disk"));
    assert!(matches!(events[..], [Event::Ended(End::Drop(Violation::OldWay(_)))]), "{events:?}");
    let mut feeder = tls(TlsMode::Require);
    feeder.feed(&encode(opt::STARTTLS, &[]));
    assert_eq!(kinds(&haggle(&mut feeder, opt::LIST, &[])), [rep::SERVER, rep::SERVER, rep::ACK]);
}

#[test]
fn a_full_export_is_refused_by_name_only_when_it_is_chosen() {
    let mut feeder = haggling();
    feeder.session().note_full(vec![0]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::INFO, &go("disk", &[]))).last(), Some(&rep::ACK));
    assert_eq!(kinds(&haggle(&mut feeder, opt::GO, &go("disk", &[]))), [rep::ERR_POLICY]);
    assert!(matches!(feeder.feed(&encode(opt::GO, &go("rom", &[]))).last(), Some(Event::Began { .. })));
}
