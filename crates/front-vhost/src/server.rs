//! A server: one export at one socket, one monitor at a time, which may come again as often as it likes.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Device;
use esker_rt::mem::Pool;
use esker_rt::net::Listener;
use esker_rt::sync::{Either, Notify, race};
use esker_rt::{Level, Rt};

use crate::disk::{Counters, Disk};
use crate::session;

/// Bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queues that a guest may use; each of its CPUs likes to have one.
    pub queues_max: u16,
    /// Bytes of payload under way, over all queues.
    pub payload_bytes_max: u64,
}

impl Config {
    /// For service: 8 queues and 64 MiB.
    pub fn production() -> Config {
        Config { queues_max: 8, payload_bytes_max: 64 << 20 }
    }

    /// For tests: bounds that are reached at once.
    pub fn tiny() -> Config {
        Config { queues_max: 2, payload_bytes_max: 8 << 10 }
    }
}

/// A server in one real world. Cheap to clone; clones are one server.
#[derive(Clone)]
pub struct Server(Rc<Shared>);

struct Shared {
    disk: Rc<Disk>,
    /// The monitor's socket while one is connected.
    monitor: RefCell<Option<OwnedFd>>,
    stopping: Cell<bool>,
    changed: Notify,
    serving: Cell<bool>,
}

impl Server {
    /// A server of all of `device` (mostly an export of a stack), called `name`.
    pub fn new(rt: &Rt, pool: &Pool, name: &str, device: Rc<dyn Device>, config: Config) -> Server {
        Server(Rc::new(Shared {
            disk: Rc::new(Disk::new(rt, pool, name, device, config)),
            monitor: RefCell::default(),
            stopping: Cell::new(false),
            changed: Notify::default(),
            serving: Cell::new(false),
        }))
    }

    /// The export's name.
    pub fn name(&self) -> &str {
        self.0.disk.name()
    }

    /// Whether a monitor is connected.
    pub fn is_connected(&self) -> bool {
        self.0.monitor.borrow().is_some()
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.0.disk.counters
    }

    /// Serves monitors one after the other until [`Server::stop_within`].
    pub async fn serve(&self, listener: &Listener) {
        let shared = &self.0;
        let rt = &shared.disk.rt;
        shared.serving.set(true);
        while !shared.stopping.get() {
            let stopped = shared.changed.wait_until(|| shared.stopping.get());
            match race(listener.accept_fd(), stopped).await {
                Either::Left(Ok(socket)) => self.attend(socket).await,
                Either::Left(Err(error)) => {
                    rt.log(Level::Warn, format_args!("vhost: cannot accept: {error}; trying again in 100 ms"));
                    rt.sleep(Nanos::millis(100)).await;
                }
                Either::Right(()) => {}
            }
        }
        shared.serving.set(false);
        shared.changed.notify_all();
    }

    async fn attend(&self, socket: OwnedFd) {
        let (disk, name) = (self.0.disk.clone(), self.name());
        let second = match socket.try_clone() {
            Ok(second) => second,
            Err(error) => return disk.rt.log(Level::Warn, format_args!("vhost: {name:?}: {error}")),
        };
        *self.0.monitor.borrow_mut() = Some(second);
        disk.rt.log(Level::Info, format_args!("vhost: {name:?}: a monitor has connected"));
        let end = session::run(disk.clone(), socket).await;
        self.0.monitor.borrow_mut().take();
        match end {
            Ok(()) => {
                let (requests, copied) = (disk.counters.requests.get(), disk.counters.copied_bytes.get());
                let what = format_args!("the monitor has gone; {requests} requests, {copied} bytes copied so far");
                disk.rt.log(Level::Info, format_args!("vhost: {name:?}: {what}"));
            }
            Err(error) => disk.rt.log(Level::Warn, format_args!("vhost: {name:?}: the monitor was dropped: {error}")),
        }
    }

    /// Stops: the monitor is disconnected once the requests under way are answered, or are not after `patience`.
    pub async fn stop_within(&self, patience: Nanos) {
        let shared = &self.0;
        shared.stopping.set(true);
        shared.changed.notify_all();
        if let Some(socket) = &*shared.monitor.borrow() {
            // Not connected any more is as good as shut down.
            let _gone = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        race(shared.changed.wait_until(|| !shared.serving.get()), shared.disk.rt.sleep(patience)).await;
    }
}
