//! The client's side of the handshake: structured replies and `base:allocation` if the server has them, then
//! `NBD_OPT_GO`.

use esker_base::codec::{Reader, Short};

use super::Need;
use super::context::{Context, Contexts};
use super::option::{Malformed, encode, text};
use super::reply::{Form, Terms};
use super::wire::{
    GREETING, GREETING_LEN, MAX_OPTION, OPTION, OPTION_REPLY, OPTION_REPLY_LEN, Put, flag, handshake, info, opt, rep,
};

/// Why a client gives up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not an NBD server, or one of before 2007.
    #[error("the peer greets with {0:#018x} {1:#018x}; it is not a newstyle NBD server")]
    Greeting(u64, u64),
    /// A server that cannot refuse options.
    #[error("the server does not speak the fixed newstyle handshake")]
    OldServer,
    /// A reply out of place.
    #[error("the server answers option {got} with magic {magic:#x}, but option {asked} was asked")]
    OutOfPlace {
        /// The option that was asked.
        asked: u32,
        /// The option that is answered.
        got: u32,
        /// The reply's magic.
        magic: u64,
    },
    /// A reply that is too long.
    #[error("the server answers option {option} with {len} bytes; at most {MAX_OPTION} are read")]
    LongReply {
        /// The option.
        option: u32,
        /// The reply's length.
        len: u32,
    },
    /// A refused export.
    #[error("the server refuses export {name:?}: {message} (reply type {kind:#x})")]
    Refused {
        /// The export asked for.
        name: String,
        /// Type of the reply.
        kind: u32,
        /// The server's text.
        message: String,
    },
    /// TLS was wanted.
    #[error("the server does not speak TLS: {0}")]
    NoTls(String),
    /// An acknowledgement without information.
    #[error("the server accepts export {0:?} without telling its size")]
    NoSize(String),
    /// A name that the protocol cannot carry.
    #[error("export name {0:?} is too long or holds a NUL")]
    Name(String),
    /// A message that cannot be read.
    #[error("the server's message cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// Not a reply; where the next one begins cannot be known.
    #[error("a reply begins with {0:#010x}, which is no reply's magic")]
    ReplyMagic(u32),
    /// A reply to nothing.
    #[error("a reply names request {0:#x}, which is not under way")]
    Cookie(u64),
    /// A reply that does not answer its request.
    #[error("a reply to request {cookie:#x} {what}")]
    Chunk {
        /// The request.
        cookie: u64,
        /// What is wrong with the reply.
        what: &'static str,
    },
    /// The caller of the machine gave it something else than it needed.
    #[error("{got} bytes were given to a client that needs {need:?}")]
    Feeding {
        /// What it needed.
        need: Need,
        /// Bytes given.
        got: usize,
    },
}

impl From<Short> for ClientError {
    fn from(short: Short) -> ClientError {
        ClientError::Malformed(Malformed::Short(short))
    }
}

/// An export as the server described it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// Bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    /// Minimum, preferred block and maximum payload in bytes, if stated.
    pub blocks: Option<(u32, u32, u32)>,
    /// The server's name for it, if stated.
    pub name: Option<String>,
    /// The server's text about it, if stated.
    pub description: Option<String>,
    /// What was negotiated.
    pub terms: Terms,
    /// The server's numbers of the contexts in block status replies.
    pub contexts: Vec<(u32, Context)>,
}

impl Remote {
    /// Whether writes are refused.
    pub fn read_only(&self) -> bool {
        self.flags & flag::READ_ONLY != 0
    }
}

/// What the caller does after the machine has read a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Send these bytes (there may be none) and go on.
    Send(Vec<u8>),
    /// Shake hands for TLS, and go on inside it with what [`Handshake::secured`] says.
    Secure,
    /// Requests may be sent.
    Ready(Remote),
}

#[derive(Debug)]
enum State {
    Greeting,
    ReplyHead,
    ReplyData { kind: u32, len: usize },
    Securing,
    Over,
}

/// The client's machine of the handshake.
#[derive(Debug)]
pub struct Handshake {
    name: String,
    state: State,
    /// The option whose replies are awaited.
    asked: u32,
    remote: Remote,
    sized: bool,
    tls: bool,
}

impl Handshake {
    /// A handshake for the export of this name.
    pub fn new(name: &str) -> Result<Handshake, ClientError> {
        text(name.as_bytes()).map_err(|_| ClientError::Name(name.to_string()))?;
        Ok(Handshake {
            name: name.to_string(),
            state: State::Greeting,
            asked: 0,
            remote: Remote::default(),
            sized: false,
            tls: false,
        })
    }

    /// The same, with everything after the greeting inside TLS.
    pub fn with_tls(self) -> Handshake {
        Handshake { tls: true, ..self }
    }

    /// What is sent first inside TLS, after [`HandshakeStep::Secure`].
    pub fn secured(&mut self) -> Vec<u8> {
        self.ask(opt::EXTENDED_HEADERS)
    }

    /// What the machine needs next from the wire.
    pub fn need(&self) -> Need {
        match self.state {
            State::Greeting => Need::Message(GREETING_LEN),
            State::ReplyHead => Need::Message(OPTION_REPLY_LEN),
            State::ReplyData { len, .. } => Need::Message(len),
            State::Securing | State::Over => Need::Nothing,
        }
    }

    /// Reads the message that [`Need::Message`] asked for. After an error the handshake is over.
    pub fn message(&mut self, bytes: &[u8]) -> Result<HandshakeStep, ClientError> {
        let need = self.need();
        let state = std::mem::replace(&mut self.state, State::Over);
        if need != Need::Message(bytes.len()) {
            return Err(ClientError::Feeding { need, got: bytes.len() });
        }
        match state {
            State::Greeting => self.greeting(bytes),
            State::ReplyHead => self.reply_head(bytes),
            State::ReplyData { kind, .. } => self.reply(kind, bytes),
            State::Securing | State::Over => Err(ClientError::Feeding { need, got: bytes.len() }),
        }
    }

    fn greeting(&mut self, bytes: &[u8]) -> Result<HandshakeStep, ClientError> {
        let mut r = Reader::new(bytes);
        let (first, second, flags) = (r.be_u64()?, r.be_u64()?, r.be_u16()?);
        if (first, second) != (GREETING, OPTION) {
            return Err(ClientError::Greeting(first, second));
        }
        if flags & handshake::FIXED_NEWSTYLE == 0 {
            return Err(ClientError::OldServer);
        }
        let mut out = Vec::new();
        out.u32(u32::from(flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES)));
        out.bytes(&self.ask(if self.tls { opt::STARTTLS } else { opt::EXTENDED_HEADERS }));
        Ok(HandshakeStep::Send(out))
    }

    /// The bytes of an option, whose reply is awaited from now on.
    fn ask(&mut self, option: u32) -> Vec<u8> {
        self.asked = option;
        self.state = State::ReplyHead;
        let mut data = Vec::new();
        match option {
            opt::SET_META_CONTEXT => {
                self.put_name(&mut data);
                data.u32(Context::ALL.len() as u32);
                for name in Context::ALL.map(Context::name) {
                    data.u32(name.len() as u32).bytes(name.as_bytes());
                }
            }
            opt::GO => {
                self.put_name(&mut data);
                data.u16(3).u16(info::BLOCK_SIZE).u16(info::NAME).u16(info::DESCRIPTION);
            }
            _ => {}
        }
        encode(option, &data)
    }

    fn put_name(&self, data: &mut Vec<u8>) {
        data.u32(self.name.len() as u32).bytes(self.name.as_bytes());
    }

    fn reply_head(&mut self, bytes: &[u8]) -> Result<HandshakeStep, ClientError> {
        let mut r = Reader::new(bytes);
        let (magic, got, kind, len) = (r.be_u64()?, r.be_u32()?, r.be_u32()?, r.be_u32()?);
        if magic != OPTION_REPLY || got != self.asked {
            return Err(ClientError::OutOfPlace { asked: self.asked, got, magic });
        }
        match len {
            0 => return self.reply(kind, &[]),
            1..=MAX_OPTION => self.state = State::ReplyData { kind, len: len as usize },
            _ => return Err(ClientError::LongReply { option: got, len }),
        }
        Ok(HandshakeStep::Send(Vec::new()))
    }

    fn reply(&mut self, kind: u32, data: &[u8]) -> Result<HandshakeStep, ClientError> {
        let last = kind == rep::ACK || kind & rep::ERROR != 0;
        if !last {
            self.state = State::ReplyHead;
            self.partial(kind, data)?;
            return Ok(HandshakeStep::Send(Vec::new()));
        }
        let agreed = kind == rep::ACK;
        let message = || String::from_utf8_lossy(data).into_owned();
        match self.asked {
            opt::STARTTLS if agreed => {
                self.state = State::Securing;
                Ok(HandshakeStep::Secure)
            }
            opt::STARTTLS => Err(ClientError::NoTls(message())),
            opt::EXTENDED_HEADERS if agreed => {
                self.remote.terms.form = Form::Extended;
                Ok(HandshakeStep::Send(self.ask(opt::SET_META_CONTEXT)))
            }
            opt::EXTENDED_HEADERS => Ok(HandshakeStep::Send(self.ask(opt::STRUCTURED_REPLY))),
            opt::STRUCTURED_REPLY if agreed => {
                self.remote.terms.form = Form::Structured;
                Ok(HandshakeStep::Send(self.ask(opt::SET_META_CONTEXT)))
            }
            opt::SET_META_CONTEXT => {
                if !agreed {
                    self.remote.contexts.clear();
                }
                self.remote.terms.contexts =
                    self.remote.contexts.iter().map(|(_, context)| *context).collect::<Contexts>();
                Ok(HandshakeStep::Send(self.ask(opt::GO)))
            }
            opt::GO if agreed && self.sized => Ok(HandshakeStep::Ready(std::mem::take(&mut self.remote))),
            opt::GO if agreed => Err(ClientError::NoSize(self.name.clone())),
            opt::GO => Err(ClientError::Refused { name: self.name.clone(), kind, message: message() }),
            _ => Ok(HandshakeStep::Send(self.ask(opt::GO))),
        }
    }

    /// A reply before the last one.
    fn partial(&mut self, kind: u32, data: &[u8]) -> Result<(), ClientError> {
        let mut r = Reader::new(data);
        match (self.asked, kind) {
            (opt::SET_META_CONTEXT, rep::META_CONTEXT) => {
                let id = r.be_u32()?;
                let context = Context::named(text(r.take(r.left())?)?);
                let known = self.remote.contexts.iter().any(|(other, of)| *other == id || Some(*of) == context);
                self.remote.contexts.extend(context.filter(|_| !known).map(|context| (id, context)));
            }
            (opt::GO, rep::INFO) => self.information(&mut r)?,
            _ => {}
        }
        Ok(())
    }

    fn information(&mut self, r: &mut Reader<'_>) -> Result<(), ClientError> {
        match r.be_u16()? {
            info::EXPORT => {
                (self.remote.size, self.remote.flags) = (r.be_u64()?, r.be_u16()?);
                self.sized = true;
            }
            info::BLOCK_SIZE => self.remote.blocks = Some((r.be_u32()?, r.be_u32()?, r.be_u32()?)),
            info::NAME => self.remote.name = Some(text(r.take(r.left())?)?.to_string()),
            info::DESCRIPTION => self.remote.description = Some(text(r.take(r.left())?)?.to_string()),
            _ => {}
        }
        Ok(())
    }
}
