//! The server's side of one connection, from greeting to disconnect.

use esker_base::codec::{Reader, Short};

use super::Need;
use super::context::Contexts;
use super::export::{ExportInfo, Exports};
use super::option::{ContextQuery, InfoQuery, Malformed, OptionReply, text};
use super::reply::{Failure, Form, Terms};
use super::request::{Header, Op, Request};
use super::wire::{
    Errno, GREETING, MAX_OPTION, MAX_OPTIONS, MAX_PAYLOAD, OPTION, OPTION_LEN, Put, RESERVED_LEN, cmd, handshake, opt,
    rep,
};

/// Most bytes of a payload that names contexts: a length and more numbers than there are contexts.
const MAX_QUERY: u64 = 8 + 4 * 64;

/// What a server says to clients about TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Not spoken.
    #[default]
    Off,
    /// Spoken with clients that ask.
    On,
    /// Nothing is told and nothing served without it.
    Require,
}

/// From this length on the data of an option is skipped.
const LONG_OPTION: u32 = MAX_OPTION + 1;

/// Why a server drops a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The caller of the machine gave it something else than it needed.
    #[error("{got} bytes were given to a session that needs {need:?}")]
    Feeding {
        /// What it needed.
        need: Need,
        /// Bytes given.
        got: usize,
    },
    /// A message of fixed length is cut short.
    #[error("message cut short: {0}")]
    Short(#[from] Short),
    /// Flags of the handshake that were not offered.
    #[error("client flags {0:#x} hold a flag that was not offered")]
    ClientFlags(u32),
    /// Not an option.
    #[error("an option begins with {0:#018x}, not with IHAVEOPT")]
    OptionMagic(u64),
    /// An option that is too long even to skip.
    #[error("option {option} has {len} bytes of data; more than {MAX_PAYLOAD} are not even skipped")]
    LongOption {
        /// The option's number.
        option: u32,
        /// Its length.
        len: u32,
    },
    /// A client that haggles without end.
    #[error("more than {MAX_OPTIONS} options were sent")]
    TooManyOptions,
    /// `NBD_OPT_EXPORT_NAME` knows no error reply.
    #[error("no export is named {0:?}")]
    UnknownExport(String),
    /// `NBD_OPT_EXPORT_NAME` knows no error reply.
    #[error("the client chose export {0:?} with NBD_OPT_EXPORT_NAME, and it cannot be used: {1}")]
    Unusable(String, String),
    /// `NBD_OPT_EXPORT_NAME` knows no error reply.
    #[error("the export's name cannot be read: {0}")]
    ExportName(Malformed),
    /// Not a request; where the next one begins cannot be known.
    #[error("a request begins with {0:#010x}, not with 0x25609513")]
    RequestMagic(u32),
    /// A payload that is too long even to skip.
    #[error("a payload of {0} bytes is longer than {MAX_PAYLOAD}")]
    LongPayload(u64),
    /// `NBD_OPT_EXPORT_NAME` knows no error reply.
    #[error("the client chose an export with NBD_OPT_EXPORT_NAME, {0}")]
    OldWay(&'static str),
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The client said goodbye: after the handshake or instead of it.
    Goodbye,
    /// The server must drop the connection.
    Drop(Violation),
}

/// What the caller does after the machine has read a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send these bytes (there may be none) and go on.
    Reply(Vec<u8>),
    /// Send these bytes; requests follow.
    Begin {
        /// What to send.
        reply: Vec<u8>,
        /// Index of the chosen export.
        export: usize,
        /// How to reply to requests.
        terms: Terms,
    },
    /// Send these bytes, shake hands for TLS, and go on inside it.
    Secure(Vec<u8>),
    /// Carry out this request. The payload of a write is what the machine needs next.
    Serve(Request),
    /// Send these bytes (there may be none), finish what is under way, and close.
    End(Vec<u8>, End),
}

#[derive(Debug)]
enum State {
    ClientFlags,
    OptionHead,
    OptionData { option: u32, len: u32 },
    LongOption { option: u32, len: u32 },
    Request { export: usize },
    Query { export: usize, head: Header },
    Payload { export: usize, len: u32 },
    Refused { export: usize, len: u32, reply: Vec<u8> },
    Over,
}

/// The server's machine. It holds no payload and at most [`MAX_OPTION`] bytes are asked for at once.
#[derive(Debug)]
pub struct Session {
    exports: Exports,
    state: State,
    terms: Terms,
    no_zeroes: bool,
    /// The export for which contexts were selected last, and which.
    selected: Option<(usize, Contexts)>,
    options: u32,
    stopping: bool,
    tls: TlsMode,
    /// All that is said now is inside TLS.
    secured: bool,
    /// Exports that take no more connections.
    full: Vec<usize>,
    /// The export that was refused last because it is full.
    refused: Option<usize>,
    unusable: Vec<(usize, String)>,
}

impl Session {
    /// A session before its first byte; the caller sends [`Session::greeting`] first.
    pub fn new(exports: Exports) -> Session {
        Session {
            exports,
            state: State::ClientFlags,
            terms: Terms::default(),
            no_zeroes: false,
            selected: None,
            options: 0,
            stopping: false,
            tls: TlsMode::Off,
            secured: false,
            full: Vec::new(),
            refused: None,
            unusable: Vec::new(),
        }
    }

    /// A session that uses `export` already, between two requests: that of a connection which another server began.
    pub fn resumed(exports: Exports, export: usize, terms: Terms) -> Session {
        Session { state: State::Request { export }, terms, ..Session::new(exports) }
    }

    /// Whether an export was chosen, and the last request was taken whole.
    pub fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Request { .. })
    }

    /// How an export looks to the client now.
    pub fn info(&self, export: usize) -> &ExportInfo {
        &self.exports.list()[export]
    }

    /// Says what size an export has now: what clients are told, and held to.
    pub fn note_size(&mut self, export: usize, bytes: u64) {
        self.exports.note_size(export, bytes);
    }

    /// This export cannot be changed: it is told so to clients that choose it from now on.
    pub fn note_read_only(&mut self, export: usize) {
        self.exports.note_read_only(export);
    }

    /// The same with TLS.
    pub fn with_tls(self, tls: TlsMode) -> Session {
        Session { tls, ..self }
    }

    /// From now on these exports are refused to clients that have not chosen yet.
    pub fn note_full(&mut self, exports: Vec<usize>) {
        self.full = exports;
    }

    /// The export that was refused for being full since this was asked last.
    pub fn take_refused(&mut self) -> Option<usize> {
        self.refused.take()
    }

    /// Names the exports that cannot be used from now on, each with the reason: clients that choose or ask for one are
    /// refused.
    pub fn note_unusable(&mut self, exports: Vec<(usize, String)>) {
        self.unusable = exports;
    }

    fn why_unusable(&self, export: usize) -> Option<&str> {
        self.unusable.iter().find(|(other, _)| *other == export).map(|(_, why)| why.as_str())
    }

    /// What a server sends first.
    pub fn greeting() -> Vec<u8> {
        let mut out = Vec::new();
        out.u64(GREETING).u64(OPTION).u16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        out
    }

    /// From now on options and requests are answered with a shutdown error.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// What the machine needs next from the wire.
    pub fn need(&self) -> Need {
        match self.state {
            State::ClientFlags => Need::Message(4),
            State::OptionHead => Need::Message(OPTION_LEN),
            State::OptionData { len, .. } => Need::Message(len as usize),
            State::LongOption { len, .. } | State::Refused { len, .. } => Need::Skip(len as usize),
            State::Request { .. } => Need::Message(Header::size(self.terms.form)),
            State::Query { head, .. } => Need::Message(head.len as usize),
            State::Payload { len, .. } => Need::Payload(len as usize),
            State::Over => Need::Nothing,
        }
    }

    /// Reads the message that [`Need::Message`] asked for.
    pub fn message(&mut self, bytes: &[u8]) -> Step {
        let need = self.need();
        if need != Need::Message(bytes.len()) {
            return self.end(Vec::new(), End::Drop(Violation::Feeding { need, got: bytes.len() }));
        }
        let step = match self.state {
            State::ClientFlags => self.client_flags(bytes),
            State::OptionHead => self.option_head(bytes),
            State::OptionData { option, .. } => self.option(option, bytes),
            State::Request { export } => self.request(export, bytes),
            State::Query { export, head } => Ok(self.query(export, &head, bytes)),
            _ => Err(Violation::Feeding { need, got: bytes.len() }),
        };
        step.unwrap_or_else(|violation| self.end(Vec::new(), End::Drop(violation)))
    }

    /// Goes on after the bytes of [`Need::Payload`] or [`Need::Skip`] have been taken from the wire.
    pub fn taken(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::OptionHead) {
            State::LongOption { option, len } => {
                let text = format!("{len} bytes of option data are more than {MAX_OPTION}");
                Step::Reply(OptionReply::to(option).error(rep::ERR_TOO_BIG, &text))
            }
            State::Payload { export, .. } => {
                self.state = State::Request { export };
                Step::Reply(Vec::new())
            }
            State::Refused { export, reply, .. } => {
                self.state = State::Request { export };
                Step::Reply(reply)
            }
            other => {
                self.state = other;
                self.end(Vec::new(), End::Drop(Violation::Feeding { need: self.need(), got: 0 }))
            }
        }
    }

    fn end(&mut self, reply: Vec<u8>, end: End) -> Step {
        self.state = State::Over;
        Step::End(reply, end)
    }

    fn client_flags(&mut self, bytes: &[u8]) -> Result<Step, Violation> {
        let flags = Reader::new(bytes).be_u32()?;
        if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
            return Err(Violation::ClientFlags(flags));
        }
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.state = State::OptionHead;
        Ok(Step::Reply(Vec::new()))
    }

    fn option_head(&mut self, bytes: &[u8]) -> Result<Step, Violation> {
        let mut r = Reader::new(bytes);
        let (magic, option, len) = (r.be_u64()?, r.be_u32()?, r.be_u32()?);
        if magic != OPTION {
            return Err(Violation::OptionMagic(magic));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(Violation::TooManyOptions);
        }
        match len {
            0 => return self.option(option, &[]),
            1..=MAX_OPTION => self.state = State::OptionData { option, len },
            LONG_OPTION..=MAX_PAYLOAD => self.state = State::LongOption { option, len },
            _ => return Err(Violation::LongOption { option, len }),
        }
        Ok(Step::Reply(Vec::new()))
    }

    fn option(&mut self, option: u32, data: &[u8]) -> Result<Step, Violation> {
        self.state = State::OptionHead;
        let reply = OptionReply::to(option);
        if option == opt::ABORT {
            return Ok(self.end(reply.ack(), End::Goodbye));
        }
        if option == opt::EXPORT_NAME {
            return self.export_name(data);
        }
        if self.stopping {
            return Ok(Step::Reply(reply.error(rep::ERR_SHUTDOWN, "the server is going down")));
        }
        if self.lacks_tls() && option != opt::STARTTLS {
            return Ok(Step::Reply(reply.error(rep::ERR_TLS_REQD, "this server speaks only inside TLS")));
        }
        let bare = matches!(option, opt::LIST | opt::STRUCTURED_REPLY | opt::EXTENDED_HEADERS | opt::STARTTLS);
        if bare && !data.is_empty() {
            return Ok(Step::Reply(reply.error(rep::ERR_INVALID, "this option takes no data")));
        }
        Ok(match option {
            opt::LIST => Step::Reply(self.exports.list().iter().fold(reply, OptionReply::server).ack()),
            opt::STRUCTURED_REPLY | opt::EXTENDED_HEADERS => Step::Reply(self.form(option)),
            opt::INFO | opt::GO => self.inform(option, data),
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => Step::Reply(self.contexts(option, data)),
            opt::STARTTLS => self.start_tls(reply),
            _ => Step::Reply(reply.error(rep::ERR_UNSUP, &format!("option {option} is not known"))),
        })
    }

    fn lacks_tls(&self) -> bool {
        self.tls == TlsMode::Require && !self.secured
    }

    /// What was agreed in the clear counts no more: a machine in between may have agreed to it.
    fn start_tls(&mut self, reply: OptionReply) -> Step {
        if self.secured {
            return Step::Reply(reply.error(rep::ERR_INVALID, "this is inside TLS already"));
        }
        if self.tls == TlsMode::Off {
            return Step::Reply(reply.error(rep::ERR_POLICY, "this server was not given a certificate for TLS"));
        }
        self.secured = true;
        (self.terms, self.selected) = (Terms::default(), None);
        Step::Secure(reply.ack())
    }

    fn form(&mut self, option: u32) -> Vec<u8> {
        let reply = OptionReply::to(option);
        if option == opt::EXTENDED_HEADERS {
            self.terms.form = Form::Extended;
        } else if self.terms.form == Form::Extended {
            return reply.error(rep::ERR_EXT_HEADER_REQD, "extended headers were agreed on already");
        } else {
            self.terms.form = Form::Structured;
        }
        reply.ack()
    }

    fn export_name(&mut self, data: &[u8]) -> Result<Step, Violation> {
        if self.lacks_tls() {
            return Err(Violation::OldWay("without TLS"));
        }
        if self.terms.form == Form::Extended {
            return Err(Violation::OldWay("after extended headers were agreed on"));
        }
        let name = text(data).map_err(Violation::ExportName)?;
        let export = self.exports.find(name).ok_or_else(|| Violation::UnknownExport(name.to_string()))?;
        if let Some(why) = self.why_unusable(export) {
            return Err(Violation::Unusable(name.to_string(), why.to_string()));
        }
        if self.full.contains(&export) {
            self.refused = Some(export);
            return Err(Violation::OldWay("but it has as many connections as it takes"));
        }
        let info = &self.exports.list()[export];
        let mut reply = Vec::new();
        reply.u64(info.size).u16(info.flags(self.terms));
        if !self.no_zeroes {
            reply.resize(reply.len() + RESERVED_LEN, 0);
        }
        Ok(self.begin(reply, export))
    }

    fn begin(&mut self, reply: Vec<u8>, export: usize) -> Step {
        let selected = self.selected.filter(|(of, _)| *of == export);
        self.terms.contexts = selected.map_or(Contexts::default(), |(_, contexts)| contexts);
        self.state = State::Request { export };
        Step::Begin { reply, export, terms: self.terms }
    }

    fn inform(&mut self, option: u32, data: &[u8]) -> Step {
        let reply = OptionReply::to(option);
        let query = match InfoQuery::parse(data) {
            Ok(query) => query,
            Err(why) => return Step::Reply(reply.error(rep::ERR_INVALID, &why.to_string())),
        };
        let Some(export) = self.exports.find(query.name) else {
            return Step::Reply(reply.error(rep::ERR_UNKNOWN, &unknown(query.name)));
        };
        if let Some(why) = self.why_unusable(export) {
            return Step::Reply(reply.error(rep::ERR_UNKNOWN, why));
        }
        if option == opt::GO && self.full.contains(&export) {
            self.refused = Some(export);
            return Step::Reply(
                reply.error(rep::ERR_POLICY, "the export has as many connections as it takes; close one"),
            );
        }
        let reply = reply.infos(&self.exports.list()[export], self.terms, &query.wanted).ack();
        if option == opt::GO { self.begin(reply, export) } else { Step::Reply(reply) }
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> Vec<u8> {
        let reply = OptionReply::to(option);
        let set = option == opt::SET_META_CONTEXT;
        if set {
            // Even a refused selection replaces the one before.
            self.selected = None;
        }
        if self.terms.form == Form::Simple {
            return reply.error(rep::ERR_INVALID, "structured replies or extended headers must be negotiated first");
        }
        let query = match ContextQuery::parse(data) {
            Ok(query) => query,
            Err(why) => return reply.error(rep::ERR_INVALID, &why.to_string()),
        };
        let Some(export) = self.exports.find(query.name) else {
            return reply.error(rep::ERR_UNKNOWN, &unknown(query.name));
        };
        let offered = self.exports.list()[export].contexts;
        let chosen = if set { query.selected(offered) } else { query.listed(offered) };
        if set {
            self.selected = Some((export, chosen));
        }
        reply.contexts(chosen, set).ack()
    }

    fn request(&mut self, export: usize, bytes: &[u8]) -> Result<Step, Violation> {
        let head = Header::parse(bytes, self.terms.form)?;
        if head.command == cmd::DISC {
            return Ok(self.end(Vec::new(), End::Goodbye));
        }
        let len = head.payload(self.terms.form);
        let payload = u32::try_from(len).ok().filter(|len| *len <= MAX_PAYLOAD).ok_or(Violation::LongPayload(len))?;
        if head.is_query(self.terms.form) && (1..=MAX_QUERY).contains(&len) {
            self.state = State::Query { export, head };
            return Ok(Step::Reply(Vec::new()));
        }
        Ok(match self.accept(export, |info, terms| head.check(info, terms)) {
            Ok(op) => {
                if payload > 0 {
                    self.state = State::Payload { export, len: payload };
                }
                Step::Serve(Request { cookie: head.cookie, op })
            }
            Err(failure) => self.refuse(export, payload, self.terms.failed(head.reply_to(), &failure)),
        })
    }

    /// A block status whose payload has come.
    fn query(&mut self, export: usize, head: &Header, data: &[u8]) -> Step {
        self.state = State::Request { export };
        match self.accept(export, |info, terms| head.check_query(data, info, terms)) {
            Ok(op) => Step::Serve(Request { cookie: head.cookie, op }),
            Err(failure) => Step::Reply(self.terms.failed(head.reply_to(), &failure)),
        }
    }

    fn accept(
        &self,
        export: usize,
        check: impl FnOnce(&ExportInfo, Terms) -> Result<Op, Failure>,
    ) -> Result<Op, Failure> {
        if self.stopping {
            return Err(Failure::new(Errno::Shutdown, "the server is going down"));
        }
        check(&self.exports.list()[export], self.terms)
    }

    /// The payload of a refused write must leave the wire before the next request can be found.
    fn refuse(&mut self, export: usize, len: u32, reply: Vec<u8>) -> Step {
        if len == 0 {
            return Step::Reply(reply);
        }
        self.state = State::Refused { export, len, reply };
        Step::Reply(Vec::new())
    }
}

fn unknown(name: &str) -> String {
    format!("no export is named {name:?}; ask for the list of exports")
}
