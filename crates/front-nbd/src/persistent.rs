//! A client that connects again when its connection is lost, and sends what was not answered once more.
//!
//! Every request of the protocol does the same when it is done twice in a row, so all may be sent again. Two things
//! are not hidden. A write that was answered but not flushed may be gone with a server that died: the next flush says
//! so, once ([`Fault::Forgotten`]). And a server may still carry out a request of the lost connection: its writer must
//! not depend on the order of that request and later ones to the same bytes.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use esker_base::{ByteRange, Nanos};
use esker_rt::mem::{Mem, Pool, Slab, Slice};
use esker_rt::net::Stream;
use esker_rt::sync::Credits;
use esker_rt::{Level, Rt};

use crate::client::{Client, Fault};
use crate::proto::wire::Errno;
use crate::proto::{Extent, Remote};
use crate::tls::ClientTls;

/// How long it is tried to connect again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Before the second attempt; doubles with each one.
    pub wait_first: Nanos,
    /// Longest wait between two attempts.
    pub wait_max: Nanos,
    /// Attempts, before the requests that wait fail with the last reason. Also how often one request is sent.
    pub attempts_max: u32,
}

impl Policy {
    /// From 50 ms to 5 s between attempts, about a minute in all.
    pub fn production() -> Policy {
        Policy { wait_first: Nanos::millis(50), wait_max: Nanos::secs(5), attempts_max: 18 }
    }
}

/// Makes a new stream to the server.
pub type Dial = Box<dyn Fn(&Rt) -> io::Result<Stream>>;

/// Where the server is, and how it is spoken to.
pub struct Route {
    /// Makes a new stream.
    pub dial: Dial,
    /// Name of the export.
    pub export: String,
    /// TLS, if it is wanted.
    pub tls: Option<ClientTls>,
}

/// A client that survives its connections.
pub struct Persistent {
    rt: Rt,
    pool: Pool,
    route: Route,
    policy: Policy,
    remote: Remote,
    current: RefCell<Option<Rc<Client>>>,
    /// Held by the task that connects.
    dialing: Credits,
    reconnects: Cell<u64>,
    /// Changes that were answered without being forced.
    changes: Cell<u64>,
    /// How many of them a flush covers, or are known to be forgotten.
    covered: Cell<u64>,
    forgotten: Cell<bool>,
}

impl Persistent {
    /// Connects for the first time, as patiently as later.
    ///
    /// # Errors
    /// The last attempt's.
    pub async fn connect(rt: &Rt, pool: &Pool, route: Route, policy: Policy) -> Result<Persistent, Fault> {
        let client = dial(rt, pool, &route, policy).await?;
        Ok(Persistent {
            rt: rt.clone(),
            pool: pool.clone(),
            route,
            policy,
            remote: client.remote().clone(),
            current: RefCell::new(Some(Rc::new(client))),
            dialing: Credits::new(1),
            reconnects: Cell::new(0),
            changes: Cell::new(0),
            covered: Cell::new(0),
            forgotten: Cell::new(false),
        })
    }

    /// What the server said about the export.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// How often it has connected again.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.get()
    }

    /// Reads the range; its bytes are the first of the slab.
    ///
    /// # Errors
    /// [`Fault`], when no connection can be had any more or the server refuses.
    pub async fn read(&self, range: ByteRange) -> Result<Slab, Fault> {
        self.again(async |client| client.read(range).await).await
    }

    /// Writes `part` at offset `at`; with `fua` the reply means that it is durable.
    ///
    /// # Errors
    /// As for [`Persistent::read`].
    pub async fn write(&self, at: u64, part: Slice, fua: bool) -> Result<(), Fault> {
        let part = Shareable::new(part);
        self.changed(self.again(async |client| client.write(at, part.part(), fua).await).await, fua)
    }

    /// Says that the content is no longer needed.
    ///
    /// # Errors
    /// As for [`Persistent::read`].
    pub async fn trim(&self, range: ByteRange, fua: bool) -> Result<(), Fault> {
        self.changed(self.again(async |client| client.trim(range, fua).await).await, fua)
    }

    /// Makes the range read as zeroes; with `no_hole` its space stays allocated.
    ///
    /// # Errors
    /// As for [`Persistent::read`].
    pub async fn write_zeroes(&self, range: ByteRange, fua: bool, no_hole: bool) -> Result<(), Fault> {
        self.changed(self.again(async |client| client.write_zeroes(range, fua, no_hole).await).await, fua)
    }

    /// Waits until all changes that were replied to are durable.
    ///
    /// # Errors
    /// [`Fault::Forgotten`] once after a connection was lost with changes that no flush covers, and as for
    /// [`Persistent::read`].
    pub async fn flush(&self) -> Result<(), Fault> {
        let covers = self.changes.get();
        self.again(async |client| client.flush().await).await?;
        self.covered.set(self.covered.get().max(covers));
        if self.forgotten.replace(false) { Err(Fault::Forgotten) } else { Ok(()) }
    }

    /// Allocation of the bytes from the start of `range`, as [`Client::block_status`].
    ///
    /// # Errors
    /// As for [`Persistent::read`].
    pub async fn block_status(&self, range: ByteRange, one: bool) -> Result<Vec<Extent>, Fault> {
        self.again(async |client| client.block_status(range, one).await).await
    }

    fn changed(&self, result: Result<(), Fault>, fua: bool) -> Result<(), Fault> {
        self.changes.set(self.changes.get() + u64::from(result.is_ok() && !fua));
        result
    }

    /// Sends a request until it is answered.
    async fn again<T>(&self, request: impl AsyncFn(&Client) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut sent = 0;
        loop {
            let client = self.client().await?;
            let result = request(&client).await;
            sent += 1;
            match result {
                Err(fault) if is_loss(&fault) && sent < self.policy.attempts_max => self.lose(&client, &fault),
                other => return other,
            }
        }
    }

    /// Takes a connection out of use, if no other task has yet.
    fn lose(&self, client: &Rc<Client>, why: &Fault) {
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_some_and(|now| Rc::ptr_eq(now, client)) {
            self.rt.log_event(
                Level::Warn,
                "reconnects",
                &[("error", &why)],
                format_args!("nbd: {why}; connecting again"),
            );
            *current = None;
            let changes = self.changes.get();
            self.forgotten.set(self.forgotten.get() || self.covered.replace(changes) < changes);
        }
    }

    /// The connection; a new one if there is none. One task connects, the others wait for it.
    async fn client(&self) -> Result<Rc<Client>, Fault> {
        if let Some(client) = self.current.borrow().clone() {
            return Ok(client);
        }
        self.dialing.take(1).await;
        let made = self.connect_again().await;
        self.dialing.give(1);
        made
    }

    async fn connect_again(&self) -> Result<Rc<Client>, Fault> {
        if let Some(client) = self.current.borrow().clone() {
            return Ok(client);
        }
        let client = Rc::new(dial(&self.rt, &self.pool, &self.route, self.policy).await?);
        let (before, now) = (&self.remote, client.remote());
        if now.size < before.size || before.read_only() != now.read_only() {
            return Err(Fault::Changed(format!("{} bytes were {}", now.size, before.size)));
        }
        self.reconnects.set(self.reconnects.get() + 1);
        *self.current.borrow_mut() = Some(client.clone());
        Ok(client)
    }
}

/// Whether another connection may do better.
fn is_loss(fault: &Fault) -> bool {
    match fault {
        Fault::Lost(_) | Fault::Io(_) => true,
        Fault::Server(failure) => failure.errno == Errno::Shutdown,
        _ => false,
    }
}

async fn dial(rt: &Rt, pool: &Pool, route: &Route, policy: Policy) -> Result<Client, Fault> {
    let mut wait = policy.wait_first;
    let mut tried = 1;
    loop {
        match dial_once(rt, pool, route).await {
            Err(fault) if is_loss(&fault) && tried < policy.attempts_max => rt.sleep(wait).await,
            other => return other,
        }
        tried += 1;
        wait = Nanos(wait.0.saturating_mul(2).min(policy.wait_max.0));
    }
}

async fn dial_once(rt: &Rt, pool: &Pool, route: &Route) -> Result<Client, Fault> {
    let stream = (route.dial)(rt)?;
    match &route.tls {
        None => Client::connect(rt, pool, stream, &route.export).await,
        Some(tls) => Client::connect_tls(rt, pool, stream, &route.export, tls).await,
    }
}

/// A payload that can be sent several times.
enum Shareable {
    Window { mem: Arc<Slab>, start: usize, len: usize },
    Small(Vec<u8>),
}

impl Shareable {
    fn new(Slice { mem, start, len }: Slice) -> Shareable {
        match mem {
            Mem::Unique(slab) => Shareable::Window { mem: Arc::new(slab), start, len },
            Mem::Shared(mem) => Shareable::Window { mem, start, len },
            Mem::Heap(bytes) => Shareable::Small(bytes[start..start + len].to_vec()),
        }
    }

    fn part(&self) -> Slice {
        match self {
            Shareable::Window { mem, start, len } => Slice { mem: Mem::Shared(mem.clone()), start: *start, len: *len },
            Shareable::Small(bytes) => Slice::heap(bytes.clone()),
        }
    }
}
