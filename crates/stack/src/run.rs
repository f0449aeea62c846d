//! The loop: one request on its way down through the slots and back up through their completions.
//!
//! Down: at each hop the contract is checked, the next slot for the current destination is found, and its `issue`
//! decides. Up: frames are popped in reverse order and each slot's `complete` sees the answer. Both directions run in
//! one piece unless a slot or leaf really waits, so a request that nobody delays costs no allocation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use esker_block::{Bio, BioError, Buf, Class, Done, Flow, Op, Reply, Step, VolumeId};

use crate::contract;
use crate::snapshot::{Handle, Slot, Target};

type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A slot that the request passed and that will see its answer.
struct Frame {
    scratch: u64,
    buf_len: usize,
    slot: u16,
    port: u16,
}

/// What a request waits for.
enum Wait {
    /// A slot's decision.
    Slot(LocalFuture<Flow>),
    /// A place in a leaf's queue.
    Credit(u16, LocalFuture<()>),
    /// A leaf's answer.
    Leaf(u16, Class, LocalFuture<Done>),
}

/// One request inside a snapshot.
pub(crate) struct Run {
    snapshot: Handle,
    /// The request, while no slot or leaf has taken it. It is changed in place: moving it costs more than most slots do.
    bio: Bio,
    frames: Vec<Frame>,
    /// Slots before this position are behind the request.
    position: u16,
    /// Length of the buffer that the slot or leaf which has the request now must give back.
    issued_len: usize,
    /// The hop in front was checked in full and may be taken although its fence does not admit it.
    checked: bool,
    wait: Option<Wait>,
}

/// Why the way down stopped.
enum Halt {
    /// The request arrived at a leaf.
    Leaf(u16),
    /// A slot answered it or sent it on after taking it.
    Decided(Flow),
    /// A slot waits.
    Waits(LocalFuture<Flow>),
    /// The fence does not admit it: the contract must be checked in full.
    Suspect,
    /// Nobody has its destination.
    Nowhere,
    /// A slot sent it elsewhere than to its first lower end.
    OtherLower,
}

impl Run {
    /// The request `bio`, about to enter `snapshot` at `position`.
    pub fn fresh(snapshot: Handle, position: u16, bio: Bio) -> Run {
        Run { snapshot, bio, frames: Vec::with_capacity(8), position, issued_len: 0, checked: false, wait: None }
    }

    /// Makes an ended request the request `bio`, about to enter `snapshot` at its top.
    #[inline(always)]
    pub fn renew(&mut self, snapshot: &Handle, volume: VolumeId, bio: Bio) {
        debug_assert!(self.wait.is_none() && self.frames.is_empty(), "only ended requests are reused");
        if !self.snapshot.is(snapshot) {
            self.snapshot = snapshot.clone();
        }
        self.bio = bio;
        self.bio.dest = volume;
        self.position = 0;
    }

    /// Sends the request down as far as it goes without waiting. `None`: it waits, and [`Run`] is the future of its
    /// answer.
    #[inline]
    pub fn start(&mut self) -> Option<Done> {
        self.note_request();
        self.down()
    }

    /// As a step of its own, for requests that extensions generate.
    pub fn into_step(mut self) -> Step<Done> {
        match self.start() {
            Some(done) => Step::Now(done),
            None => Step::Later(Box::pin(self)),
        }
    }

    #[inline]
    fn note_request(&self) {
        let (rt, bio) = (&self.snapshot.shared.rt, &self.bio);
        if rt.is_sim() {
            rt.event(u64::from(bio.dest.0) << 8 | u64::from(op_byte(&bio.op)));
            rt.event(bio.offset() ^ bio.len().rotate_left(40));
        }
    }

    /// `None`: the request waits.
    fn down(&mut self) -> Option<Done> {
        loop {
            match self.descend() {
                Halt::Leaf(leaf) => return self.enter_leaf(leaf),
                Halt::Decided(flow) => {
                    if let Some(done) = self.decided(flow) {
                        return Some(done);
                    }
                }
                Halt::Waits(future) => {
                    self.wait = Some(Wait::Slot(future));
                    return None;
                }
                Halt::Suspect => {
                    if let Err(error) = self.check() {
                        return Some(self.refuse(error));
                    }
                    self.checked = true;
                }
                Halt::Nowhere => {
                    return Some(self.refuse(BioError::invalid("nothing below this slot has the destination")));
                }
                Halt::OtherLower => {
                    if let Some(done) = self.check_domain() {
                        return Some(done);
                    }
                }
            }
        }
    }

    /// The common case as one tight loop: slots that simply pass the request down to their first lower end.
    fn descend(&mut self) -> Halt {
        let snapshot = &*self.snapshot;
        let mut number = snapshot.hop_at(self.position, self.bio.dest);
        loop {
            let hop = snapshot.hop(number);
            if !hop.fence.admits(&self.bio) && !std::mem::take(&mut self.checked) {
                return Halt::Suspect;
            }
            let (index, port) = match hop.target {
                Target::Slot { index, port } => (index, port),
                Target::Leaf(leaf) => return Halt::Leaf(leaf),
                Target::Nowhere => return Halt::Nowhere,
            };
            let slot = &snapshot.slots[index as usize];
            snapshot.shared.rt.charge(slot.cost);
            let first = slot.lowers[0];
            self.bio.dest = first;
            self.position = index + 1;
            self.issued_len = self.bio.buf.len();
            let mut scratch = 0;
            let mut ctx = self.snapshot.ctx(slot, index, port, &mut scratch);
            let step = slot.ext.issue(&mut ctx, &mut self.bio);
            if slot.completes {
                self.frames.push(Frame { scratch, buf_len: self.issued_len, slot: index, port });
            }
            match step {
                Step::Now(Flow::Down) if self.bio.dest == first => number = slot.after,
                Step::Now(Flow::Down) => return Halt::OtherLower,
                Step::Now(flow) => return Halt::Decided(flow),
                Step::Later(future) => return Halt::Waits(future),
            }
        }
    }

    /// The contract in full, for what the fence of the hop does not simply admit.
    #[cold]
    fn check(&self) -> Result<(), BioError> {
        let dest = self.bio.dest;
        match self.snapshot.limits(dest) {
            Some(limits) => contract::check(limits, &self.bio),
            None => Err(BioError::invalid(format!("no volume {} in this stack", dest.0))),
        }
    }

    /// Enforces the domain of the slot that sent the request: a destination outside its lower ends is refused and
    /// counted.
    fn check_domain(&mut self) -> Option<Done> {
        let slot = &self.snapshot.slots[self.position as usize - 1];
        if slot.lowers.contains(&self.bio.dest) {
            return None;
        }
        let error = outside_domain(slot, &self.bio);
        let bio = self.bio.take();
        Some(self.answered(bio.fail(error)))
    }

    #[cold]
    fn refuse(&mut self, error: BioError) -> Done {
        let bio = self.bio.take();
        self.up(bio.fail(error))
    }

    /// Follows a decision that is not simply "down". `Some`: the request is answered.
    fn decided(&mut self, flow: Flow) -> Option<Done> {
        match flow {
            Flow::Down => self.check_domain(),
            Flow::Resume(bio) => {
                self.bio = bio;
                self.check_domain()
            }
            Flow::Done(done) => Some(self.answered(done)),
        }
    }

    /// The slot in front of the request answered by itself: its own completion does not run, but it must give the
    /// buffer back.
    fn answered(&mut self, mut done: Done) -> Done {
        let index = self.position - 1;
        let slot = &self.snapshot.slots[index as usize];
        if slot.completes {
            self.frames.pop();
        }
        self.check_buffer(index, self.issued_len, &mut done);
        self.up(done)
    }

    fn enter_leaf(&mut self, leaf: u16) -> Option<Done> {
        let class = self.bio.tag.class;
        let device = &self.snapshot.leaves[leaf as usize].1;
        if device.credits(class).try_take(1) {
            return self.submit_leaf(leaf);
        }
        let device = device.clone();
        let credit = async move { device.credits(class).take(1).await };
        self.wait = Some(Wait::Credit(leaf, Box::pin(credit)));
        None
    }

    #[inline]
    fn submit_leaf(&mut self, leaf: u16) -> Option<Done> {
        let bio = self.bio.take();
        let class = bio.tag.class;
        self.issued_len = bio.buf.len();
        let device = &self.snapshot.leaves[leaf as usize].1;
        self.snapshot.shared.rt.charge(device.kind.cost);
        match device.device.submit(bio) {
            Step::Now(done) => Some(self.left_leaf(leaf, class, done)),
            Step::Later(future) => {
                self.wait = Some(Wait::Leaf(leaf, class, future));
                None
            }
        }
    }

    #[inline]
    fn left_leaf(&mut self, leaf: u16, class: Class, mut done: Done) -> Done {
        let device = &self.snapshot.leaves[leaf as usize].1;
        device.credits(class).give(1);
        if done.buf.len() != self.issued_len {
            self.lost_buffer(&device.name, self.issued_len, &mut done);
        }
        self.up(done)
    }

    /// Pops the frames, last first.
    fn up(&mut self, mut done: Done) -> Done {
        while let Some(mut frame) = self.frames.pop() {
            let slot = &self.snapshot.slots[frame.slot as usize];
            let mut ctx = self.snapshot.ctx(slot, frame.slot, frame.port, &mut frame.scratch);
            slot.ext.complete(&mut ctx, &mut done);
            self.check_buffer(frame.slot, frame.buf_len, &mut done);
        }
        done
    }

    #[inline]
    fn check_buffer(&self, slot: u16, expected: usize, done: &mut Done) {
        if done.buf.len() != expected {
            let instance = &self.snapshot.slots[slot as usize].instance;
            instance.violations.set(instance.violations.get() + 1);
            self.lost_buffer(&instance.name, expected, done);
        }
    }

    #[cold]
    fn lost_buffer(&self, who: &str, expected: usize, done: &mut Done) {
        let cause = format!("{who} gave back a buffer of {} bytes instead of {expected}", done.buf.len());
        self.snapshot.shared.latch(cause.clone());
        *done = Done { result: Err(BioError::Gone(cause.into())), buf: Buf::described(expected, 0) };
    }

    /// Polls what the request waits for and, once that is there, follows it.
    fn resume(&mut self, cx: &mut Context<'_>) -> Poll<Option<Done>> {
        let answer = match self.wait.as_mut().expect("a request is not polled after its answer") {
            Wait::Slot(future) => {
                let flow = ready!(future.as_mut().poll(cx));
                self.wait = None;
                self.decided(flow).or_else(|| self.down())
            }
            Wait::Credit(leaf, future) => {
                ready!(future.as_mut().poll(cx));
                let leaf = *leaf;
                self.wait = None;
                self.submit_leaf(leaf)
            }
            Wait::Leaf(leaf, class, future) => {
                let done = ready!(future.as_mut().poll(cx));
                let (leaf, class) = (*leaf, *class);
                self.wait = None;
                Some(self.left_leaf(leaf, class, done))
            }
        };
        Poll::Ready(answer)
    }
}

impl Future for Run {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        loop {
            if let Some(done) = ready!(self.resume(cx)) {
                return Poll::Ready(done);
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let shared = &self.snapshot.shared;
        if self.wait.is_some() && !shared.rt.is_killed() {
            shared.latch("a request was dropped while it was in flight");
        }
    }
}

#[cold]
fn outside_domain(slot: &Slot, bio: &Bio) -> BioError {
    let instance = &slot.instance;
    instance.violations.set(instance.violations.get() + 1);
    BioError::invalid(format!("{} sent a request to volume {}, which is not below it", instance.name, bio.dest.0))
}

fn op_byte(op: &Op) -> u8 {
    match op {
        Op::Read => 1,
        Op::Write => 2,
        Op::Flush => 3,
        Op::Zero => 4,
        Op::Discard => 5,
        Op::Ranges(_) => 6,
        Op::Extents => 7,
    }
}

/// Adds an answer to the digest of a virtual world.
pub(crate) fn note_answer(rt: &esker_rt::Rt, done: &Done) {
    if rt.is_sim() {
        let word = match &done.result {
            Ok(Reply::Empty) => 1,
            Ok(Reply::Extents(list)) => 2 + list.len() as u64,
            Err(_) => 0,
        };
        rt.event(word << 32 ^ done.buf.len() as u64);
    }
}
