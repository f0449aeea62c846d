//! Copying: what members may lack is read from one in sync and written to the others, many pieces at once.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::flight::windowed;
use esker_block::locks::Mode;
use esker_block::{Below, Bio, BioError, Buf, ExtentState, LayerHandle, Op, Reply, Step};

use crate::members::State;
use crate::resync::BACKGROUND;
use crate::run::Mirror;

/// Pieces ahead about which the source is asked at once, at least. With twice the window, most pieces of a volume full
/// of data need not ask.
const AHEAD_MIN: u64 = 16;

/// What is copied under one claim.
struct Piece {
    region: usize,
    range: ByteRange,
    /// Whether it ends its region.
    is_last: bool,
}

/// What came of a piece.
enum Copied {
    /// Whether it is now equal on all members that are left.
    Done(bool),
    /// Nothing is to be copied any more.
    Stopped,
    /// The stack has ended.
    Ended,
}

/// How far a resync is, as long as it goes on.
struct Told<'a>(&'a Cell<Option<(u64, u64)>>);

impl<'a> Told<'a> {
    fn new(resync: &'a Cell<Option<(u64, u64)>>, all: u64) -> Told<'a> {
        resync.set(Some((0, all)));
        Told(resync)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Mirror {
    /// Copies all regions in which members may differ from the source to those that may lack something. None if the
    /// stack has ended; false if some bytes could not be copied.
    pub(crate) async fn copy_all(self: &Rc<Self>, handle: &LayerHandle) -> Option<bool> {
        let mut regions = self.superblock.borrow().dirty.clone();
        regions.unite(&self.suspect.borrow());
        let data = Rc::new(Cell::new(0));
        let all = regions.iter().map(|region| self.bytes_of(region).len()).sum();
        let _told = Told::new(&self.resync, all);
        let pieces = regions.iter().flat_map(|region| self.pieces(region));
        let steps = pieces.map(|piece| {
            let (mirror, handle, data) = (self.clone(), handle.clone(), data.clone());
            Step::later(async move {
                let copied = mirror.copy(&handle, &piece, &data).await;
                (piece, copied)
            })
        });
        let (mut is_complete, mut end) = (true, None);
        windowed(self.rt(), self.config.window, steps, |(piece, copied)| {
            is_complete &= matches!(copied, Copied::Done(true));
            if is_complete && piece.is_last {
                self.suspect.borrow_mut().clear(piece.region);
            }
            match copied {
                Copied::Done(_) => {
                    self.resync.set(self.resync.get().map(|(done, all)| (done + piece.range.len(), all)));
                    return true;
                }
                Copied::Stopped => drop(end.get_or_insert(Some(true))),
                Copied::Ended => end = Some(None),
            }
            false
        })
        .await;
        if let Some(end) = end {
            return end;
        }
        let job = handle.enter().await?;
        if is_complete {
            return Some(self.admit(job.below()).await.is_ok());
        }
        for lower in self.members.which(|state| state == State::Catching) {
            self.lose(lower, &BioError::io("some bytes can be read from no other member"));
        }
        Some(false)
    }

    fn pieces(&self, region: usize) -> impl Iterator<Item = Piece> + use<> {
        let all = self.bytes_of(region);
        let piece = move |range: ByteRange| Piece { region, range, is_last: range.end() == all.end() };
        all.split_at_multiples(self.config.chunk).map(piece)
    }

    fn bytes_of(&self, region: usize) -> ByteRange {
        let superblock = self.superblock.borrow();
        let start = region as u64 * superblock.region;
        ByteRange::new(start, superblock.region.min(superblock.data - start)).expect("inside the volume")
    }

    /// Copies a piece. No client changes it meanwhile, or a member would get the older of two contents last.
    async fn copy(&self, handle: &LayerHandle, piece: &Piece, data: &Cell<u64>) -> Copied {
        let _turn = self.pace.piece().await;
        let Some(job) = handle.enter().await else { return Copied::Ended };
        if self.background.is_closed() || self.latch.is_set() || !self.has_copying() {
            return Copied::Stopped;
        }
        let ticket = self.locks.enter([piece.range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let result = self.copy_claimed(job.below(), piece, data).await;
        self.locks.leave(ticket);
        Copied::Done(result.is_ok())
    }

    async fn copy_claimed(&self, below: &Below, piece: &Piece, data: &Cell<u64>) -> Result<(), BioError> {
        let range = piece.range;
        let zero = || Bio::zero(range.start(), range.len());
        let (source, bio) = match self.source_of_zeroes(below, range, data).await {
            Some(source) => (source, zero()),
            None => match self.read_any(below, range).await? {
                (source, buf) if self.config.zeroes && self.config.tells_extents && buf.is_zero() => (source, zero()),
                (source, buf) => (source, Bio::write(range.start(), buf)),
            },
        };
        let count = if bio.op == Op::Zero { &self.counts.zeroed } else { &self.counts.copied };
        let is_suspect = self.suspect.borrow().has(piece.region);
        let lacks = |state| state == State::Catching || (is_suspect && state == State::InSync);
        let targets: Vec<usize> = self.members.which(lacks).into_iter().filter(|lower| *lower != source).collect();
        let mut answers = Vec::with_capacity(targets.len());
        if bio.op == Op::Zero {
            for lower in targets {
                let Some(part) = self.part_with_data(below, range, lower).await else { continue };
                let mut bio = Bio::zero(part.start(), part.len()).tagged(BACKGROUND);
                answers.extend(self.to_all(below, &mut bio, &[lower], self.config.tries).await);
            }
        } else {
            answers = self.to_all(below, &mut bio.tagged(BACKGROUND), &targets, self.config.tries).await;
        }
        for answer in answers {
            match &answer.done.result {
                Ok(_) => count.set(count.get() + range.len()),
                Err(error) => self.lose(answer.lower, error),
            }
        }
        Ok(())
    }

    /// The member that is copied from, if it tells that all of `range` reads as zeroes. It is asked under the claim, so
    /// that this stays so. `data` is where the data ends that it told of last: what lies before is copied without
    /// asking, because that costs a request; it is right even where there are zeroes.
    async fn source_of_zeroes(&self, below: &Below, range: ByteRange, data: &Cell<u64>) -> Option<usize> {
        if !self.config.zeroes || !self.config.tells_extents || range.end() <= data.get() {
            return None;
        }
        let source = self.members.source()?;
        let ahead = self.config.chunk * AHEAD_MIN.max(2 * self.config.window as u64);
        let len = ahead.min(self.superblock.borrow().data - range.start());
        let done = self.submit(below, source, Bio::extents(range.start(), len).tagged(BACKGROUND)).await;
        let Ok(Reply::Extents(extents)) = done.result else { return None };
        let (mut at, mut has_data) = (range.start(), false);
        for extent in extents.iter() {
            let end = at + extent.len;
            if extent.state == ExtentState::Data && at < range.end() {
                has_data = true;
                data.set(data.get().max(end));
            }
            at = end;
        }
        (!has_data && at >= range.end()).then_some(source)
    }

    /// The part of `range` outside which member `lower` tells that it reads as zeroes: zeroing a hole would take space
    /// for it. None if that is all of it. The member is asked under the claim, so that a hole stays one.
    async fn part_with_data(&self, below: &Below, range: ByteRange, lower: usize) -> Option<ByteRange> {
        let asked = Bio::extents(range.start(), range.len()).tagged(BACKGROUND);
        let extents = match self.config.tells_extents {
            true => self.submit(below, lower, asked).await.result,
            false => return Some(range),
        };
        let Ok(Reply::Extents(extents)) = extents else { return Some(range) };
        let (mut at, mut part) = (range.start(), None);
        for extent in extents.iter() {
            let end = at + extent.len;
            if extent.state == ExtentState::Data {
                part = Some((part.map_or(at, |(start, _)| start), end));
            }
            at = end;
        }
        // What was not told of may hold anything.
        let part = if at < range.end() { Some((part.map_or(at, |(start, _)| start), range.end())) } else { part };
        part.and_then(|(start, end)| ByteRange::new(start, end - start)?.intersect(range))
    }

    /// The source's bytes, or where it cannot read them those of another member in sync.
    pub(crate) async fn read_any(&self, below: &Below, range: ByteRange) -> Result<(usize, Buf), BioError> {
        let mut last = BioError::Gone(self.config.name.as_str().into());
        for lower in self.members.which(|state| state == State::InSync) {
            let buf = Buf::unique(self.pool(), range.len() as usize);
            let done = self.submit(below, lower, Bio::read(range.start(), buf).tagged(BACKGROUND)).await;
            match done.result {
                Ok(_) => return Ok((lower, done.buf)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
