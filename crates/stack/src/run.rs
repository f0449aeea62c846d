//! The loop: one request on its way down through the slots and back up through their completions.
//!
//! Down: at each hop the contract is checked, the next slot for the current destination is found, and its `issue`
//! decides. Up: frames are popped in reverse order and each slot's `complete` sees the answer. Both directions run in
//! one piece unless a slot or leaf really waits, so a request without a wait costs no allocation.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use esker_block::step::{LocalFuture, StepFuture, Ticket};
use esker_block::{Bio, BioError, Buf, Class, Done, Flow, Reply, Step, VolumeId};

use esker_rt::Sleep;

use crate::contract;
use crate::hops::Target;
use crate::snapshot::{Handle, Shared};

const ON_ITS_WAY_DOWN: &str = "what goes down is a request";
const ON_ITS_WAY_UP: &str = "what goes up is an answer";

/// A slot that the request passed and that will see its answer.
struct Frame {
    scratch: u64,
    buf_len: usize,
    slot: u16,
    port: u16,
}

/// What a request waits for.
enum Wait {
    Nothing,
    /// A slot's decision.
    Slot(StepFuture<Flow>),
    /// A place in a leaf's queue.
    Credit(u16, LocalFuture<()>),
    /// A leaf's answer.
    Leaf(u16, LocalFuture<Done>),
    /// The same, from the leaf's table.
    Ticket(u16, Ticket<Done>),
    /// The instant at which a leaf's answer, which is in its place already, counts.
    Answer(u16, Sleep),
}

/// One request inside a snapshot.
pub(crate) struct InFlightRequest {
    snapshot: Handle,
    /// The request, while no leaf has taken it. It is changed in place: moving it costs more than most slots do.
    bio: Option<Bio>,
    /// The answer, which the slots change in place on its way up.
    answer: Option<Done>,
    frames: Vec<Frame>,
    /// What the client addressed; only known while handlers are watched.
    origin: Option<VolumeId>,
    /// Slots before this position are behind the request.
    position: u16,
    /// Length of the buffer that the slot or leaf which has the request now must give back.
    issued_len: usize,
    /// The hop in front was checked in full and may be taken although its fence does not admit it.
    checked: bool,
    /// Whose credit of the leaf's queue it holds while it is there.
    class: Class,
    wait: Wait,
}

// Requests are moved and kept.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<InFlightRequest>() <= 400);

/// Why the way down stopped.
enum Stop {
    /// The request arrived at a leaf.
    Leaf(u16),
    /// A slot decided something else than simply "down".
    Decided(Flow),
    /// A slot waits.
    Waits(StepFuture<Flow>),
    /// The fence does not admit it: the contract must be checked in full.
    Suspect,
    /// Nothing has its destination.
    Nowhere,
}

impl InFlightRequest {
    /// The request `bio`, about to enter `snapshot` at `position`.
    pub(crate) fn fresh(snapshot: Handle, position: u16, bio: Option<Bio>) -> InFlightRequest {
        InFlightRequest {
            snapshot,
            bio,
            answer: None,
            frames: Vec::with_capacity(8),
            origin: None,
            position,
            issued_len: 0,
            checked: false,
            class: Class::Foreground,
            wait: Wait::Nothing,
        }
    }

    /// Makes an ended request the request `bio`, about to enter `snapshot` at its top. Swapped in, because that moves
    /// it once.
    #[inline(always)]
    pub(crate) fn renew(&mut self, snapshot: &Handle, volume: VolumeId, bio: &mut Option<Bio>) {
        debug_assert!(matches!(self.wait, Wait::Nothing) && self.frames.is_empty(), "only ended requests are reused");
        if !self.snapshot.is(snapshot) {
            self.snapshot = snapshot.clone();
        }
        std::mem::swap(&mut self.bio, bio);
        self.bio.as_mut().expect(ON_ITS_WAY_DOWN).dest = volume;
        self.position = 0;
    }

    /// What all snapshots of its stack share.
    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.snapshot.shared
    }

    /// Sends the request down as far as it goes without waiting. Unless it is answered then,
    /// [`InFlightRequest::poll_answer`] goes on.
    #[inline]
    pub(crate) fn start(&mut self) {
        self.note_request();
        self.down();
    }

    /// As [`InFlightRequest::start`], while handlers are watched.
    #[cold]
    pub(crate) fn start_watched(&mut self) {
        self.origin = Some(self.bio().dest);
        self.shared().watch.enter();
        self.start();
    }

    /// Answers a request that does not even start.
    pub(crate) fn reject(&mut self, error: BioError) {
        self.shared().exports.refused(self.bio(), &self.shared().rt);
        self.answer = Some(self.take_bio().fail(error));
    }

    /// Whether it waits for nothing: after its start, that means that its answer can be taken.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.wait, Wait::Nothing)
    }

    /// Whether the request may change what its destination holds.
    pub(crate) fn changes_data(&self) -> bool {
        self.bio().changes_data()
    }

    fn take_bio(&mut self) -> Bio {
        self.bio.take().expect(ON_ITS_WAY_DOWN)
    }

    fn bio(&self) -> &Bio {
        self.bio.as_ref().expect(ON_ITS_WAY_DOWN)
    }

    /// The answer of a request that has one.
    #[inline]
    pub(crate) fn take_answer(&mut self) -> Done {
        self.answer.take().expect("a request is answered once")
    }

    /// As a step of its own, for requests that extensions generate.
    pub(crate) fn into_step(mut self) -> Step<Done> {
        self.start();
        match self.is_answered() {
            true => Step::Now(self.take_answer()),
            false => Step::Later(Box::pin(self)),
        }
    }

    #[inline]
    fn note_request(&self) {
        let (rt, bio) = (&self.snapshot.shared.rt, self.bio());
        if rt.is_sim() {
            rt.event(u64::from(bio.dest.0) << 8 | bio.op.number() as u64);
            rt.event(bio.offset() ^ bio.len().rotate_left(40));
        }
    }

    /// Whether the request is answered; else it waits.
    fn down(&mut self) -> bool {
        loop {
            match self.descend() {
                Stop::Leaf(leaf) => return self.enter_leaf(leaf),
                Stop::Decided(flow) => {
                    if let Some(is_answered) = self.decided(flow) {
                        return is_answered;
                    }
                }
                Stop::Waits(future) => return self.wait_for(Wait::Slot(future)),
                Stop::Suspect => match self.check() {
                    Ok(()) => self.checked = true,
                    Err(error) => return self.refuse(error),
                },
                Stop::Nowhere => {
                    return self.refuse(BioError::invalid("nothing below this slot has the destination"));
                }
            }
        }
    }

    /// The common case as one tight loop: slots that simply pass the request down to their first lower device.
    fn descend(&mut self) -> Stop {
        let InFlightRequest { snapshot, bio, frames, position, issued_len, checked, .. } = self;
        let bio = bio.as_mut().expect(ON_ITS_WAY_DOWN);
        let mut ctx = snapshot.ctx();
        let cpu = ctx.rt.cpu();
        let mut number = snapshot.hop_at(*position, bio.dest);
        loop {
            let hop = snapshot.hop(number);
            if !hop.fence.admits(bio) && !std::mem::take(checked) {
                return Stop::Suspect;
            }
            let (index, port) = match hop.target {
                Target::Slot { index, port } => (index, port),
                Target::Leaf(leaf) => return Stop::Leaf(leaf),
                Target::Nowhere => return Stop::Nowhere,
            };
            let slot = &snapshot.slots[index as usize];
            cpu.charge(slot.cost);
            let buf_len = bio.buf.len();
            bio.dest = slot.first;
            ctx.enter(index, port, &slot.lowers, 0);
            let step = slot.ext.issue(&mut ctx, bio);
            if slot.completes {
                frames.push(Frame { scratch: ctx.scratch, buf_len, slot: index, port });
            }
            *position = index + 1;
            *issued_len = buf_len;
            match step {
                Step::Now(Flow::Down) => {
                    // It holds nothing; saying so spares each hop a call that looks for something to drop.
                    std::mem::forget(step);
                    if bio.dest != slot.first {
                        return Stop::Decided(Flow::Down);
                    }
                    number = slot.after;
                }
                Step::Now(flow) => return Stop::Decided(flow),
                step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => return Stop::Waits(step.into_future()),
            }
        }
    }

    /// The contract in full, for what the fence of the hop does not simply admit. While arrivals at leaves are counted,
    /// their fences admit nothing, so that each is seen here.
    #[cold]
    fn check(&self) -> Result<(), BioError> {
        let bio = self.bio();
        let dest = bio.dest;
        match self.snapshot.limits(dest) {
            Some(limits) => contract::check(&limits, bio)?,
            None => return Err(BioError::invalid(format!("no volume {} in this stack", dest.0))),
        }
        let hop = self.snapshot.hop(self.snapshot.hop_at(self.position, dest));
        if matches!(hop.target, Target::Leaf(_)) {
            self.shared().watch.reached(self.origin, dest);
        }
        Ok(())
    }

    /// Enforces the domain of the slot that sent the request: a destination outside its lower devices is refused and
    /// counted. As [`InFlightRequest::decided`].
    fn check_domain(&mut self) -> Option<bool> {
        let slot = &self.snapshot.slots[self.position as usize - 1];
        if slot.lowers.contains(&self.bio().dest) {
            return None;
        }
        let dest = self.bio().dest.0;
        let what = format_args!("sent a request to volume {dest}, which is not below it");
        let error = slot.instance.violation(what);
        let bio = self.take_bio();
        Some(self.answered(bio.fail(error)))
    }

    #[cold]
    fn refuse(&mut self, error: BioError) -> bool {
        self.reject(error);
        self.up()
    }

    /// Follows a decision that is not simply "down". Whether the request is answered; `None`: it goes down from here.
    fn decided(&mut self, flow: Flow) -> Option<bool> {
        match flow {
            Flow::Down => self.check_domain(),
            Flow::Resume(bio) => {
                self.bio = Some(bio);
                self.check_domain()
            }
            Flow::Done(done) => {
                if self.shared().is_special() {
                    self.note_own_answer();
                }
                Some(self.answered(done))
            }
        }
    }

    /// The same, and goes down if that is what was decided. Whether the request is answered; else it waits.
    fn follow(&mut self, flow: Flow) -> bool {
        match self.decided(flow) {
            Some(is_answered) => is_answered,
            None => self.down(),
        }
    }

    /// While handlers are watched: the slot in front answered by itself.
    #[cold]
    fn note_own_answer(&self) {
        let slot = &self.snapshot.slots[self.position as usize - 1];
        self.shared().watch.answered(self.origin, &slot.instance.name);
    }

    /// The slot in front of the request answered by itself: its own completion does not run, but it must give the
    /// buffer back.
    fn answered(&mut self, done: Done) -> bool {
        self.answer = Some(done);
        let index = self.position - 1;
        if self.snapshot.slots[index as usize].completes {
            self.frames.pop();
        }
        self.check_buffer(index, self.issued_len);
        self.up()
    }

    fn enter_leaf(&mut self, leaf: u16) -> bool {
        self.class = self.bio().tag.class;
        let device = &self.snapshot.leaves[leaf as usize].1;
        if device.credits(self.class).try_take(1) {
            return self.submit_leaf(leaf);
        }
        let (device, class) = (device.clone(), self.class);
        let credit = async move { device.credits(class).take(1).await };
        self.wait_for(Wait::Credit(leaf, Box::pin(credit)))
    }

    #[inline]
    fn submit_leaf(&mut self, leaf: u16) -> bool {
        self.issued_len = self.bio().buf.len();
        let device = &self.snapshot.leaves[leaf as usize].1;
        self.snapshot.shared.rt.charge(device.kind.cost);
        match device.device.submit(self.bio.take().expect(ON_ITS_WAY_DOWN)) {
            Step::Now(done) => {
                self.answer = Some(done);
                self.left_leaf(leaf)
            }
            Step::After(sleep, done) => {
                self.answer = Some(done);
                self.wait_for(Wait::Answer(leaf, sleep))
            }
            Step::Ticket(ticket) => self.wait_for(Wait::Ticket(leaf, ticket)),
            Step::Later(future) => self.wait_for(Wait::Leaf(leaf, future)),
        }
    }

    /// False, because now the request is not answered.
    #[inline]
    fn wait_for(&mut self, wait: Wait) -> bool {
        debug_assert!(self.is_answered(), "a request waits for one thing at a time");
        // What is replaced holds nothing; saying so spares each request a call that looks for something to drop.
        std::mem::forget(std::mem::replace(&mut self.wait, wait));
        false
    }

    /// The leaf that was waited for has answered.
    #[inline]
    fn answered_by_leaf(&mut self, leaf: u16, done: Done) -> bool {
        self.wait = Wait::Nothing;
        self.answer = Some(done);
        self.left_leaf(leaf)
    }

    /// The leaf has answered.
    #[inline]
    fn left_leaf(&mut self, leaf: u16) -> bool {
        let device = &self.snapshot.leaves[leaf as usize].1;
        device.credits(self.class).give(1);
        if self.answer_len() != self.issued_len {
            let name = device.name.clone();
            self.lost_buffer(&name, self.issued_len);
        }
        self.up()
    }

    /// Pops the frames, last first. Whether the request is answered; else a slot has sent it again.
    #[inline]
    fn up(&mut self) -> bool {
        while let Some(mut frame) = self.frames.pop() {
            if self.snapshot.slots[frame.slot as usize].retries && self.is_failed() {
                match self.again(frame) {
                    Ok(bio) => return self.follow(Flow::Resume(bio)),
                    Err(same) => frame = same,
                }
            }
            let slot = &self.snapshot.slots[frame.slot as usize];
            let mut ctx = self.snapshot.ctx();
            ctx.enter(frame.slot, frame.port, &slot.lowers, frame.scratch);
            slot.ext.complete(&mut ctx, self.answer.as_mut().expect(ON_ITS_WAY_UP));
            self.check_buffer(frame.slot, frame.buf_len);
        }
        true
    }

    #[inline]
    fn is_failed(&self) -> bool {
        self.answer.as_ref().expect(ON_ITS_WAY_UP).result.is_err()
    }

    /// Asks a slot for a request in place of the one that failed. If it gives one, its frame is on the way again.
    ///
    /// # Errors
    /// The frame: the answer stands.
    #[cold]
    fn again(&mut self, frame: Frame) -> Result<Bio, Frame> {
        let slot = &self.snapshot.slots[frame.slot as usize];
        let mut ctx = self.snapshot.ctx();
        ctx.enter(frame.slot, frame.port, &slot.lowers, frame.scratch);
        let again = slot.ext.again(&mut ctx, self.answer.as_mut().expect(ON_ITS_WAY_UP));
        let frame = Frame { scratch: ctx.scratch, ..frame };
        let Some(bio) = again else { return Err(frame) };
        self.answer = None;
        (self.position, self.issued_len) = (frame.slot + 1, frame.buf_len);
        self.frames.push(frame);
        Ok(bio)
    }

    #[inline]
    fn answer_len(&self) -> usize {
        self.answer.as_ref().expect(ON_ITS_WAY_UP).buf.len()
    }

    #[inline]
    fn check_buffer(&mut self, slot: u16, expected: usize) {
        if self.answer_len() != expected {
            let instance = self.snapshot.slots[slot as usize].instance.clone();
            instance.violations.set(instance.violations.get() + 1);
            self.lost_buffer(&instance.name, expected);
        }
    }

    #[cold]
    fn lost_buffer(&mut self, who: &str, expected: usize) {
        let cause = format!("{who} gave back a buffer of {} bytes instead of {expected}", self.answer_len());
        self.snapshot.shared.latch(cause);
        let result = self.snapshot.shared.check().map(|()| Reply::Empty);
        self.answer = Some(Done { result, buf: Buf::described(expected, 0) });
    }

    /// Polls what the request waits for and, once that is there, follows it. Whether the request is answered; else it
    /// waits for something else now.
    fn resume(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(match &mut self.wait {
            Wait::Answer(leaf, sleep) => {
                ready!(Pin::new(sleep).poll(cx));
                let leaf = *leaf;
                self.wait = Wait::Nothing;
                self.left_leaf(leaf)
            }
            Wait::Leaf(leaf, future) => {
                let (leaf, done) = (*leaf, ready!(future.as_mut().poll(cx)));
                self.answered_by_leaf(leaf, done)
            }
            Wait::Ticket(leaf, ticket) => {
                let (leaf, done) = (*leaf, ready!(Pin::new(ticket).poll(cx)));
                self.answered_by_leaf(leaf, done)
            }
            Wait::Slot(future) => {
                let flow = ready!(Pin::new(future).poll(cx));
                self.wait = Wait::Nothing;
                self.follow(flow)
            }
            Wait::Credit(leaf, future) => {
                ready!(future.as_mut().poll(cx));
                let leaf = *leaf;
                self.wait = Wait::Nothing;
                self.submit_leaf(leaf)
            }
            Wait::Nothing => unreachable!("a request is not polled after its answer"),
        })
    }

    /// Ready once the answer can be taken.
    #[inline]
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !ready!(self.resume(cx)) {}
        Poll::Ready(())
    }
}

impl Future for InFlightRequest {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        ready!(self.poll_answer(cx));
        Poll::Ready(self.take_answer())
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let shared = &self.snapshot.shared;
        if !matches!(self.wait, Wait::Nothing) && !shared.rt.is_killed() {
            shared.latch("a request was dropped while it was in flight");
        }
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
