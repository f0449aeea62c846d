//! Into the log.

use esker_block::{Bio, BioError, Buf, Op};
use esker_layer_kit::Io;
use esker_rt::Level;

use crate::AWAY;
use crate::format::{Content, Record, place};
use crate::log::Fate;
use crate::run::{METADATA, Offload, add};
use crate::superblock::Superblock;

/// What became of a change that was to go into the log.
pub(crate) enum Appended {
    /// It is there, or failed for good.
    Done(Result<(), BioError>),
    /// The log takes it not: no room, or it has stopped.
    NoRoom,
}

impl Offload {
    /// Adds a record and answers when it and all before it are in the log.
    pub(crate) async fn append(&self, io: &Io, bio: &mut Bio) -> Appended {
        let content = match bio.op {
            Op::Write => Content::Data(sum(&bio.buf)),
            Op::Zero => Content::Zeroes { no_unmap: bio.flags.no_unmap },
            Op::Read | Op::Flush | Op::Discard | Op::Ranges(_) | Op::Extents => Content::Zeroes { no_unmap: false },
        };
        let Some(records) = self.reserve(bio, content) else { return Appended::NoRoom };
        let own = records.last().expect("its own").number;
        let writes = records.iter().map(|record| self.write(io, record, bio)).collect();
        for (record, returned) in records.iter().zip(io.all(writes, records.len()).await) {
            let is_written = returned.result.is_ok();
            self.log.borrow_mut().ended(
                &self.superblock.borrow(),
                record.number,
                is_written,
                &mut self.map.borrow_mut(),
            );
            if let Err(error) = returned.result {
                self.rt.log(Level::Error, format_args!("{}: the log cannot be written: {error}", self.config.name));
            }
        }
        self.ended.notify_all();
        self.ended.wait_until(|| self.log.borrow().fate(own) != Fate::Open).await;
        if self.log.borrow().fate(own) == Fate::Lost {
            return match self.stop(io).await {
                Ok(()) => Appended::NoRoom,
                Err(error) => Appended::Done(Err(error)),
            };
        }
        add(&self.counts.offloaded, bio.len());
        self.note_fullness();
        // Records before it may be in the device's cache only, and it is not found without them.
        let forced = if bio.flags.fua { self.flush_away(io).await } else { Ok(()) };
        Appended::Done(forced)
    }

    fn reserve(&self, bio: &Bio, content: Content) -> Option<Vec<Record>> {
        let mut log = self.log.borrow_mut();
        let is_bounded = log.len() + self.map.borrow().len() + 4 <= self.config.entries;
        let reserved = match self.stopped.borrow().is_none() && is_bounded {
            true => log.reserve(&self.superblock.borrow(), bio.range, content, self.away.durable()),
            false => None,
        };
        if reserved.is_none() {
            self.emptying.set(true);
            self.background.wake();
        }
        reserved
    }

    /// The request that brings a record to its place.
    fn write(&self, io: &Io, record: &Record, bio: &mut Bio) -> Bio {
        let superblock = self.superblock.borrow();
        let header = Buf::from_bytes(&self.pool, &record.encode(&superblock));
        let buf = match record.content {
            Content::Data(_) => Buf::chain(vec![header, bio.buf.share()]),
            Content::Zeroes { .. } | Content::Skip => header,
        };
        let tag = if record.content == Content::Skip { METADATA } else { bio.tag };
        Bio::write(place(&superblock, record.position), buf).tagged(tag).to(io.lower(AWAY))
    }

    fn note_fullness(&self) {
        let superblock = self.superblock.borrow();
        if self.log.borrow().used(&superblock) as f64 > self.config.full * superblock.area as f64 {
            self.emptying.set(true);
            self.background.wake();
        }
    }

    /// After a write of the log that failed: the device may hold any part of it and of those behind it. A new
    /// epoch makes certain that no restart finds them, before what they said is done at home. Nothing is off-loaded
    /// from then on.
    async fn stop(&self, io: &Io) -> Result<(), BioError> {
        self.fence_turn.alone(self.stop_in_turn(io)).await
    }

    async fn stop_in_turn(&self, io: &Io) -> Result<(), BioError> {
        self.latch.check()?;
        if self.stopped.borrow().is_some() {
            return Ok(());
        }
        self.ended.wait_until(|| self.log.borrow().under_way() == 0).await;
        self.log.borrow_mut().give_up_rest();
        let next = self.log.borrow().next();
        let begin_epoch =
            |superblock: &mut Superblock| (superblock.epoch, superblock.since) = (superblock.epoch + 1, next);
        let stored = self.store_superblock(io, begin_epoch).await;
        let why = "off-loading has ended, since the log could not be written".to_string();
        self.rt.log(Level::Error, format_args!("{}: {why}", self.config.name));
        *self.stopped.borrow_mut() = Some(why);
        self.background.wake();
        stored
    }
}

/// CRC-32 of a payload.
fn sum(buf: &Buf) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    buf.for_each_piece(&mut |piece| hasher.update(piece));
    hasher.finalize()
}
