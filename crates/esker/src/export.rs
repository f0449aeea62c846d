//! A volume of a stack, for calls of any thread.

use std::rc::Rc;
use std::sync::Arc;

use esker_block::{Bio, BioError, Buf, Device, Latch};
use esker_layer_kit::GroupCommit;
use esker_rt::real::Answer;
use esker_rt::sync::join_all;

use crate::error::Error;
use crate::stack::Shared;

/// An export of a stack. A clone is the same export.
///
/// Each call exists twice: one blocks its thread, the other, with `_async` in its name, gives a future for any
/// executor. A request that was started runs to its end, also where its future is dropped.
#[derive(Clone)]
pub struct Export {
    shared: Arc<Shared>,
    facts: Arc<Facts>,
}

/// What does not change while a stack lives.
pub(crate) struct Facts {
    name: String,
    /// Its place among the exports of the text.
    place: usize,
    block: u32,
    transfer_max: u32,
    is_read_only: bool,
}

/// An export on the stack's thread.
pub(crate) struct OpenExport {
    export: esker_stack::Export,
    /// Flushes of several callers become one.
    flushes: GroupCommit,
    latch: Latch,
}

/// A part of a request: where it begins in the caller's bytes.
struct Piece {
    from: usize,
    len: usize,
}

impl OpenExport {
    pub(crate) fn new(export: esker_stack::Export) -> OpenExport {
        OpenExport { export, flushes: GroupCommit::default(), latch: Latch::new("flush") }
    }

    pub(crate) fn facts(&self, name: &str, place: usize) -> Facts {
        let limits = self.export.limits();
        Facts {
            name: name.to_string(),
            place,
            block: limits.block,
            transfer_max: limits.transfer_max,
            is_read_only: self.export.is_read_only(),
        }
    }

    pub(crate) async fn flush(&self) -> Result<(), BioError> {
        self.flushes.ask();
        let commit = async || {
            let asked = self.flushes.asked();
            self.export.request(Bio::flush()).await.result?;
            Ok(asked)
        };
        self.flushes.reach(self.flushes.asked(), &self.latch, commit).await
    }

    /// Sends requests side by side.
    async fn all(&self, mut bios: Vec<Bio>) -> Result<Vec<Buf>, Error> {
        if bios.len() == 1 {
            return Ok(vec![self.one(bios.remove(0)).await?]);
        }
        let done = join_all(bios.into_iter().map(|bio| self.export.request(bio))).await;
        Ok(done.into_iter().map(|done| done.result.map(|_| done.buf)).collect::<Result<_, _>>()?)
    }

    async fn one(&self, bio: Bio) -> Result<Buf, Error> {
        let done = self.export.request(bio).await;
        Ok(done.result.map(|_| done.buf)?)
    }
}

impl Facts {
    /// Requests of at most the size that the devices take.
    fn pieces(&self, len: usize) -> impl Iterator<Item = Piece> + use<> {
        let most = (self.transfer_max / self.block * self.block).max(self.block) as usize;
        (0..len).step_by(most).map(move |from| Piece { from, len: most.min(len - from) })
    }

    fn check(&self, size: u64, offset: u64, len: u64) -> Result<(), Error> {
        let (block, name) = (u64::from(self.block), &self.name);
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            let why = format!(
                "{name}: {len} bytes at {offset} are no whole blocks of {block} bytes; put `align block=1` into the stack text \
                 to take any"
            );
            return Err(Error::Invalid(why));
        }
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Error::Invalid(format!("{name}: {len} bytes at {offset} go beyond its {size} bytes"))),
        }
    }
}

impl Export {
    pub(crate) fn of(shared: Arc<Shared>, facts: Facts) -> Export {
        Export { shared, facts: Arc::new(facts) }
    }

    /// Its name in the stack text.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Offsets and lengths are multiples of so many bytes.
    pub fn block_bytes(&self) -> u32 {
        self.facts.block
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.facts.is_read_only
    }

    /// Bytes of the volume now: a thin volume may be resized.
    ///
    /// # Errors
    /// [`Error::Unusable`]: the stack is closed.
    pub fn size(&self) -> Result<u64, Error> {
        self.wait(self.start(|open, _| async move { Ok(open.export.size()) }))
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond the end or between blocks, and what the stack answers. `out` is as before then.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<(), Error> {
        fill(out, &self.wait(self.start_read(offset, out.len()))?);
        Ok(())
    }

    /// As [`Export::read_at`].
    ///
    /// # Errors
    /// As [`Export::read_at`].
    pub async fn read_at_async(&self, out: &mut [u8], offset: u64) -> Result<(), Error> {
        fill(out, &self.start_read(offset, out.len()).await?);
        Ok(())
    }

    /// Writes `bytes` from `offset` on. They are durable behind the next [`Export::flush`].
    ///
    /// # Errors
    /// As [`Export::read_at`]; a part may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.wait(self.start_write(bytes, offset, false))
    }

    /// As [`Export::write_at`].
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub async fn write_at_async(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.start_write(bytes, offset, false).await
    }

    /// As [`Export::write_at`], and the bytes are durable behind this call.
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub fn write_durably_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.wait(self.start_write(bytes, offset, true))
    }

    /// As [`Export::write_durably_at`].
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub async fn write_durably_at_async(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.start_write(bytes, offset, true).await
    }

    /// Makes all completed writes durable, of all threads. Calls of several threads share flushes of the devices.
    ///
    /// # Errors
    /// What the stack answers. A failed flush is final: the stack takes no changes behind it.
    pub fn flush(&self) -> Result<(), Error> {
        self.wait(self.start_flush())
    }

    /// As [`Export::flush`].
    ///
    /// # Errors
    /// As [`Export::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        self.start_flush().await
    }

    /// Makes a range read as zeroes, without sending them where the devices can.
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub fn zero(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.start_range(offset, len, Bio::zero))
    }

    /// As [`Export::zero`].
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub async fn zero_async(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.start_range(offset, len, Bio::zero).await
    }

    /// Tells that a range is not needed any more. It reads as anything that was ever there, or as zeroes.
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.start_range(offset, len, Bio::discard))
    }

    /// As [`Export::discard`].
    ///
    /// # Errors
    /// As [`Export::write_at`].
    pub async fn discard_async(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.start_range(offset, len, Bio::discard).await
    }

    fn start_read(&self, offset: u64, len: usize) -> Answer<Result<Vec<Buf>, Error>> {
        self.start(move |open, facts| async move {
            facts.check(open.export.size(), offset, len as u64)?;
            let pool = open.export.stack().pool();
            let bio = |piece: Piece| Bio::read(offset + piece.from as u64, Buf::unique(pool, piece.len));
            open.all(facts.pieces(len).map(bio).collect()).await
        })
    }

    /// The bytes are copied on the caller's thread, into memory that devices take as it is.
    fn start_write(&self, bytes: &[u8], offset: u64, is_durable: bool) -> Answer<Result<(), Error>> {
        let copy = |piece: Piece| Buf::from_bytes(&self.shared.pool, &bytes[piece.from..][..piece.len]);
        let (bufs, len): (Vec<Buf>, _) = (self.facts.pieces(bytes.len()).map(copy).collect(), bytes.len());
        self.start(move |open, facts| async move {
            facts.check(open.export.size(), offset, len as u64)?;
            let bio = |(piece, buf): (Piece, Buf)| {
                let bio = Bio::write(offset + piece.from as u64, buf);
                if is_durable { bio.fua() } else { bio }
            };
            open.all(facts.pieces(len).zip(bufs).map(bio).collect()).await.map(drop)
        })
    }

    fn start_flush(&self) -> Answer<Result<(), Error>> {
        self.start(|open, _| async move { Ok(open.flush().await?) })
    }

    fn start_range(&self, offset: u64, len: u64, bio: fn(u64, u64) -> Bio) -> Answer<Result<(), Error>> {
        self.start(move |open, facts| async move {
            facts.check(open.export.size(), offset, len)?;
            open.one(bio(offset, len)).await.map(drop)
        })
    }

    /// Starts a call on the stack's thread, if the stack is open.
    fn start<R, Fut>(
        &self,
        call: impl FnOnce(Rc<OpenExport>, Arc<Facts>) -> Fut + Send + 'static,
    ) -> Answer<Result<R, Error>>
    where
        R: Send + 'static,
        Fut: Future<Output = Result<R, Error>> + 'static,
    {
        let facts = self.facts.clone();
        self.shared.cell.start(move |_, opened| {
            let called = opened.export(facts.place).map(|open| call(open, facts));
            async move { called?.await }
        })
    }

    fn wait<R>(&self, answer: Answer<R>) -> R {
        answer.wait(self.shared.spin)
    }
}

fn fill(out: &mut [u8], read: &[Buf]) {
    let mut rest = out;
    for buf in read {
        let (part, behind) = rest.split_at_mut(buf.len());
        buf.copy_to(part);
        rest = behind;
    }
}
