//! The handshake: options and their replies.

use super::*;
use crate::proto::wire::{MAX_OPTION, MAX_OPTIONS, flag, info, rep};

#[test]
fn the_greeting_is_fixed_newstyle_without_zeroes() {
    let greeting = Session::greeting();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(&greeting[16..], [0, 3]);
}

#[test]
fn unknown_client_flags_drop_the_connection() {
    let events = new_session().feed(&4u32.to_be_bytes());
    assert_eq!(events, [Event::Ended(End::Drop(Violation::ClientFlags(4)))]);
}

#[test]
fn the_list_names_each_export_with_its_description() {
    let replies = haggle(&mut haggling(), opt::LIST, &[]);
    assert_eq!(kinds(&replies), [rep::SERVER, rep::SERVER, rep::ACK]);
    assert_eq!(replies[0].1, b"\0\0\0\x04diska disk");
    assert_eq!(replies[1].1, b"\0\0\0\x03rom");
}

#[test]
fn options_that_take_no_data_refuse_some() {
    for option in [opt::LIST, opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS, opt::STARTTLS] {
        assert_eq!(kinds(&haggle(&mut haggling(), option, b"x")), [rep::ERR_INVALID]);
    }
}

#[test]
fn unknown_options_and_tls_are_refused_and_haggling_goes_on() {
    let mut feeder = haggling();
    assert_eq!(kinds(&haggle(&mut feeder, opt::STARTTLS, &[])), [rep::ERR_POLICY]);
    assert_eq!(kinds(&haggle(&mut feeder, 12, b"abc")), [rep::ERR_UNSUP]);
    assert_eq!(kinds(&haggle(&mut feeder, 0xffff_ffff, b"abc")), [rep::ERR_UNSUP]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::STRUCTURED_REPLY, &[])), [rep::ACK]);
}

#[test]
fn info_tells_all_that_is_asked_and_go_begins() {
    let mut feeder = haggling();
    let data = go("disk", &[info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 99]);
    let replies = haggle(&mut feeder, opt::INFO, &data);
    assert_eq!(kinds(&replies), [rep::INFO, rep::INFO, rep::INFO, rep::INFO, rep::ACK]);
    let flags = exports().list()[0].flags(Terms::default()).to_be_bytes();
    assert_eq!(replies[0].1, [&[0, 0][..], &(1u64 << 20).to_be_bytes(), &flags].concat());
    assert_eq!(replies[1].1, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(replies[2].1, b"\0\x01disk");
    assert_eq!(replies[3].1, b"\0\x02a disk");
    let events = feeder.feed(&encode(opt::GO, &data));
    assert_eq!(events[1], Event::Began { export: 0, terms: Terms::default() });
}

#[test]
fn the_empty_name_is_the_first_export_and_others_are_unknown() {
    let mut feeder = haggling();
    assert_eq!(kinds(&haggle(&mut feeder, opt::INFO, &go("nope", &[]))), [rep::ERR_UNKNOWN]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::GO, &go("nope", &[]))), [rep::ERR_UNKNOWN]);
    let replies = haggle(&mut feeder, opt::INFO, &go("", &[info::NAME]));
    assert_eq!(replies[2].1, b"\0\x01disk");
}

#[test]
fn malformed_data_is_refused_with_its_reason() {
    let mut long = go(&"n".repeat(5000), &[]);
    let cases = [vec![0, 0], go("disk", &[])[..9].to_vec(), [go("disk", &[]), vec![0]].concat(), go("a\0b", &[])];
    for data in cases.iter().chain([&long]) {
        let replies = haggle(&mut haggling(), opt::GO, data);
        assert_eq!(kinds(&replies), [rep::ERR_INVALID], "{data:?}");
        assert!(!replies[0].1.is_empty());
    }
    long[0] = 0xff;
    assert_eq!(kinds(&haggle(&mut haggling(), opt::INFO, &long)), [rep::ERR_INVALID]);
}

#[test]
fn long_option_data_is_skipped_without_being_held() {
    let mut feeder = haggling();
    let data = vec![0; MAX_OPTION as usize + 1];
    assert_eq!(kinds(&haggle(&mut feeder, 77, &data)), [rep::ERR_TOO_BIG]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::LIST, &[])).len(), 3);
    let mut head = encode(77, &[]);
    head[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    let events = feeder.feed(&head);
    assert_eq!(events, [Event::Ended(End::Drop(Violation::LongOption { option: 77, len: u32::MAX }))]);
}

#[test]
fn haggling_without_end_is_dropped() {
    let mut feeder = haggling();
    for _ in 0..MAX_OPTIONS {
        assert_eq!(kinds(&haggle(&mut feeder, 77, &[])), [rep::ERR_UNSUP]);
    }
    assert_eq!(feeder.feed(&encode(77, &[])), [Event::Ended(End::Drop(Violation::TooManyOptions))]);
}

#[test]
fn abort_is_acknowledged_whatever_its_data() {
    let events = haggling().feed(&encode(opt::ABORT, b"bye"));
    let Event::Sent(bytes) = &events[0] else { panic!("{events:?}") };
    assert_eq!(kinds(&option_replies(opt::ABORT, bytes)), [rep::ACK]);
    assert_eq!(events[1], Event::Ended(End::Goodbye));
}

#[test]
fn the_old_way_to_choose_an_export_works_and_pads_for_old_clients() {
    for (flags, len) in [(3u32, 10), (1, 134)] {
        let mut feeder = new_session();
        feeder.feed(&flags.to_be_bytes());
        let events = feeder.feed(&encode(opt::EXPORT_NAME, b"rom"));
        let Event::Sent(bytes) = &events[0] else { panic!("{events:?}") };
        assert_eq!(bytes.len(), len);
        assert_eq!(bytes[..8], (1u64 << 16).to_be_bytes());
        assert_eq!(events[1], Event::Began { export: 1, terms: Terms::default() });
    }
    let events = haggling().feed(&encode(opt::EXPORT_NAME, b"nope"));
    assert_eq!(events, [Event::Ended(End::Drop(Violation::UnknownExport("nope".into())))]);
}

#[test]
fn contexts_need_structured_replies_first() {
    let mut feeder = haggling();
    for option in [opt::SET_META_CONTEXT, opt::LIST_META_CONTEXT] {
        assert_eq!(kinds(&haggle(&mut feeder, option, &contexts("disk", &[]))), [rep::ERR_INVALID]);
    }
}

#[test]
fn contexts_are_listed_by_wildcard_and_selected_by_name() {
    let mut feeder = haggling();
    haggle(&mut feeder, opt::STRUCTURED_REPLY, &[]);
    let mut ask = |option, name, queries: &[&str]| kinds(&haggle(&mut feeder, option, &contexts(name, queries)));
    let found = [rep::META_CONTEXT, rep::ACK];
    for queries in [&["base:"][..], &["base:allocation"], &["x-other:y", "esker:"]] {
        assert_eq!(ask(opt::LIST_META_CONTEXT, "disk", queries), found, "{queries:?}");
    }
    let both = [rep::META_CONTEXT, rep::META_CONTEXT, rep::ACK];
    for queries in [&[][..], &["base:allocation", "esker:"]] {
        assert_eq!(ask(opt::LIST_META_CONTEXT, "disk", queries), both, "{queries:?}");
    }
    assert_eq!(ask(opt::SET_META_CONTEXT, "disk", &["esker:written", "base:allocation"]), both);
    assert_eq!(ask(opt::LIST_META_CONTEXT, "disk", &["qemu:dirty"]), [rep::ACK]);
    assert_eq!(ask(opt::LIST_META_CONTEXT, "rom", &[]), [rep::ACK]);
    assert_eq!(ask(opt::LIST_META_CONTEXT, "nope", &[]), [rep::ERR_UNKNOWN]);
    assert_eq!(ask(opt::SET_META_CONTEXT, "disk", &["base:allocation", "base:allocation"]), found);
    for queries in [&[][..], &["base:"], &["base:other"], &["qemu:dirty"]] {
        assert_eq!(ask(opt::SET_META_CONTEXT, "disk", queries), [rep::ACK], "{queries:?}");
    }
    assert_eq!(ask(opt::SET_META_CONTEXT, "disk", &["allocation"]), [rep::ERR_INVALID]);
}

#[test]
fn a_selection_holds_for_its_export_only_and_until_the_next_one() {
    let begun = |selections: &[(&str, &[&str])]| {
        let mut feeder = haggling();
        haggle(&mut feeder, opt::STRUCTURED_REPLY, &[]);
        for (name, queries) in selections {
            haggle(&mut feeder, opt::SET_META_CONTEXT, &contexts(name, queries));
        }
        let events = feeder.feed(&encode(opt::GO, &go("disk", &[])));
        let Some(Event::Began { terms, .. }) = events.last() else { panic!("{events:?}") };
        terms.contexts.contains(Context::Allocation)
    };
    let select: &[&str] = &["base:allocation"];
    assert!(begun(&[("disk", select)]));
    assert!(begun(&[("", select)]), "the empty name is the first export");
    assert!(!begun(&[]));
    assert!(!begun(&[("disk", select), ("rom", select)]));
    assert!(!begun(&[("disk", select), ("disk", &[])]));
    assert!(!begun(&[("disk", select), ("disk", &["no colon"])]), "a refused selection selects nothing");
}

#[test]
fn transmission_flags_tell_what_an_export_takes() {
    let exports = exports();
    let (disk, rom) = (
        exports.list()[0].flags(Terms::default()),
        exports.list()[1].flags(Terms { form: Form::Structured, ..Terms::default() }),
    );
    let writes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;
    assert_eq!(disk & (writes | flag::READ_ONLY | flag::SEND_DF), writes);
    assert_eq!(rom & (writes | flag::READ_ONLY | flag::SEND_DF), flag::READ_ONLY | flag::SEND_DF);
    assert_eq!(disk & flag::CAN_MULTI_CONN, flag::CAN_MULTI_CONN);
}

#[test]
fn exports_that_break_the_rules_are_refused() {
    let good = || ExportInfo::new("a", 4096, 512);
    assert_eq!(Exports::new(vec![]).unwrap_err(), ExportError::None);
    let twice = Exports::new(vec![good(), good()]).unwrap_err();
    assert!(matches!(twice, ExportError::Twice { .. }));
    for bad in [
        ExportInfo { name: "n".repeat(257), ..good() },
        ExportInfo { name: "a\0".into(), ..good() },
        ExportInfo { description: "d".repeat(4097), ..good() },
        ExportInfo { min_block: 3, ..good() },
        ExportInfo { min_block: 1 << 17, preferred_block: 1 << 17, ..good() },
        ExportInfo { preferred_block: 256, ..good() },
        ExportInfo { size: 4097, ..good() },
    ] {
        assert!(Exports::new(vec![bad.clone()]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_stopping_server_refuses_options_but_takes_an_abort() {
    let mut feeder = haggling();
    feeder.session().stop();
    assert_eq!(kinds(&haggle(&mut feeder, opt::LIST, &[])), [rep::ERR_SHUTDOWN]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::GO, &go("disk", &[]))), [rep::ERR_SHUTDOWN]);
    assert_eq!(kinds(&haggle(&mut feeder, opt::ABORT, &[])), [rep::ACK]);
}
