//! One queue of a disk: takes what the guest makes available, one task for each request, and tells the guest what
//! ended.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_block::Tag;
use esker_rt::Level;
use esker_rt::mem::Slice;
use esker_rt::real::{Kernel, Op};
use esker_rt::sync::{Either, Notify, race};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use crate::chain::Chain;
use crate::disk::{Disk, count};
use crate::execute::Executor;
use crate::guest::Guest;
use crate::inflight::Area;
use crate::request::{Request, answer};

/// Most descriptors of a ring.
pub const RING_LEN_MAX: u16 = 1024;

/// Where the parts of a ring lie in the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Table of descriptors.
    pub table: u64,
    /// What the guest makes available.
    pub available: u64,
    /// What the device has used.
    pub used: u64,
}

/// A ring that cannot be used as the monitor or the guest set it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ring {index}: {what}")]
pub struct RingError {
    /// The ring.
    pub index: u16,
    /// What is wrong.
    pub what: &'static str,
}

/// One queue.
pub struct Ring {
    disk: Rc<Disk>,
    index: u16,
    state: RefCell<State>,
    /// Something was set, or the ring shall end.
    changed: Notify,
    /// A request has ended.
    finished: Notify,
}

struct State {
    queue: Queue,
    memory: Option<Arc<Guest>>,
    kick: Option<Arc<OwnedFd>>,
    call: Option<Arc<OwnedFd>>,
    area: Option<Area>,
    enabled: bool,
    ended: bool,
    /// The guest broke the ring: it is left alone until it is set up again.
    broken: bool,
    /// What is done when memory of the guest is gone.
    on_loss: Option<Rc<dyn Fn()>>,
    /// Answered means durable.
    forced: bool,
    /// Heads under way.
    busy: BTreeSet<u16>,
}

impl State {
    fn is_lost(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_lost()) || self.area.as_ref().is_some_and(Area::is_lost)
    }
}

/// What there is to do.
enum Next {
    Begin(u16),
    Nothing,
    /// As many are under way as the ring can hold, or the ring is not in use.
    Stop,
}

impl Ring {
    /// Ring `index` of `disk`, not in use yet.
    pub fn new(disk: &Rc<Disk>, index: u16) -> Rc<Ring> {
        let state = State {
            queue: Queue::new(RING_LEN_MAX).expect("a power of two"),
            memory: None,
            kick: None,
            call: None,
            area: None,
            enabled: false,
            ended: false,
            broken: false,
            on_loss: None,
            forced: true,
            busy: BTreeSet::new(),
        };
        let (changed, finished) = (Notify::default(), Notify::default());
        Rc::new(Ring { disk: disk.clone(), index, state: RefCell::new(state), changed, finished })
    }

    fn error(&self, what: &'static str) -> RingError {
        RingError { index: self.index, what }
    }

    /// Gives it the guest's memory, also a new one while it runs.
    pub fn set_memory(&self, memory: Arc<Guest>) {
        self.state.borrow_mut().memory = Some(memory);
    }

    /// Sets what is done, at least once, when memory of the guest is found to be gone. The ring is left alone from then
    /// on.
    pub fn on_loss(&self, act: Rc<dyn Fn()>) {
        self.state.borrow_mut().on_loss = Some(act);
    }

    /// Whether memory of the guest is gone; if it is, that is told.
    pub fn looks_for_loss(&self) -> bool {
        let act = {
            let mut state = self.state.borrow_mut();
            if !state.is_lost() {
                return false;
            }
            // The monitor goes, and with it the ring: nothing is told of each ring.
            state.broken = true;
            state.on_loss.clone()
        };
        act.iter().for_each(|act| act());
        true
    }

    /// What was agreed: notifications by index, and whether the guest flushes.
    pub fn set_features(&self, by_index: bool, flushes: bool) {
        let mut state = self.state.borrow_mut();
        state.queue.set_event_idx(by_index);
        state.forced = !flushes;
    }

    /// Sets its length in descriptors.
    ///
    /// # Errors
    /// [`RingError`] for lengths that virtio does not know or that are too large.
    pub fn set_len(&self, len: u32) -> Result<(), RingError> {
        match u16::try_from(len) {
            Ok(len @ 1..=RING_LEN_MAX) if len.is_power_of_two() => self.state.borrow_mut().queue.set_size(len),
            _ => return Err(self.error("its length is no power of two up to 1024")),
        }
        Ok(())
    }

    /// Sets where it lies. The index of the used ring is taken from the guest's memory.
    ///
    /// # Errors
    /// [`RingError`] for addresses that are not aligned or not in memory.
    pub fn set_addresses(&self, at: Addresses) -> Result<(), RingError> {
        let mut state = self.state.borrow_mut();
        let State { queue, memory, .. } = &mut *state;
        let memory = memory.as_ref().ok_or(self.error("it has no memory yet"))?;
        let set = queue
            .try_set_desc_table_address(GuestAddress(at.table))
            .and_then(|()| queue.try_set_avail_ring_address(GuestAddress(at.available)))
            .and_then(|()| queue.try_set_used_ring_address(GuestAddress(at.used)));
        set.map_err(|_| self.error("its addresses are not aligned"))?;
        let used = queue.used_idx(memory.memory(), Ordering::Acquire);
        queue.set_next_used(used.map_err(|_| self.error("its used ring is not in memory"))?.0);
        Ok(())
    }

    /// Sets what is taken next of what the guest makes available.
    pub fn set_base(&self, index: u16) {
        self.state.borrow_mut().queue.set_next_avail(index);
    }

    /// Sets where requests under way are noted.
    pub fn set_area(&self, area: Option<Area>) {
        self.state.borrow_mut().area = area;
    }

    /// Sets whether requests may be taken.
    pub fn enable(&self, enabled: bool) {
        self.state.borrow_mut().enabled = enabled;
        self.changed.notify_one();
    }

    /// Sets how the guest is told; none: it looks by itself.
    pub fn set_call(&self, call: Option<OwnedFd>) {
        self.state.borrow_mut().call = call.map(Arc::new);
    }

    /// Puts the ring into use, with what the guest rings when it has made something available. What a dead server had
    /// begun is begun again.
    ///
    /// # Errors
    /// [`RingError`] if it was not set up.
    pub fn start(self: &Rc<Self>, kick: Option<OwnedFd>) -> Result<(), RingError> {
        let mut state = self.state.borrow_mut();
        state.kick = kick.map(Arc::new);
        if state.queue.ready() {
            self.changed.notify_one();
            return Ok(());
        }
        let State { queue, memory, area, .. } = &mut *state;
        let memory = memory.as_ref().ok_or(self.error("it has no memory yet"))?;
        queue.set_ready(true);
        if !queue.is_valid(memory.memory()) {
            queue.set_ready(false);
            return Err(self.error("it does not lie in memory"));
        }
        let begun = area.as_mut().map(|area| area.recover(queue.next_used())).unwrap_or_default();
        if !begun.is_empty() {
            queue.set_next_avail(queue.next_used().wrapping_add(begun.len() as u16));
        }
        state.broken = false;
        drop(state);
        count(&self.disk.counters.resumed, begun.len() as u64);
        if !begun.is_empty() {
            let (name, index, count) = (self.disk.name(), self.index, begun.len());
            let what = format_args!("{count} requests that a dead server had begun are carried out now");
            self.disk.rt.log(Level::Info, format_args!("vhost: {name:?}: ring {index}: {what}"));
        }
        begun.into_iter().for_each(|head| self.begin(head));
        self.changed.notify_one();
        Ok(())
    }

    /// Takes the ring out of use once nothing is under way, and tells what would have been taken next.
    pub async fn stop(&self) -> u16 {
        {
            let mut state = self.state.borrow_mut();
            state.queue.set_ready(false);
            state.kick = None;
        }
        self.changed.notify_one();
        self.idle().await;
        let mut state = self.state.borrow_mut();
        state.call = None;
        state.queue.next_avail()
    }

    /// Waits until nothing is under way.
    pub async fn idle(&self) {
        self.finished.wait_until(|| self.state.borrow().busy.is_empty()).await;
    }

    /// Ends [`Ring::run`].
    pub fn end(&self) {
        self.state.borrow_mut().ended = true;
        self.changed.notify_one();
    }

    /// Takes requests whenever the guest rings, until [`Ring::end`].
    pub async fn run(self: Rc<Self>, kernel: Kernel) {
        loop {
            let kick = {
                let state = self.state.borrow();
                if state.ended {
                    return;
                }
                state.kick.clone().filter(|_| state.enabled && state.queue.ready())
            };
            let Some(kick) = kick else {
                self.changed.wait().await;
                continue;
            };
            self.drain();
            match race(kernel.readable(kick.clone()), self.changed.wait()).await {
                Either::Left(_) => self.silence(&kernel, kick).await,
                Either::Right(()) => {}
            }
        }
    }

    /// Reads the bell, so that its next ring is noticed. The guest or another task may have read it.
    async fn silence(&self, kernel: &Kernel, kick: Arc<OwnedFd>) {
        let read = Op::Read { fd: kick, at: None, parts: Slice::heap(vec![0; 8]).into() };
        let result = kernel.start(read).await.and_then(|outcome| outcome.result);
        let rung = match &result {
            Ok(bytes) => *bytes == 8,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        if !rung {
            self.break_off("its event descriptor is none");
            self.state.borrow_mut().kick = None;
        }
    }

    /// Begins all that the guest has made available.
    pub fn drain(self: &Rc<Self>) {
        loop {
            match self.next() {
                Next::Begin(head) => self.begin(head),
                Next::Nothing if self.listen_again() => {}
                Next::Nothing | Next::Stop => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.state.borrow_mut();
        let State { queue, memory, enabled, broken, busy, .. } = &mut *state;
        let Some(memory) = memory.as_ref().filter(|_| *enabled && !*broken && queue.ready()) else {
            return Next::Stop;
        };
        if busy.len() >= usize::from(queue.size()) {
            return Next::Stop;
        }
        // Memory that is not there is noticed below.
        let _unreachable = queue.disable_notification(memory.memory());
        let head = queue.iter(memory.memory()).map(|mut heads| heads.next().map(|chain| chain.head_index()));
        drop(state);
        if self.looks_for_loss() {
            return Next::Stop;
        }
        match head {
            Ok(Some(head)) => Next::Begin(head),
            Ok(None) => Next::Nothing,
            Err(_) => {
                self.break_off("what it makes available is more than it holds, or not in memory");
                Next::Stop
            }
        }
    }

    /// Asks the guest to ring again; true if something came meanwhile.
    fn listen_again(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let State { queue, memory, .. } = &mut *state;
        memory.as_ref().is_some_and(|guest| queue.enable_notification(guest.memory()).unwrap_or(false))
    }

    fn begin(self: &Rc<Self>, head: u16) {
        {
            let mut state = self.state.borrow_mut();
            if head >= state.queue.size() || !state.busy.insert(head) {
                drop(state);
                return self.break_off("a head is out of bounds or given twice");
            }
            if let Some(area) = &mut state.area {
                area.begin(head);
            }
        }
        let ring = self.clone();
        let task = async move {
            let written = ring.serve(head).await;
            ring.finish(head, written).await;
        };
        self.disk.rt.spawn("vhost-request", task).detach();
    }

    /// Serves the request at `head`; tells how many bytes were written for the guest.
    async fn serve(&self, head: u16) -> u32 {
        let (memory, chain, forced) = {
            let state = self.state.borrow();
            let Some(memory) = state.memory.clone() else { return 0 };
            let table = GuestAddress(state.queue.desc_table());
            let chain = Chain::read(&memory, table, state.queue.size(), head);
            (memory, chain, state.forced)
        };
        let disk = &*self.disk;
        let chain = match chain {
            Ok(chain) => chain,
            Err(error) => {
                disk.rt.log(Level::Debug, format_args!("vhost: {:?}: ring {}: {error}", disk.name(), self.index));
                count(&disk.counters.malformed, 1);
                return 0;
            }
        };
        let tag = Tag { issuer: u32::from(self.index) + 1, ..Tag::default() };
        let executor = Executor { disk, memory: &memory, chain: &chain, forced, tag };
        let request = Request::read(disk, &memory, &chain);
        if memory.is_lost() {
            // What was read may be zeroes that the guest never wrote.
            return 0;
        }
        let (status, given) = match request {
            Ok(request) => executor.run(request).await,
            Err(status) => {
                count(&disk.counters.malformed, 1);
                (status, 0)
            }
        };
        match answer(&memory, &chain, status) {
            Ok(()) => given.saturating_add(1),
            Err(_) => 0,
        }
    }

    async fn finish(self: &Rc<Self>, head: u16, written: u32) {
        count(&self.disk.counters.requests, 1);
        let call = self.give_back(head, written);
        self.looks_for_loss();
        self.finished.notify_all();
        // If the ring was full, more may wait.
        self.drain();
        let Some((call, kernel)) = call.zip(self.disk.rt.kernel().ok()) else { return };
        let ring =
            Op::Write { fd: call, at: None, parts: Slice::heap(1u64.to_ne_bytes().to_vec()).into(), durable: false };
        // A full counter still means "rung", and a peer that closed its end does not listen.
        let _deaf = kernel.start(ring).await;
    }

    /// Puts the request into the used ring. What is to be rung, if the guest wants to hear of it.
    fn give_back(&self, head: u16, written: u32) -> Option<Arc<OwnedFd>> {
        let mut state = self.state.borrow_mut();
        let State { queue, memory, area, busy, call, .. } = &mut *state;
        busy.remove(&head);
        let memory = memory.as_ref()?.memory();
        if let Some(area) = area {
            area.end(head);
        }
        let told = queue.add_used(memory, head, written);
        if let Some(area) = area {
            area.ended(head, queue.next_used());
        }
        let wanted = told.is_ok() && queue.needs_notification(memory).unwrap_or(true);
        call.clone().filter(|_| wanted)
    }

    /// Leaves the ring alone from now on.
    fn break_off(&self, why: &str) {
        let (name, index) = (self.disk.name(), self.index);
        if !std::mem::replace(&mut self.state.borrow_mut().broken, true) {
            let what = "it is left alone until the guest sets it up again";
            self.disk.rt.log(Level::Warn, format_args!("vhost: {name:?}: ring {index}: {why}; {what}"));
            count(&self.disk.counters.malformed, 1);
        }
    }
}
