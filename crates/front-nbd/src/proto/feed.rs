//! Drives a session from chunks of bytes of any size: what a fuzzer or a test has instead of a socket.

use super::Need;
use super::reply::Terms;
use super::request::Request;
use super::session::{End, Session, Step};

/// What a session did with the bytes it was fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It sent bytes.
    Sent(Vec<u8>),
    /// It sent these bytes and would begin TLS, which a feeder leaves out.
    Secured(Vec<u8>),
    /// An export was chosen.
    Began {
        /// Its index.
        export: usize,
        /// How replies are made.
        terms: Terms,
    },
    /// A request was accepted.
    Serve(Request),
    /// Payload of the last request arrived: this many bytes, not kept.
    Payload(usize),
    /// The conversation ended.
    Ended(End),
}

/// A session and the bytes of the message it waits for.
#[derive(Debug)]
pub struct Feeder {
    session: Session,
    message: Vec<u8>,
    /// Bytes of the current payload or skipped part already taken.
    taken: usize,
}

impl Feeder {
    /// A feeder for a new session, whose greeting counts as sent.
    pub fn new(session: Session) -> Feeder {
        Feeder { session, message: Vec::new(), taken: 0 }
    }

    /// The session.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Bytes held back because their message is not complete; never more than [`super::wire::MAX_OPTION`].
    pub fn held(&self) -> usize {
        self.message.len()
    }

    /// Hands `bytes` to the session, piece by piece as it needs them. Bytes after the end are ignored.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let Some(rest) = self.piece(bytes, &mut events) else { break };
            bytes = rest;
        }
        events
    }

    /// Takes one piece off the front and returns what is left; nothing once the session is over.
    fn piece<'a>(&mut self, bytes: &'a [u8], events: &mut Vec<Event>) -> Option<&'a [u8]> {
        let need = self.session.need();
        match need {
            Need::Message(len) => {
                let (now, rest) = bytes.split_at(bytes.len().min(len - self.message.len()));
                self.message.extend_from_slice(now);
                if self.message.len() == len {
                    let step = self.session.message(&self.message);
                    self.message.clear();
                    record(step, events);
                }
                Some(rest)
            }
            Need::Payload(len) | Need::Skip(len) => {
                let (now, rest) = bytes.split_at(bytes.len().min(len - self.taken));
                self.taken += now.len();
                if matches!(need, Need::Payload(_)) {
                    events.push(Event::Payload(now.len()));
                }
                if self.taken == len {
                    self.taken = 0;
                    record(self.session.taken(), events);
                }
                Some(rest)
            }
            Need::Nothing => None,
        }
    }
}

fn record(step: Step, events: &mut Vec<Event>) {
    let sent = |bytes: Vec<u8>| (!bytes.is_empty()).then_some(Event::Sent(bytes));
    match step {
        Step::Reply(bytes) => events.extend(sent(bytes)),
        Step::Begin { reply, export, terms } => {
            events.extend(sent(reply));
            events.push(Event::Began { export, terms });
        }
        Step::Secure(bytes) => events.push(Event::Secured(bytes)),
        Step::Serve(request) => events.push(Event::Serve(request)),
        Step::End(bytes, end) => {
            events.extend(sent(bytes));
            events.push(Event::Ended(end));
        }
    }
}
