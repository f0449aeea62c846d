//! A load whose every answer is noted, and the check of what a server gives back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream};
use esker_front_nbd::client::Fault;
use esker_front_nbd::{Client, Uri};
use esker_rt::Rt;
use esker_rt::mem::{Pool, Slice};
use esker_rt::net;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, race};

use crate::ledger::{Ledger, Lost};

/// Writes begin and end at multiples of this.
pub const BLOCK: u64 = 4096;
/// Blocks of one request, at most.
const RUN_MAX: u64 = 16;
/// Bytes read at once by the check.
pub const CHECK_BYTES: u64 = 1 << 20;
/// A request that takes longer hangs.
const REQUEST_MAX: Nanos = Nanos::secs(30);
/// After a request that failed, before the next one.
const PAUSE: Nanos = Nanos::millis(1);

/// What the load does in `PARTS` parts: the rest are writes.
const PARTS: u64 = 16;

pub async fn connect(rt: &Rt, uri: &str) -> Client {
    let uri: Uri = uri.parse().unwrap();
    let stream = net::Stream::connect(rt, &uri.address).unwrap();
    Client::connect(rt, &Pool::default(), stream, &uri.export).await.unwrap()
}

/// Runs something with a client in a world of its own.
fn with_client<T: 'static, F: Future<Output = T> + 'static>(uri: &str, run: impl FnOnce(Client) -> F + 'static) -> T {
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let (rt, uri) = (reactor.rt(), uri.to_string());
    reactor.block_on(async move { run(connect(&rt, &uri).await).await })
}

/// Bytes of an export.
pub fn size_of(uri: &str) -> u64 {
    with_client(uri, |client| async move { client.remote().size })
}

/// Makes `bytes` from `base` on read as zeroes, durably: those of a new encrypted device do not.
pub fn clear(uri: &str, base: u64, bytes: u64) {
    with_client(uri, move |client| async move {
        for at in (0..bytes).step_by(CHECK_BYTES as usize) {
            client.write(base + at, Slice::heap(vec![0; CHECK_BYTES as usize]), false).await.unwrap();
        }
        client.flush().await.unwrap();
    });
}

/// Reads all that the ledger is about, and returns the sectors that hold less than was promised.
pub fn check_export(uri: &str, base: u64, book: &Rc<RefCell<Ledger>>) -> Result<Vec<Lost>, Fault> {
    let book = book.clone();
    with_client(uri, move |client| async move {
        let (bytes, mut lost) = (book.borrow().bytes(), Vec::new());
        for at in (0..bytes).step_by(CHECK_BYTES as usize) {
            let slab = client.read(ByteRange::new(base + at, CHECK_BYTES).unwrap()).await?;
            lost.extend(book.borrow_mut().check(at, &slab[..CHECK_BYTES as usize]));
        }
        // What was seen is there for the next server too.
        client.flush().await?;
        client.disconnect().await?;
        Ok(lost)
    })
}

/// What a load met, beside its ledger.
#[derive(Default)]
pub struct Met {
    pub requests: Cell<u64>,
    pub refused: Cell<u64>,
    /// Requests without an answer.
    pub hangs: Cell<u64>,
    pub lost: RefCell<Vec<Lost>>,
}

/// Several tasks on one connection, which never touch one block at the same time.
pub struct Load {
    rt: Rt,
    client: Client,
    /// Where in the export the ledger begins.
    base: u64,
    book: Rc<RefCell<Ledger>>,
    met: Rc<Met>,
    /// Blocks of requests under way.
    busy: RefCell<BTreeSet<u64>>,
}

impl Load {
    pub async fn connect(rt: &Rt, uri: &str, base: u64, book: Rc<RefCell<Ledger>>, met: Rc<Met>) -> Load {
        Load { rt: rt.clone(), client: connect(rt, uri).await, base, book, met, busy: RefCell::default() }
    }

    /// Writes and flushes until a request fails.
    pub async fn write(&self, mut random: Stream) {
        loop {
            let went = match random.below(PARTS) {
                0 => self.flush().await,
                choice => self.write_once(&mut random, choice == 1).await,
            };
            if went.is_err() {
                return;
            }
        }
    }

    /// Writes, reads, zeroes, trims and flushes until the connection is lost. Requests that the server refuses are
    /// counted.
    pub async fn mix(&self, mut random: Stream) {
        loop {
            let went = match race(self.any(&mut random), self.rt.sleep(REQUEST_MAX)).await {
                Either::Left(went) => went,
                Either::Right(()) => {
                    self.met.hangs.set(self.met.hangs.get() + 1);
                    return;
                }
            };
            self.met.requests.set(self.met.requests.get() + 1);
            match went {
                Ok(()) => {}
                Err(Fault::Server(_)) => {
                    self.met.refused.set(self.met.refused.get() + 1);
                    self.rt.sleep(PAUSE).await;
                }
                Err(_) => return,
            }
        }
    }

    async fn any(&self, random: &mut Stream) -> Result<(), Fault> {
        match random.below(PARTS) {
            0 => self.flush().await,
            choice @ (1 | 2) => self.zero_once(random, choice == 1).await,
            3..6 => self.read_once(random).await,
            choice => self.write_once(random, choice == 6).await,
        }
    }

    async fn flush(&self) -> Result<(), Fault> {
        let begun = self.book.borrow().flush_begins();
        self.client.flush().await?;
        self.book.borrow_mut().flush_ends(begun);
        Ok(())
    }

    async fn write_once(&self, random: &mut Stream, durable: bool) -> Result<(), Fault> {
        let (at, bytes) = self.choose(random);
        let (write, content) = self.book.borrow_mut().send(at, bytes as usize);
        let went = self.client.write(self.base + at, Slice::heap(content), durable).await;
        if went.is_ok() {
            self.book.borrow_mut().answer(write, durable);
        }
        self.release(at, bytes);
        went
    }

    /// Zeroes a range; first trims it, now and then.
    async fn zero_once(&self, random: &mut Stream, is_trimmed: bool) -> Result<(), Fault> {
        let (at, bytes) = self.choose(random);
        let range = ByteRange::new(self.base + at, bytes).expect("it lies in the export");
        let went = self.zero(at, range, is_trimmed, random.below(2) == 0).await;
        self.release(at, bytes);
        went
    }

    async fn zero(&self, at: u64, range: ByteRange, is_trimmed: bool, no_hole: bool) -> Result<(), Fault> {
        if is_trimmed {
            self.book.borrow_mut().trim(at, range.len() as usize);
            self.client.trim(range, false).await?;
        }
        let zeroes = self.book.borrow_mut().send_zeroes(at, range.len() as usize);
        self.client.write_zeroes(range, false, no_hole).await?;
        self.book.borrow_mut().answer(zeroes, false);
        Ok(())
    }

    async fn read_once(&self, random: &mut Stream) -> Result<(), Fault> {
        let (at, bytes) = self.choose(random);
        let range = ByteRange::new(self.base + at, bytes).expect("it lies in the export");
        let read = self.client.read(range).await;
        if let Ok(slab) = &read {
            self.met.lost.borrow_mut().extend(self.book.borrow().check_answered(at, &slab[..bytes as usize]));
        }
        self.release(at, bytes);
        read.map(|_| ())
    }

    /// A range that no request under way touches, as its offset in the ledger and its length; it is busy from then on.
    fn choose(&self, random: &mut Stream) -> (u64, u64) {
        let blocks = self.book.borrow().bytes() / BLOCK;
        let mut busy = self.busy.borrow_mut();
        loop {
            let count = 1 + random.below(RUN_MAX);
            let first = random.below(blocks - count);
            if busy.range(first..first + count).next().is_none() {
                busy.extend(first..first + count);
                return (first * BLOCK, count * BLOCK);
            }
        }
    }

    fn release(&self, at: u64, bytes: u64) {
        self.busy.borrow_mut().retain(|block| !(at..at + bytes).contains(&(block * BLOCK)));
    }
}
