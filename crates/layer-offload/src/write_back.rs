//! Home again: the oldest records first, because the log gives space back at its beginning only.
//!
//! What a batch of records holds is copied home and flushed; then the superblock names the record behind them; and only
//! then does the map say that the bytes are at home. From then on they may be changed there, and no replay finds the
//! records.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::flight::WIDTH;
use esker_block::locks::Mode;
use esker_block::split::LowerAddress;
use esker_block::{Bio, BioError, Class, LayerHandle, Tag, WorkPermit};
use esker_layer_kit::mover::{Move, Way, nothing};
use esker_layer_kit::{Io, Then};
use esker_rt::Level;

use crate::format::{Record, place};
use crate::log::holds;
use crate::map::{Piece, Where};
use crate::run::{Offload, add};
use crate::{AWAY, HOME};

/// How long it waits after home failed.
const PAUSE: Nanos = Nanos::secs(1);

const BACKGROUND: Tag = Tag::of(Class::Background);

/// Runs until the layer leaves its stack.
pub(crate) async fn run(offload: Rc<Offload>, handle: LayerHandle) {
    let name = &offload.config.name;
    let work = async |job: WorkPermit, ()| {
        let io = Io::new(&offload.rt, &offload.pool, job.below().clone());
        match offload.work(&io).await {
            Ok(true) => Then::Again,
            // The oldest record is still under way.
            Ok(false) => Then::After(Nanos::millis(1)),
            Err(error) => {
                offload.rt.log(Level::Error, format_args!("{name}: what was off-loaded cannot go home: {error}"));
                Then::After(PAUSE)
            }
        }
    };
    let due = || offload.has_work().then_some((Nanos::ZERO, ()));
    offload.background.run((&offload.rt, Some(&offload.latch)), &handle, due, work).await;
}

impl Offload {
    /// Whether home may be used, or must be.
    fn has_work(&self) -> bool {
        let is_wanted = self.config.drain || self.stopped.borrow().is_some() || self.emptying.get();
        !self.log.borrow().is_empty() && (is_wanted || !self.is_resting())
    }

    /// One batch. A log that is too full is first freed of what is no longer the newest, for which home can rest on.
    async fn work(&self, io: &Io) -> Result<bool, BioError> {
        let is_urged = self.emptying.get() && self.is_resting();
        if is_urged && self.reclaim(io, false).await? {
            self.note_emptied(self.config.full);
            return Ok(true);
        }
        if is_urged && self.home_awake.can_wake() {
            // Once it is awake, it takes in everything.
            add(&self.counts.wakes, 1);
            self.home_awake.work(self.rt.now());
        }
        let is_done = self.reclaim(io, true).await?;
        self.note_emptied(self.config.full / 2.0);
        Ok(is_done)
    }

    fn note_emptied(&self, share: f64) {
        let superblock = self.superblock.borrow();
        let log = self.log.borrow();
        if log.is_empty() || log.used(&superblock) as f64 <= share * superblock.area as f64 {
            self.emptying.set(false);
        }
    }

    /// Frees the oldest records; only those that hold nothing of worth, unless home may be used. Whether there were
    /// any.
    pub async fn reclaim(&self, io: &Io, may_use_home: bool) -> Result<bool, BioError> {
        self.reclaim_turn.alone(self.reclaim_in_turn(io, may_use_home)).await
    }

    async fn reclaim_in_turn(&self, io: &Io, may_use_home: bool) -> Result<bool, BioError> {
        self.latch.check()?;
        let records = {
            let (log, superblock) = (self.log.borrow(), self.superblock.borrow());
            log.oldest(&superblock, self.config.batch, |record| may_use_home || self.newest_in(record).next().is_none())
        };
        let Some(last) = records.last() else {
            // Those under way come to their end without us.
            let is_under_way = self.log.borrow().under_way() > 0;
            if may_use_home && is_under_way {
                self.ended.wait().await;
            }
            return Ok(false);
        };
        let ranges: Vec<ByteRange> =
            records.iter().flat_map(|record| self.newest_in(record)).map(|p| p.range).collect();
        let ticket = self.locks.enter(ranges, Mode::Exclusive);
        self.locks.granted(ticket).await;
        let result = self.bring_home(io, &records, last).await;
        self.locks.leave(ticket);
        result.map(|()| true)
    }

    /// What a record holds of the newest bytes.
    fn newest_in(&self, record: &Record) -> impl Iterator<Item = Piece> + use<> {
        let (map, superblock) = (self.map.borrow(), self.superblock.borrow());
        let pieces: Vec<Piece> =
            map.in_log(record.range).filter(|piece| holds(record, &superblock, piece.at)).collect();
        pieces.into_iter()
    }

    /// No other task touches the bytes.
    async fn bring_home(&self, io: &Io, records: &[Record], last: &Record) -> Result<(), BioError> {
        let pieces: Vec<Piece> = records.iter().flat_map(|record| self.newest_in(record)).collect();
        if !pieces.is_empty() {
            self.copy_home(io, &pieces).await?;
            self.flush_home(io).await?;
        }
        // What is not the newest goes too, so what took its place must be durable first.
        self.flush_away(io).await?;
        let (first, number) = (last.end(&self.superblock.borrow()), last.number + 1);
        self.store_superblock(io, |superblock| (superblock.first, superblock.number) = (first, number)).await?;
        self.log.borrow_mut().forget(number);
        let mut map = self.map.borrow_mut();
        for piece in &pieces {
            map.set(piece.range, Where::Home);
            add(&self.counts.reclaimed, piece.range.len());
        }
        Ok(())
    }

    async fn copy_home(&self, io: &Io, pieces: &[Piece]) -> Result<(), BioError> {
        let (mut moves, mut zeroes) = (Vec::new(), Vec::new());
        for Piece { range, at } in pieces {
            match *at {
                Where::Home => {}
                Where::Zeroes { no_unmap, .. } => {
                    let mut bio = Bio::zero(range.start(), range.len()).tagged(BACKGROUND).to(io.lower(HOME));
                    bio.flags.no_unmap = no_unmap;
                    zeroes.push(bio);
                }
                Where::Log(position) => moves.push(Move {
                    upper: range.start(),
                    from: LowerAddress { lower: AWAY, at: place(&self.superblock.borrow(), position) },
                    to: LowerAddress { lower: HOME, at: range.start() },
                    len: range.len(),
                }),
            }
        }
        let zeroed = io.all(zeroes, WIDTH).await;
        let copied = self.mover.copy(&Way::Io(io.clone()), moves, &nothing).await;
        self.home.ask();
        let report = copied.map_err(|error| BioError::invalid(error.to_string()))?;
        let failed = report.failed.into_iter().map(|(_, error)| error).next();
        let failed = failed.or_else(|| zeroed.into_iter().find_map(|returned| returned.result.err()));
        failed.map_or(Ok(()), Err)
    }
}
