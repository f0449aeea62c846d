//! The loop: one request on its way down through the slots and back up through their completions.
//!
//! Down: at each hop the contract is checked, the next slot for the current destination is found, and its `issue`
//! decides. Up: frames are popped in reverse order and each slot's `complete` sees the answer. Both directions run in
//! one piece unless a slot or leaf really waits, so a request that nobody delays costs no allocation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use esker_block::{Bio, BioError, Buf, Class, Done, Flow, Op, Reply, Step};
use smallvec::SmallVec;

use crate::contract;
use crate::snapshot::{Handle, Slot, Target};

type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A slot that the request passed and that will see its answer.
struct Frame {
    slot: u16,
    port: u16,
    buf_len: usize,
    scratch: u64,
}

/// What a request waits for.
enum Wait {
    /// A slot's decision.
    Slot(LocalFuture<Flow>),
    /// A place in a leaf's queue, with the request.
    Credit(u16, LocalFuture<Bio>),
    /// A leaf's answer.
    Leaf(u16, Class, LocalFuture<Done>),
}

/// One request inside a snapshot.
pub(crate) struct Run {
    snapshot: Handle,
    /// Slots before this position are behind the request.
    position: u16,
    frames: SmallVec<[Frame; 8]>,
    /// Length of the buffer that the leaf must give back.
    leaf_len: usize,
    wait: Option<Wait>,
}

/// A request that was started.
pub(crate) enum Started {
    Done(Done),
    Waits(Run),
}

impl Started {
    pub fn into_step(self) -> Step<Done> {
        match self {
            Started::Done(done) => Step::Now(done),
            Started::Waits(run) => Step::Later(Box::pin(run)),
        }
    }
}

impl Run {
    /// A request that enters `snapshot` at `position`.
    #[inline]
    pub fn new(snapshot: Handle, position: u16) -> Run {
        Run { snapshot, position, frames: SmallVec::new(), leaf_len: 0, wait: None }
    }

    /// Sends `bio` down as far as it goes without waiting.
    #[inline]
    pub fn start(mut self, bio: Bio) -> Started {
        self.note_request(&bio);
        match self.down(bio) {
            Some(done) => Started::Done(done),
            None => Started::Waits(self),
        }
    }

    fn note_request(&self, bio: &Bio) {
        let rt = &self.snapshot.shared.rt;
        if rt.is_sim() {
            rt.event(u64::from(bio.dest.0) << 8 | u64::from(op_byte(&bio.op)));
            rt.event(bio.offset() ^ bio.len().rotate_left(40));
        }
    }

    /// `None`: the request waits.
    fn down(&mut self, mut bio: Bio) -> Option<Done> {
        loop {
            let checked = match self.snapshot.limits(bio.dest) {
                Some(limits) => contract::check(limits, &bio),
                None => Err(BioError::invalid(format!("no volume {} in this stack", bio.dest.0))),
            };
            if let Err(error) = checked {
                return Some(self.up(bio.fail(error)));
            }
            match self.snapshot.next(self.position, bio.dest) {
                Target::Slot { index, port } => match self.issue(index, port, bio)? {
                    Flow::Down(next) => bio = next,
                    Flow::Done(done) => return Some(self.answered(done)),
                },
                Target::Leaf(leaf) => return self.enter_leaf(leaf, bio),
                Target::Nowhere => {
                    let error = BioError::invalid("nothing below this slot has the destination");
                    return Some(self.up(bio.fail(error)));
                }
            }
        }
    }

    #[inline]
    fn issue(&mut self, index: u16, port: u16, mut bio: Bio) -> Option<Flow> {
        let slot = &self.snapshot.slots[index as usize];
        let (instance, first) = (&slot.instance, slot.lowers[0]);
        self.snapshot.shared.rt.charge(instance.kind.cost);
        bio.dest = first;
        self.position = index + 1;
        self.frames.push(Frame { slot: index, port, buf_len: bio.buf.len(), scratch: 0 });
        let frame = self.frames.last_mut().expect("pushed above");
        let mut ctx = self.snapshot.ctx(index, port, &mut frame.scratch);
        match instance.ext.issue(&mut ctx, bio) {
            Step::Now(flow) => Some(self.decided(flow)),
            Step::Later(future) => {
                self.wait = Some(Wait::Slot(future));
                None
            }
        }
    }

    /// Enforces the domain of the slot that decided: a destination outside its lower ends is refused and counted.
    #[inline]
    fn decided(&mut self, flow: Flow) -> Flow {
        match flow {
            Flow::Down(bio) => {
                let slot = self.current();
                if slot.lowers.contains(&bio.dest) {
                    return Flow::Down(bio);
                }
                let error = outside_domain(slot, &bio);
                Flow::Done(bio.fail(error))
            }
            done => done,
        }
    }

    fn current(&self) -> &Slot {
        &self.snapshot.slots[self.position as usize - 1]
    }

    /// The slot answered by itself: its own completion does not run, but it must give the buffer back.
    fn answered(&mut self, mut done: Done) -> Done {
        let frame = self.frames.pop().expect("the slot that answered has a frame");
        self.check_buffer(frame.slot, frame.buf_len, &mut done);
        self.up(done)
    }

    fn enter_leaf(&mut self, leaf: u16, bio: Bio) -> Option<Done> {
        let class = bio.tag.class;
        let device = &self.snapshot.leaves[leaf as usize].1;
        if device.credits(class).try_take(1) {
            return self.submit_leaf(leaf, bio);
        }
        let device = device.clone();
        self.wait = Some(Wait::Credit(
            leaf,
            Box::pin(async move {
                device.credits(class).take(1).await;
                bio
            }),
        ));
        None
    }

    #[inline]
    fn submit_leaf(&mut self, leaf: u16, bio: Bio) -> Option<Done> {
        let class = bio.tag.class;
        self.leaf_len = bio.buf.len();
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
        if done.buf.len() != self.leaf_len {
            self.lost_buffer(&device.name, self.leaf_len, &mut done);
        }
        self.up(done)
    }

    /// Pops the frames, last first.
    fn up(&mut self, mut done: Done) -> Done {
        while let Some(mut frame) = self.frames.pop() {
            let instance = &self.snapshot.slots[frame.slot as usize].instance;
            let mut ctx = self.snapshot.ctx(frame.slot, frame.port, &mut frame.scratch);
            instance.ext.complete(&mut ctx, &mut done);
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

    fn resume(&mut self, wait: Wait, cx: &mut Context<'_>) -> Result<Option<Done>, Wait> {
        match wait {
            Wait::Slot(mut future) => match future.as_mut().poll(cx) {
                Poll::Pending => Err(Wait::Slot(future)),
                Poll::Ready(flow) => Ok(match self.decided(flow) {
                    Flow::Down(bio) => self.down(bio),
                    Flow::Done(done) => Some(self.answered(done)),
                }),
            },
            Wait::Credit(leaf, mut future) => match future.as_mut().poll(cx) {
                Poll::Pending => Err(Wait::Credit(leaf, future)),
                Poll::Ready(bio) => Ok(self.submit_leaf(leaf, bio)),
            },
            Wait::Leaf(leaf, class, mut future) => match future.as_mut().poll(cx) {
                Poll::Pending => Err(Wait::Leaf(leaf, class, future)),
                Poll::Ready(done) => Ok(Some(self.left_leaf(leaf, class, done))),
            },
        }
    }
}

impl Future for Run {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let run = &mut *self;
        loop {
            let wait = run.wait.take().expect("a request is not polled after its answer");
            match run.resume(wait, cx) {
                Ok(Some(done)) => return Poll::Ready(done),
                Ok(None) => {}
                Err(wait) => {
                    run.wait = Some(wait);
                    return Poll::Pending;
                }
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
