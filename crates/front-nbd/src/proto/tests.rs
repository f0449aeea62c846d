//! Conversations in memory: raw bytes against the server's machine, and the client's machine against it.

mod extended;
mod fuzz;
mod handshake;
mod loopback;
mod replies;
mod requests;

use super::feed::{Event, Feeder};
use super::option::encode;
use super::request::Header;
use super::wire::{OPTION_REPLY, Put, opt};
use super::*;
use esker_base::codec::Reader;

/// `disk` (1 MiB, blocks of 512, all abilities), `rom` (read-only, blocks of 4096, no holes known).
fn exports() -> Exports {
    let mut disk = ExportInfo { cache: true, ..ExportInfo::new("disk", 1 << 20, 512) };
    disk.contexts = Context::ALL.into_iter().collect();
    disk.description = "a disk".into();
    let rom = ExportInfo { read_only: true, contexts: Contexts::default(), ..ExportInfo::new("rom", 1 << 16, 4096) };
    Exports::new(vec![disk, rom]).unwrap()
}

fn new_session() -> Feeder {
    Feeder::new(Session::new(exports()))
}

/// A session after the client's flags.
fn haggling() -> Feeder {
    let mut feeder = new_session();
    assert_eq!(feeder.feed(&3u32.to_be_bytes()), []);
    feeder
}

/// A session on `export` in its transmission phase.
fn serving(export: &str, structured: bool) -> Feeder {
    let mut feeder = haggling();
    if structured {
        feeder.feed(&encode(opt::STRUCTURED_REPLY, &[]));
        feeder.feed(&encode(opt::SET_META_CONTEXT, &contexts(export, &["base:allocation"])));
    }
    let events = feeder.feed(&encode(opt::GO, &go(export, &[])));
    assert!(matches!(events.last(), Some(Event::Began { .. })), "{events:?}");
    feeder
}

/// The same with extended headers and both contexts.
fn serving_extended() -> Feeder {
    let mut feeder = haggling();
    feeder.feed(&encode(opt::EXTENDED_HEADERS, &[]));
    feeder.feed(&encode(opt::SET_META_CONTEXT, &contexts("disk", &Context::ALL.map(Context::name))));
    let events = feeder.feed(&encode(opt::GO, &go("disk", &[])));
    assert!(matches!(events.last(), Some(Event::Began { .. })), "{events:?}");
    feeder
}

/// Data of GO and INFO.
fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = Vec::new();
    data.u32(name.len() as u32).bytes(name.as_bytes()).u16(wanted.len() as u16);
    wanted.iter().for_each(|w| {
        data.u16(*w);
    });
    data
}

/// Data of the metadata options.
fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    data.u32(name.len() as u32).bytes(name.as_bytes()).u32(queries.len() as u32);
    queries.iter().for_each(|q| {
        data.u32(q.len() as u32).bytes(q.as_bytes());
    });
    data
}

/// Types and data of option replies, all of them to `option`.
fn option_replies(option: u32, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut r = Reader::new(bytes);
    let mut list = Vec::new();
    while r.left() > 0 {
        assert_eq!((r.be_u64().unwrap(), r.be_u32().unwrap()), (OPTION_REPLY, option));
        let (kind, len) = (r.be_u32().unwrap(), r.be_u32().unwrap());
        list.push((kind, r.take(len as usize).unwrap().to_vec()));
    }
    list
}

/// The replies to one option.
fn haggle(feeder: &mut Feeder, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let events = feeder.feed(&encode(option, data));
    let Some(Event::Sent(bytes)) = events.first() else { panic!("no reply: {events:?}") };
    option_replies(option, bytes)
}

fn kinds(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|(kind, _)| *kind).collect()
}

fn request(command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    Header { flags, command, cookie: 7, offset, len: u64::from(len) }.encode(Form::Simple)
}

/// The same with extended headers.
fn long_request(command: u16, flags: u16, offset: u64, len: u64) -> Vec<u8> {
    Header { flags, command, cookie: 7, offset, len }.encode(Form::Extended)
}

fn allocation() -> Contexts {
    Contexts::default().with(Context::Allocation)
}
