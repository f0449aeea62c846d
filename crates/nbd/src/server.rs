//! A server: several exports by name, any number of listeners, one task per connection.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Device, OpKind, Support};
use esker_rt::mem::Pool;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Credits, Either, Notify, race};
use esker_rt::{JoinHandle, Level, Rt};

use crate::admission::{Gate, Limits};
use crate::proto::wire::MAX_PAYLOAD;
use crate::proto::{ExportError, ExportInfo, Exports};
use crate::session::{Closing, Connection};

/// Bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Connections at a time; more wait to be accepted.
    pub connections_max: u64,
    /// Requests under way per connection; more wait on the wire.
    pub requests_max: u64,
    /// Bytes of payload under way per connection.
    pub payload_bytes_max: u64,
    /// A connection that has not chosen an export by then is closed.
    pub handshake_time_max: Nanos,
    /// When the server stops, requests under way have this long to be answered.
    pub stop_time_max: Nanos,
}

impl Config {
    /// For service: at most 32 connections with 128 requests and 64 MiB each.
    pub fn production() -> Config {
        Config {
            connections_max: 32,
            requests_max: 128,
            payload_bytes_max: 64 << 20,
            handshake_time_max: Nanos::secs(30),
            stop_time_max: Nanos::secs(10),
        }
    }

    /// For tests: bounds that are reached at once.
    pub fn tiny() -> Config {
        Config { connections_max: 2, requests_max: 2, payload_bytes_max: 8 << 10, ..Config::production() }
    }
}

/// One export: how clients see it, and the device behind it.
pub struct Export {
    /// How clients see it.
    pub info: ExportInfo,
    /// The device.
    pub device: Rc<dyn Device>,
}

impl Export {
    /// An export of all of `device` (mostly an export of a stack) that offers what the device's limits allow.
    pub fn new(name: &str, device: Rc<dyn Device>) -> Export {
        let limits = device.limits();
        let can = |kind| limits.support(kind) != Support::No;
        let preferred = limits.preferred.clamp(limits.block.max(512), MAX_PAYLOAD);
        let info = ExportInfo {
            preferred_block: 1 << preferred.ilog2(),
            read_only: !can(OpKind::Write),
            trim: can(OpKind::Discard),
            write_zeroes: can(OpKind::Zero),
            fast_zero: limits.support(OpKind::Zero) == Support::Native,
            allocation: can(OpKind::Extents),
            ..ExportInfo::new(name, limits.size, limits.block)
        };
        Export { info, device }
    }
}

/// A server in one world. Cheap to clone; clones are one server.
#[derive(Clone)]
pub struct Server(Rc<Shared>);

pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: Pool,
    pub exports: Exports,
    pub devices: Vec<Rc<dyn Device>>,
    pub config: Config,
    pub stopping: Cell<bool>,
    stop: Gate,
    slots: Credits,
    next_number: Cell<u64>,
    open: RefCell<BTreeMap<u64, Open>>,
    closed: Notify,
}

/// What the server keeps of a connection.
#[derive(Clone)]
struct Open {
    stream: Stream,
    limits: Rc<Limits>,
}

impl Server {
    /// A server of these exports. Payloads live in slabs of `pool`.
    ///
    /// # Errors
    /// [`ExportError`] if the protocol cannot offer an export as it is described.
    pub fn new(rt: &Rt, pool: &Pool, exports: Vec<Export>, config: Config) -> Result<Server, ExportError> {
        let (infos, devices) = exports.into_iter().map(|e| (e.info, e.device)).unzip();
        Ok(Server(Rc::new(Shared {
            rt: rt.clone(),
            pool: pool.clone(),
            exports: Exports::new(infos)?,
            devices,
            config,
            stopping: Cell::new(false),
            stop: Gate::closed(),
            slots: Credits::new(config.connections_max),
            next_number: Cell::new(1),
            open: RefCell::default(),
            closed: Notify::default(),
        })))
    }

    /// What is offered.
    pub fn exports(&self) -> &Exports {
        &self.0.exports
    }

    /// Accepts connections until [`Server::stop`].
    pub async fn serve(&self, listener: &Listener) {
        let shared = &self.0;
        let mut stopped = pin!(shared.stop.wait());
        while !shared.stopping.get() {
            match race(listener.accept(), stopped.as_mut()).await {
                Either::Left(Ok(stream)) => self.attach(stream).await.detach(),
                Either::Left(Err(error)) => {
                    // Out of descriptors, mostly: others will close theirs.
                    shared.rt.log(Level::Warn, format_args!("nbd: cannot accept: {error}; trying again in 100 ms"));
                    shared.rt.sleep(Nanos::millis(100)).await;
                }
                Either::Right(()) => {}
            }
        }
    }

    /// Serves one connection on `stream` once a slot is free. The handle tells how it ended.
    pub async fn attach(&self, stream: Stream) -> JoinHandle<Closing> {
        let shared = self.0.clone();
        shared.slots.take(1).await;
        if shared.stopping.get() {
            stream.shutdown();
        }
        let number = shared.next_number.replace(shared.next_number.get() + 1);
        let limits = Limits::new(shared.config.requests_max, shared.config.payload_bytes_max);
        shared.open.borrow_mut().insert(number, Open { stream: stream.clone(), limits: limits.clone() });
        self.0.rt.spawn("nbd-connection", async move {
            let closing = Connection::new(shared.clone(), number, stream, limits).run().await;
            let level = if closing.is_clean() { Level::Info } else { Level::Warn };
            shared.rt.log(level, format_args!("nbd: connection {number}: {closing}"));
            shared.open.borrow_mut().remove(&number);
            shared.slots.give(1);
            shared.closed.notify_all();
            closing
        })
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.0.open.borrow().len()
    }

    /// Stops: no new connections, new requests are answered with a shutdown error, those under way get their replies,
    /// and every connection is closed.
    pub async fn stop(&self) {
        let shared = &self.0;
        shared.stopping.set(true);
        shared.stop.open();
        let open: Vec<Open> = shared.open.borrow().values().cloned().collect();
        for Open { stream, limits } in open {
            let rt = shared.rt.clone();
            let stop_time_max = shared.config.stop_time_max;
            let drain = async move {
                // A client that does not read its replies is not waited for longer than that.
                race(limits.idle(), rt.sleep(stop_time_max)).await;
                stream.shutdown();
            };
            shared.rt.spawn("nbd-stop", drain).detach();
        }
        shared.closed.wait_until(|| shared.open.borrow().is_empty()).await;
    }
}
