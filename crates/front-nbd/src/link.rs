//! What a connection's bytes travel on: a stream, bare at first and inside TLS from [`Link::secure`] on.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;

use esker_rt::mem::{Mem, Parts, Slice};
use esker_rt::net::Stream;
use esker_rt::net::interrupt::Interrupt;
use esker_rt::sync::Credits;
use rustls::Connection;

/// Bytes that leave in one piece, before encryption.
const SEND_BYTES: usize = 64 << 10;
/// Bytes that are received at once, before decryption.
const RECEIVE_BYTES: usize = 64 << 10;

/// A stream, bare or inside TLS. Cheap to clone; clones are one link. One task reads and one writes.
#[derive(Clone)]
pub(crate) struct Link(Rc<Inner>);

struct Inner {
    stream: Stream,
    tls: OnceCell<Tls>,
    /// Called each time when bytes have moved in either direction.
    moved: Box<dyn Fn()>,
}

struct Tls {
    session: RefCell<Connection>,
    /// Held by the sender: records leave in the order in which they were made.
    sending: Credits,
    received: RefCell<Received>,
    /// Bytes of content and messages that encryption moved from one buffer to another.
    copied: Rc<Cell<u64>>,
}

/// Encrypted bytes that have come and are not decrypted yet.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    taken: usize,
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Link {
        Link::noting(stream, || {})
    }

    /// The same; `moved` is called each time when bytes have moved in either direction.
    pub(crate) fn noting(stream: Stream, moved: impl Fn() + 'static) -> Link {
        Link(Rc::new(Inner { stream, tls: OnceCell::new(), moved: Box::new(moved) }))
    }

    /// The certificate that the other side has shown, in DER form.
    pub(crate) fn peer_certificate(&self) -> Option<Vec<u8>> {
        let session = self.0.tls.get()?.session.borrow();
        session.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    }

    /// Shakes hands; nothing may be sent or received meanwhile. What TLS copies is added to `copied`.
    pub(crate) async fn secure(&self, session: Connection, copied: Rc<Cell<u64>>) -> io::Result<()> {
        let Inner { tls, .. } = &*self.0;
        let (session, sending) = (RefCell::new(session), Credits::new(1));
        let tls = tls.get_or_init(|| Tls { session, sending, received: RefCell::default(), copied });
        loop {
            tls.flush(&self.0).await?;
            if !tls.session.borrow().is_handshaking() {
                return Ok(());
            }
            if !tls.receive(&self.0).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads at least one byte into the parts, in order, unless the stream has ended (0 bytes).
    pub(crate) async fn read(&self, mut parts: Parts) -> (Parts, io::Result<usize>) {
        match self.0.tls.get() {
            None => {
                let (parts, result) = self.0.stream.read(parts).await;
                if matches!(result, Ok(1..)) {
                    (self.0.moved)();
                }
                (parts, result)
            }
            Some(tls) => {
                let result = tls.read(&self.0, &mut parts).await;
                (parts, result)
            }
        }
    }

    /// The same; a bare link waits no longer than `interrupt` allows, and has read nothing if it is ended.
    pub(crate) async fn read_unless(&self, parts: Parts, interrupt: &Interrupt) -> (Parts, io::Result<usize>) {
        if self.is_secure() {
            return self.read(parts).await;
        }
        let (parts, result) = self.0.stream.read_unless(parts, interrupt).await;
        if matches!(result, Ok(1..)) {
            (self.0.moved)();
        }
        (parts, result)
    }

    /// Whether it is inside TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.tls.get().is_some()
    }

    /// The stream beneath.
    pub(crate) fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Fills all parts, which come back as they were.
    pub(crate) async fn read_exact(&self, parts: Parts) -> io::Result<Parts> {
        let all = parts.iter().map(|part| part.len).sum();
        self.read_at_least(parts, all).await.map(|(parts, _)| parts)
    }

    /// Fills the first `bytes_min` bytes of the parts, which come back as they were, and maybe more. Says how many.
    pub(crate) async fn read_at_least(&self, mut parts: Parts, bytes_min: usize) -> io::Result<(Parts, usize)> {
        let Inner { stream, tls, moved } = &*self.0;
        let Some(tls) = tls.get() else { return stream.read_at_least_noting(parts, bytes_min, moved).await };
        let mut left = bytes_min;
        for part in &mut parts {
            let (mut done, end) = (0, part.len.min(left));
            while done < end {
                let out = part.bytes_mut().map(|bytes| &mut bytes[done..end]).unwrap_or_default();
                match tls.read_into(&self.0, out).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => done += n,
                }
            }
            left -= end;
        }
        Ok((parts, bytes_min))
    }

    /// Writes all parts, in order.
    pub(crate) async fn write_all(&self, parts: Parts) -> io::Result<()> {
        match self.0.tls.get() {
            None => self.0.stream.write_all_noting(parts, &self.0.moved).await.map(drop),
            Some(tls) => tls.write_all(&self.0, &parts).await,
        }
    }

    /// Memory of what the other end has not taken yet.
    pub(crate) fn untaken(&self) -> usize {
        self.0.stream.untaken()
    }

    /// Says that nothing more is sent, where that can be said.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        let Some(tls) = self.0.tls.get() else { return Ok(()) };
        tls.session.borrow_mut().send_close_notify();
        tls.flush(&self.0).await
    }

    /// Ends the stream in both directions.
    pub(crate) fn shutdown(&self) {
        self.0.stream.shutdown();
    }
}

impl Tls {
    async fn read(&self, link: &Inner, parts: &mut [Slice]) -> io::Result<usize> {
        let Some(first) = parts.iter_mut().find(|part| part.len > 0) else { return Ok(0) };
        let out = first.bytes_mut().unwrap_or_default();
        self.read_into(link, out).await
    }

    async fn read_into(&self, link: &Inner, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.session.borrow_mut().reader().read(out);
            match got {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other.inspect(|n| self.note(*n)),
            }
            self.receive(link).await?;
            self.flush(link).await?;
        }
    }

    /// Decrypts what has come, or waits for more. False at the end of the stream.
    async fn receive(&self, link: &Inner) -> io::Result<bool> {
        if self.received.borrow().is_empty() {
            let buffer = std::mem::take(&mut self.received.borrow_mut().bytes);
            let (parts, got) = link.stream.read(Slice::heap(sized(buffer))).await;
            let got = got?;
            if got > 0 {
                (link.moved)();
            }
            if let Some(Slice { mem: Mem::Heap(mut bytes), .. }) = parts.into_iter().next() {
                bytes.truncate(got);
                *self.received.borrow_mut() = Received { bytes, taken: 0 };
            }
        }
        let mut received = self.received.borrow_mut();
        let mut session = self.session.borrow_mut();
        // Also without bytes: that is how the session learns that the stream has ended.
        let taken = session.read_tls(&mut &received.bytes[received.taken..])?;
        received.taken += taken;
        session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(taken > 0)
    }

    async fn write_all(&self, link: &Inner, parts: &[Slice]) -> io::Result<()> {
        let mut waiting = 0;
        for piece in parts.iter().flat_map(|part| part.bytes().chunks(SEND_BYTES)) {
            if waiting + piece.len() > SEND_BYTES {
                self.flush(link).await?;
                waiting = 0;
            }
            let mut session = self.session.borrow_mut();
            session.set_buffer_limit(None);
            session.writer().write_all(piece)?;
            waiting += piece.len();
            self.note(piece.len());
        }
        self.flush(link).await
    }

    /// Sends all records that were made.
    async fn flush(&self, link: &Inner) -> io::Result<()> {
        if !self.session.borrow().wants_write() {
            return Ok(());
        }
        self.sending.take(1).await;
        let result = self.send_records(link).await;
        self.sending.give(1);
        result
    }

    async fn send_records(&self, link: &Inner) -> io::Result<()> {
        loop {
            let mut records = Vec::new();
            while self.session.borrow().wants_write() {
                self.session.borrow_mut().write_tls(&mut records)?;
            }
            if records.is_empty() {
                return Ok(());
            }
            link.stream.write_all_noting(Slice::heap(records), &link.moved).await?;
        }
    }

    fn note(&self, bytes: usize) {
        self.copied.set(self.copied.get() + bytes as u64);
    }
}

impl Received {
    fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

fn sized(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.resize(RECEIVE_BYTES, 0);
    buffer
}
