//! What a server knows of its connections, for operators.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{Nanos, Time};

use crate::proto::{Op, Request};
use crate::slots::{GaveWay, LastMoved};

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its number, from 1, never used again.
    pub number: u64,
    /// The peer, as far as the kernel knows it.
    pub peer: String,
    /// The export that it chose; none while it has not.
    pub export: Option<String>,
    /// Whether it is inside TLS.
    pub tls: bool,
    /// The subject of the certificate that it showed.
    pub subject: Option<String>,
    /// When it came.
    pub since: Time,
    /// Requests that it made.
    pub requests: u64,
    /// Those of them that have no answer yet.
    pub in_flight: u64,
    /// Bytes that it asked to read.
    pub read_bytes: u64,
    /// Bytes that it asked to write.
    pub written_bytes: u64,
}

/// The running account of one connection.
pub(crate) struct Account {
    pub number: u64,
    pub peer: String,
    pub since: Time,
    pub export: Cell<Option<usize>>,
    pub tls: Cell<bool>,
    /// The subject of the certificate that it showed.
    pub subject: RefCell<Option<String>>,
    /// When bytes last moved.
    pub moved: LastMoved,
    /// Why it had to end for another one.
    pub gave_way: Cell<Option<GaveWay>>,
    has_begun: Cell<bool>,
    requests: Cell<u64>,
    answered: Cell<u64>,
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl Account {
    pub(crate) fn new(number: u64, peer: String, since: Time) -> Account {
        Account {
            number,
            peer,
            since,
            export: Cell::default(),
            tls: Cell::default(),
            subject: RefCell::default(),
            moved: Rc::new(Cell::new(since)),
            gave_way: Cell::default(),
            has_begun: Cell::default(),
            requests: Cell::default(),
            answered: Cell::default(),
            read_bytes: Cell::default(),
            written_bytes: Cell::default(),
        }
    }

    /// A request begins; [`Account::answered`] ends it.
    pub(crate) fn asked(&self, request: &Request) {
        add(&self.requests, 1);
        match &request.op {
            Op::Read { range, .. } => add(&self.read_bytes, range.len()),
            Op::Write { range, .. } => add(&self.written_bytes, range.len()),
            _ => {}
        }
    }

    pub(crate) fn answered(&self) {
        add(&self.answered, 1);
    }

    /// For how long no byte has moved; none while a request has no answer.
    pub(crate) fn idle(&self, now: Time) -> Option<Nanos> {
        (self.requests.get() == self.answered.get()).then(|| now.since(self.moved.get()))
    }

    /// The head of a request has come.
    pub(crate) fn began(&self) {
        self.has_begun.set(true);
    }

    pub(crate) fn has_asked_nothing(&self) -> bool {
        !self.has_begun.get()
    }

    pub(crate) fn info(&self, export: Option<String>) -> ClientInfo {
        ClientInfo {
            number: self.number,
            peer: self.peer.clone(),
            export,
            tls: self.tls.get(),
            subject: self.subject.borrow().clone(),
            since: self.since,
            requests: self.requests.get(),
            in_flight: self.requests.get() - self.answered.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
        }
    }
}
