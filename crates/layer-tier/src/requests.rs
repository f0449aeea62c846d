//! Requests of clients: each goes to where its bytes lie, in parts if they lie apart.

use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::flight::WIDTH;
use esker_block::split::{Piece, pieces};
use esker_block::{Bio, BioError, Buf, Ctx, Done, Flow, Op, OpKind, Reply, Step};
use esker_layer_kit::Io;
use esker_layer_kit::gate::Ticket;

use crate::engine::Tier;

/// Mark of a change that is not forced, in the word of a request.
const CHANGE: u64 = 1 << 63;

/// The word of a request that goes straight down: its ticket, its end, and whether a flush must follow it.
fn word(ticket: Ticket, end: usize, is_change: bool) -> u64 {
    u64::from(ticket.word()) | (end as u64) << 32 | if is_change { CHANGE } else { 0 }
}

/// Whether a flush must follow a request before it is durable.
fn needs_flush(bio: &Bio) -> bool {
    bio.changes_data() && !bio.flags.fua
}

impl Tier {
    /// Decides about a request.
    pub(crate) fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Write | Op::Zero | Op::Discard => self.pass(ctx, bio),
            Op::Flush => {
                let (tier, io, bio) = (self.clone(), Io::of(ctx), bio.take());
                Step::later(async move {
                    Flow::Done(match tier.sync(&io).await {
                        Ok(()) => bio.ok(),
                        Err(error) => bio.fail(error),
                    })
                })
            }
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Extents => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Extents)))),
        }
    }

    fn pass(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.gate.enter(bio.range, bio.changes_data());
        if self.gate.may_go(ticket)
            && let Some(piece) = self.only_piece(bio.range)
        {
            if let Err(error) = self.check(bio, &[piece]) {
                self.gate.leave(ticket);
                return Step::Now(Flow::Done(bio.take().fail(error)));
            }
            let end = piece.place.lower;
            self.begins(ticket, end);
            ctx.scratch = word(ticket, end, needs_flush(bio));
            bio.range = span(piece.place.at, bio.len());
            bio.dest = ctx.lower(end);
            return Step::Now(Flow::Down);
        }
        let (tier, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            tier.gate.admitted(ticket).await;
            // The map is asked only now, and so is the latch: a move may have ended meanwhile, or failed.
            let cut = pieces(bio.range, |at| tier.placing.borrow().locate(at));
            let done = match tier.check(&bio, &cut) {
                Ok(()) => tier.send(&io, bio, &cut).await,
                Err(error) => bio.fail(error),
            };
            tier.gate.leave(ticket);
            Flow::Done(done)
        })
    }

    /// Where a range lies, if it lies in one place of one extent.
    fn only_piece(&self, range: ByteRange) -> Option<Piece> {
        let run = self.placing.borrow().locate(range.start());
        (run.len >= range.len()).then_some(Piece { part: range, place: run.place })
    }

    /// Whether a request may go on. An end whose flush failed takes no changes.
    fn check(&self, bio: &Bio, cut: &[Piece]) -> Result<(), BioError> {
        if !bio.changes_data() {
            return Ok(());
        }
        self.latch.check()?;
        cut.iter().try_for_each(|piece| self.ends[piece.place.lower].latch.check())
    }

    fn begins(&self, ticket: Ticket, end: usize) {
        self.shares.client_worked(end);
        let (mut begun, at) = (self.begun.borrow_mut(), ticket.word() as usize);
        if begun.len() <= at {
            begun.resize(at + 1, self.rt.now());
        }
        begun[at] = self.rt.now();
    }

    /// Sees the answer of a request that went straight down.
    pub(crate) fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        let word = std::mem::take(&mut ctx.scratch);
        let Some(ticket) = Ticket::of_word(word as u32) else { return };
        let (end, is_change) = ((word >> 32) as usize & 0x7fff_ffff, word & CHANGE != 0);
        let (range, begun) = (self.gate.range(ticket), self.begun.borrow()[ticket.word() as usize]);
        self.ended(end, is_change, &done.result);
        if done.result.is_ok() {
            let took = self.rt.now().since(begun);
            self.seen.borrow_mut().count(range, self.config.extent, Some((end, took)));
        }
        self.gate.leave(ticket);
    }

    /// A request to an end, or a part of one, has ended.
    fn ended(&self, end: usize, is_change: bool, result: &Result<Reply, BioError>) {
        let state = &self.ends[end];
        match result {
            Ok(_) => {
                if is_change {
                    state.written.set(true);
                }
                if state.is_lost.replace(false) {
                    state.failures.set(0);
                }
            }
            Err(BioError::Gone(_)) => state.is_lost.set(true),
            Err(
                BioError::Io(_)
                | BioError::NoSpace(_)
                | BioError::Unsupported(_)
                | BioError::Invalid(_)
                | BioError::Corrupt(_)
                | BioError::ReadOnly(_)
                | BioError::Latched(_),
            ) => {}
        }
    }

    /// Sends a request in parts, and makes one answer of theirs: the first error in their order.
    async fn send(&self, io: &Io, mut whole: Bio, cut: &[Piece]) -> Done {
        let (range, is_read, is_change) = (whole.range, whole.op == Op::Read, needs_flush(&whole));
        cut.iter().for_each(|piece| self.shares.client_worked(piece.place.lower));
        let parts = cut.iter().map(|piece| self.part(io, &mut whole, *piece)).collect();
        let (mut result, mut bufs) = (Ok(Reply::Empty), Vec::with_capacity(cut.len()));
        for (piece, returned) in cut.iter().zip(io.all(parts, WIDTH).await) {
            self.ended(piece.place.lower, is_change, &returned.result);
            result = result.and(returned.result);
            bufs.push(returned.bio.buf);
        }
        if result.is_ok() {
            self.seen.borrow_mut().count(range, self.config.extent, None);
        }
        Done { result, buf: if is_read { Buf::chain(bufs) } else { whole.buf } }
    }

    fn part(&self, io: &Io, whole: &mut Bio, piece: Piece) -> Bio {
        let (at, len) = ((piece.part.start() - whole.offset()) as usize, piece.part.len() as usize);
        let buf = match whole.op {
            Op::Read => whole.buf.like(&self.pool, len),
            Op::Write => whole.buf.slice(at, len),
            Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => Buf::empty(),
        };
        let part = whole.part(whole.op.clone(), span(piece.place.at, piece.part.len()), buf);
        part.to(io.lower(piece.place.lower))
    }
}
