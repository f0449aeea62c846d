//! The I/O library: requests that an extension sends below itself, and what becomes of them.
//!
//! An extension gets an [`Io`] for one request ([`Io::of`]) or for a piece of work of its own ([`Io::new`]). What it
//! sends enters the stack below it. The sender may wait in a future, or leave a completion: a function that sees the
//! answer and can send again but cannot wait, because it is not a future.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::ext::Submit;
use esker_block::flight::{self, WIDTH};
use esker_block::split::Splitter;
use esker_block::{Below, Bio, BioError, Buf, Ctx, Device, Done, Flags, Flow, Limits, Op, Reply, Step, Tag, VolumeId};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::join_all;

/// A request that came back, its buffer in place, so that it can be sent again.
#[derive(Debug)]
pub struct Returned {
    /// The request as it was sent.
    pub bio: Bio,
    /// What came of it.
    pub result: Result<Reply, BioError>,
}

impl Returned {
    /// As the answer to the sender of the request.
    pub fn into_done(self) -> Done {
        Done { result: self.result, buf: self.bio.buf }
    }
}

/// What a completion decides.
pub enum After {
    /// The request, or another one, is sent: at once, without waiting here.
    Again(Bio),
    /// This is the answer.
    Answer(Done),
}

/// A completion that sends a failed request again, `tries` times at most, and then lets the failure through.
pub fn retry(tries: u32) -> impl FnMut(Returned) -> After + Clone + 'static {
    let mut left = tries;
    move |returned| match returned.result {
        Err(_) if left > 0 => {
            left -= 1;
            After::Again(returned.bio)
        }
        _ => After::Answer(returned.into_done()),
    }
}

/// A request without its payload: what must be kept to send it again.
#[derive(Clone, Debug)]
struct RequestHead {
    op: Op,
    range: ByteRange,
    flags: Flags,
    dest: VolumeId,
    tag: Tag,
}

impl RequestHead {
    fn of(bio: &Bio) -> RequestHead {
        RequestHead { op: bio.op.clone(), range: bio.range, flags: bio.flags, dest: bio.dest, tag: bio.tag }
    }

    fn with(self, buf: Buf) -> Bio {
        let RequestHead { op, range, flags, dest, tag } = self;
        Bio { op, range, flags, dest, buf, tag }
    }

    fn returned(self, done: Done) -> Returned {
        Returned { bio: self.with(done.buf), result: done.result }
    }
}

/// What an extension sends below it. Cheap to clone.
#[derive(Clone)]
pub struct Io {
    rt: Rt,
    pool: Pool,
    below: Below,
}

impl Io {
    /// For one request of an extension.
    pub fn of(ctx: &Ctx<'_>) -> Io {
        Io::new(ctx.rt, ctx.pool, ctx.below())
    }

    /// For a piece of work, or for the opening of an extension.
    pub fn new(rt: &Rt, pool: &Pool, below: Below) -> Io {
        Io { rt: rt.clone(), pool: pool.clone(), below }
    }

    /// For those outside a stack: the lower devices are `devices`, whose volumes are 0, 1 and so on.
    pub fn over(rt: &Rt, pool: &Pool, devices: Vec<Rc<dyn Device>>) -> Io {
        let volumes = (0..devices.len()).map(|i| VolumeId(i as u16)).collect();
        Io::new(rt, pool, Below::new(Rc::new(Direct { devices, volumes }), 0))
    }

    /// The world.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Where buffers come from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Sends requests in parts.
    pub fn splitter(&self) -> Splitter<'_> {
        Splitter { rt: &self.rt, pool: &self.pool, below: &self.below }
    }

    /// What is below, for callers that hold it longer than a request.
    pub fn below(&self) -> &Below {
        &self.below
    }

    /// The volume of lower device `i`. It holds for this request or piece of work; live changes give it another number.
    pub fn lower(&self, i: usize) -> VolumeId {
        self.below.lower(i)
    }

    /// How many lower devices there are.
    pub fn lowers(&self) -> usize {
        self.below.lowers().len()
    }

    /// A request that equals `bio` in every field. The payload of a write is shared, not copied; a read gets a buffer
    /// of its own.
    pub fn clone_bio(&self, bio: &mut Bio) -> Bio {
        let buf = match bio.op {
            Op::Read => bio.buf.like(&self.pool, bio.buf.len()),
            Op::Write | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => bio.buf.share(),
        };
        RequestHead::of(bio).with(buf)
    }

    /// As [`Io::clone_bio`], but with a payload of its own, which may be changed. A copy: counted as a bounce.
    pub fn clone_deep(&self, bio: &mut Bio) -> Bio {
        if bio.op == Op::Read || bio.buf.is_described() {
            return self.clone_bio(bio);
        }
        let mut buf = Buf::unique(&self.pool, bio.buf.len());
        buf.bounce(0, &bio.buf);
        RequestHead::of(bio).with(buf)
    }

    /// Sends a request, whose destination is one of the lower volumes. What the extension may not send, and what breaks
    /// the contract, is answered with an error.
    pub fn submit(&self, bio: Bio) -> Step<Done> {
        self.below.submit(bio)
    }

    /// Sends a request and gives it back with its buffer.
    pub async fn send(&self, bio: Bio) -> Returned {
        let head = RequestHead::of(&bio);
        head.returned(self.submit(bio).await)
    }

    /// Sends a request; `complete` sees it when it comes back, and decides. It needs no task of its own, and as long as
    /// nothing below waits, nothing here does.
    pub fn submit_then(&self, mut bio: Bio, mut complete: impl FnMut(Returned) -> After + 'static) -> Step<Done> {
        loop {
            let head = RequestHead::of(&bio);
            match self.submit(bio) {
                Step::Now(done) => match complete(head.returned(done)) {
                    After::Again(again) => bio = again,
                    After::Answer(done) => return Step::Now(done),
                },
                step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                    let io = self.clone();
                    return Step::later(async move {
                        match complete(head.returned(step.await)) {
                            After::Again(again) => io.submit_then(again, complete).await,
                            After::Answer(done) => done,
                        }
                    });
                }
            }
        }
    }

    /// Sends several requests at once, each with its own clone of `complete`. The answers are in the order of the
    /// requests.
    pub fn fork(&self, bios: Vec<Bio>, complete: impl FnMut(Returned) -> After + Clone + 'static) -> Step<Vec<Done>> {
        let steps: Vec<Step<Done>> = bios.into_iter().map(|bio| self.submit_then(bio, complete.clone())).collect();
        match steps.iter().all(|step| matches!(step, Step::Now(_))) {
            true => Step::Now(steps.into_iter().filter_map(now).collect()),
            false => Step::later(async move { join_all(steps.into_iter().map(IntoFuture::into_future)).await }),
        }
    }

    /// Sends requests in order, `width` of them under way at once, and gives them back in that order.
    pub async fn all(&self, bios: Vec<Bio>, width: usize) -> Vec<Returned> {
        let mut heads: Vec<RequestHead> = Vec::with_capacity(bios.len());
        let mut dones = Vec::with_capacity(bios.len());
        heads.extend(bios.iter().map(RequestHead::of));
        let steps = bios.into_iter().map(|bio| self.submit(bio));
        flight::windowed(&self.rt, width, steps, |done| {
            dones.push(done);
            true
        })
        .await;
        heads.into_iter().zip(dones).map(|(head, done)| head.returned(done)).collect()
    }

    /// The `len` bytes at `at` of a lower volume, in a buffer of their own.
    ///
    /// # Errors
    /// What the volume answers; a range that does not fit in 64 bits.
    pub async fn read(&self, volume: VolumeId, at: u64, len: usize) -> Result<Buf, BioError> {
        check_span(at, len as u64)?;
        let done = self.submit(Bio::read(at, Buf::unique(&self.pool, len)).to(volume)).await;
        done.result.map(|_| done.buf)
    }

    /// Writes `buf` at `at` of a lower volume; with `durable`, it is on the medium when this ends.
    ///
    /// # Errors
    /// As [`Io::read`].
    pub async fn write(&self, volume: VolumeId, at: u64, buf: Buf, durable: bool) -> Result<(), BioError> {
        check_span(at, buf.len() as u64)?;
        let mut bio = Bio::write(at, buf).to(volume);
        bio.flags.fua = durable;
        self.submit(bio).await.result.map(drop)
    }

    /// Makes all completed writes of a lower volume durable.
    ///
    /// # Errors
    /// What the volume answers.
    pub async fn flush(&self, volume: VolumeId) -> Result<(), BioError> {
        self.submit(Bio::flush().to(volume)).await.result.map(drop)
    }

    /// The same for all lower devices.
    ///
    /// # Errors
    /// The first failure in their order; all are tried.
    pub async fn flush_all(&self) -> Result<(), BioError> {
        let flushes = self.below.lowers().iter().map(|volume| Bio::flush().to(*volume)).collect();
        self.all(flushes, WIDTH).await.into_iter().try_for_each(|returned| returned.result.map(drop))
    }

    /// As the decision about a client's request: it is answered with what `step` gives.
    pub fn answer(step: Step<Done>) -> Step<Flow> {
        step.map(Flow::Done)
    }
}

fn now<T>(step: Step<T>) -> Option<T> {
    match step {
        Step::Now(value) => Some(value),
        Step::After(..) | Step::Ticket(_) | Step::Later(_) => None,
    }
}

fn check_span(at: u64, len: u64) -> Result<(), BioError> {
    match ByteRange::new(at, len) {
        Some(_) => Ok(()),
        None => Err(BioError::invalid(format!("offset {at} + {len} bytes does not fit in 64 bits"))),
    }
}

/// The queue is full; the request is given back. Answer its maker, or try again when something has ended.
#[derive(Debug)]
pub struct Full(pub Bio);

/// Requests without a waiting sender, bounded in number.
#[derive(Clone)]
pub struct Queue {
    under_way: Rc<Cell<usize>>,
    max: usize,
}

impl Queue {
    /// At most `max` requests under way.
    pub fn new(max: usize) -> Queue {
        Queue { under_way: Rc::default(), max }
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Sends a request without waiting, from anywhere, completions included. `complete` sees it when it comes back and
    /// may send again; its place in the queue is free when it answers.
    ///
    /// # Errors
    /// [`Full`], if so many are under way already.
    pub fn submit(
        &self,
        io: &Io,
        bio: Bio,
        complete: impl FnMut(Returned) -> After + 'static,
    ) -> Result<(), Box<Full>> {
        if self.under_way.get() >= self.max {
            return Err(Box::new(Full(bio)));
        }
        self.under_way.set(self.under_way.get() + 1);
        let under_way = self.under_way.clone();
        match io.submit_then(bio, complete) {
            Step::Now(_) => under_way.set(under_way.get() - 1),
            step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => drop(io.rt.spawn("queued", async move {
                step.await;
                under_way.set(under_way.get() - 1);
            })),
        }
        Ok(())
    }
}

/// Devices as lower devices, without a stack.
struct Direct {
    devices: Vec<Rc<dyn Device>>,
    volumes: Vec<VolumeId>,
}

impl Submit for Direct {
    fn submit_below(self: Rc<Self>, _: u16, bio: Bio) -> Step<Done> {
        let Some(device) = self.devices.get(bio.dest.0 as usize) else {
            let what = format!("volume {} is not one of the {} devices below", bio.dest.0, self.devices.len());
            return Step::Now(bio.fail(BioError::invalid(what)));
        };
        match misplaced(&bio, device.limits()) {
            Some(error) => Step::Now(bio.fail(error)),
            None => device.submit(bio),
        }
    }

    fn lowers_of(&self, _: u16) -> &[VolumeId] {
        &self.volumes
    }
}

/// In a stack the loop looks at this; a device relies on it.
fn misplaced(bio: &Bio, limits: &Limits) -> Option<BioError> {
    if matches!(bio.op, Op::Flush | Op::Ranges(_)) {
        return None;
    }
    let fits = !bio.is_empty() && bio.range.is_aligned(u64::from(limits.block)) && bio.range.end() <= limits.size;
    let (size, block) = (limits.size, limits.block);
    let what = || format!("bytes {} of a device of {size} bytes in blocks of {block}", bio.range);
    (!fits).then(|| BioError::invalid(what()))
}

#[cfg(test)]
mod tests;
