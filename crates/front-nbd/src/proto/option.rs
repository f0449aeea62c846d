//! Options of the handshake: their data in, their replies out.

use std::str;

use esker_base::codec::{Reader, Short};

use super::context::{Context, Contexts};
use super::export::ExportInfo;
use super::reply::Terms;
use super::wire::{MAX_PAYLOAD, MAX_STRING, OPTION, OPTION_REPLY, Put, info, rep};

/// Why the data of an option is refused; goes to the client as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The data ends too early.
    #[error("option data is cut short: {0}")]
    Short(#[from] Short),
    /// The data goes on too long.
    #[error("option data has {0} bytes too many")]
    Trailing(usize),
    /// A string of the wrong form.
    #[error("a string has {0} bytes; at most {MAX_STRING} are allowed")]
    LongString(usize),
    /// Not text.
    #[error("a string is not UTF-8 without NUL")]
    Text,
    /// A query without a namespace.
    #[error("metadata context {0:?} has no namespace; write one such as \"base:allocation\"")]
    Namespace(String),
}

/// Data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, PartialEq, Eq)]
pub struct InfoQuery<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Types of information that the client asks for.
    pub wanted: Vec<u16>,
}

/// Data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, PartialEq, Eq)]
pub struct ContextQuery<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Names or patterns of contexts.
    pub queries: Vec<&'a str>,
}

/// Checks a string of the protocol.
pub fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() > MAX_STRING {
        return Err(Malformed::LongString(bytes.len()));
    }
    str::from_utf8(bytes).ok().filter(|s| !s.contains('\0')).ok_or(Malformed::Text)
}

fn counted_text<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let len = r.be_u32()?;
    text(r.take(len as usize)?)
}

fn at_end<T>(r: &Reader<'_>, value: T) -> Result<T, Malformed> {
    if r.left() == 0 { Ok(value) } else { Err(Malformed::Trailing(r.left())) }
}

impl<'a> InfoQuery<'a> {
    /// Reads the data of an option.
    pub fn parse(data: &'a [u8]) -> Result<InfoQuery<'a>, Malformed> {
        let mut r = Reader::new(data);
        let name = counted_text(&mut r)?;
        let count = r.be_u16()?;
        let wanted = (0..count).map(|_| r.be_u16()).collect::<Result<_, _>>()?;
        at_end(&r, InfoQuery { name, wanted })
    }
}

impl<'a> ContextQuery<'a> {
    /// Reads the data of an option. Memory stays proportional to the data: each query takes at least 4 bytes of it.
    pub fn parse(data: &'a [u8]) -> Result<ContextQuery<'a>, Malformed> {
        let mut r = Reader::new(data);
        let name = counted_text(&mut r)?;
        let count = r.be_u32()?;
        let mut queries = Vec::new();
        for _ in 0..count {
            let query = counted_text(&mut r)?;
            if !query.contains(':') {
                return Err(Malformed::Namespace(query.to_string()));
            }
            queries.push(query);
        }
        at_end(&r, ContextQuery { name, queries })
    }

    /// Those of `offered` that a list names: by name, by namespace, or all without a query.
    pub fn listed(&self, offered: Contexts) -> Contexts {
        let named =
            |c: &Context| self.queries.is_empty() || [c.name(), c.namespace()].iter().any(|q| self.queries.contains(q));
        offered.iter().filter(named).collect()
    }

    /// Those of `offered` that are selected: by name only.
    pub fn selected(&self, offered: Contexts) -> Contexts {
        offered.iter().filter(|context| self.queries.contains(&context.name())).collect()
    }
}

/// Replies to one option, in order.
#[derive(Debug)]
pub struct OptionReply {
    option: u32,
    out: Vec<u8>,
}

impl OptionReply {
    /// No reply yet to `option`.
    pub fn to(option: u32) -> OptionReply {
        OptionReply { option, out: Vec::new() }
    }

    /// Adds one reply.
    pub fn push(mut self, kind: u32, data: &[u8]) -> OptionReply {
        // Every caller's data is bounded by strings of the protocol, so the length fits.
        self.out.u64(OPTION_REPLY).u32(self.option).u32(kind).u32(data.len() as u32).bytes(data);
        self
    }

    /// Adds success as the last reply.
    pub fn ack(self) -> Vec<u8> {
        self.push(rep::ACK, &[]).out
    }

    /// Adds an error as the last reply.
    pub fn error(self, kind: u32, message: &str) -> Vec<u8> {
        self.push(kind, clip(message).as_bytes()).out
    }

    /// Adds one export of a list.
    pub fn server(self, export: &ExportInfo) -> OptionReply {
        let mut data = Vec::new();
        data.u32(export.name.len() as u32).bytes(export.name.as_bytes()).bytes(export.description.as_bytes());
        self.push(rep::SERVER, &data)
    }

    /// Adds metadata contexts, with their numbers if they are `selected`.
    pub fn contexts(self, contexts: Contexts, selected: bool) -> OptionReply {
        contexts.iter().fold(self, |reply, context| {
            let mut data = Vec::new();
            data.u32(if selected { context.id() } else { 0 }).bytes(context.name().as_bytes());
            reply.push(rep::META_CONTEXT, &data)
        })
    }

    /// Adds what is known of an export: always its size and flags, its block sizes if asked for or stricter than the
    /// default, and its name and description if asked for.
    pub fn infos(self, export: &ExportInfo, terms: Terms, wanted: &[u16]) -> OptionReply {
        let mut reply = self.info(info::EXPORT, |d| {
            d.u64(export.size).u16(export.flags(terms));
        });
        if wanted.contains(&info::BLOCK_SIZE) || export.min_block > 1 {
            reply = reply.info(info::BLOCK_SIZE, |d| {
                d.u32(export.min_block).u32(export.preferred_block).u32(MAX_PAYLOAD);
            });
        }
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wanted.contains(&kind) && !(kind == info::DESCRIPTION && text.is_empty()) {
                reply = reply.info(kind, |d| {
                    d.bytes(text.as_bytes());
                });
            }
        }
        reply
    }

    fn info(self, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) -> OptionReply {
        let mut data = Vec::new();
        data.u16(kind);
        fill(&mut data);
        self.push(rep::INFO, &data)
    }
}

/// The longest front of `message` that fits in a string of the protocol.
pub(crate) fn clip(message: &str) -> &str {
    let fits = (0..=message.len().min(MAX_STRING)).rev().find(|i| message.is_char_boundary(*i));
    &message[..fits.unwrap_or(0)]
}

/// An option as a client sends it.
pub(crate) fn encode(option: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.u64(OPTION).u32(option).u32(data.len() as u32).bytes(data);
    out
}
