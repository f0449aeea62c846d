//! From what the log's device holds to a volume in use.

use std::cell::{Cell, RefCell};

use esker_base::Progress;
use esker_block::locks::RangeLocks;
use esker_block::{BioError, KindError, Latch};
use esker_framing::SuperblockError;
use esker_layer_kit::{Awake, Background, GroupCommit, Io, Turn, media};
use esker_rt::sync::Notify;

use crate::format::{AREA_START, Record};
use crate::log::{Log, enter};
use crate::log_scan::Replay;
use crate::map::Map;
use crate::run::{Counts, Offload, mover};
use crate::superblock::Superblock;
use crate::{AWAY, Config, HOME};

/// The part of opening that reads the log.
const LOG: &str = "log of off-loaded writes";

impl Offload {
    /// Reads the superblock and replays the log, or makes one on a blank device. What was found is made durable, and a
    /// new epoch begins behind it.
    pub(crate) async fn restore(config: Config, io: &Io) -> Result<Offload, KindError> {
        let (rt, pool) = (io.rt(), io.pool());
        let name = config.name.clone();
        let outside = |what: &dyn std::fmt::Display| KindError::Outside(format!("{name}: {what}"));
        let failed = |error: BioError| outside(&format!("the device of the log fails: {error}"));
        let slots = io.read(io.lower(AWAY), 0, AREA_START as usize).await.map_err(failed)?.to_vec();
        let (superblock, records) = match Superblock::newest(&slots) {
            Err(SuperblockError::Blank) => {
                check_home(io, &config).await.map_err(|what| outside(&what))?;
                let superblock = Superblock::new(rt.unique(), config.size, config.area, config.block);
                let unfit = |error| outside(&format!("a log made here could not be opened again: it {error}"));
                superblock.check_new().map_err(unfit)?;
                (superblock, Vec::new())
            }
            Err(error) => {
                let what = format!("{name}: the device of the log {}", refusal(error, &slots));
                return Err(KindError::of_medium(error.is_damage(), what));
            }
            Ok(superblock) => {
                check_fit(&superblock, &config).map_err(|what| outside(&what))?;
                let records = replay(io, &superblock, config.batch).await.map_err(|what| outside(&what))?;
                (superblock, records)
            }
        };
        let offload = Offload::of(config, rt.clone(), pool.clone(), superblock, records);
        offload.begin(io).await.map_err(failed)?;
        Ok(offload)
    }

    fn of(
        config: Config,
        rt: esker_rt::Rt,
        pool: esker_rt::mem::Pool,
        superblock: Superblock,
        records: Vec<Record>,
    ) -> Offload {
        let mut map = Map::default();
        records.iter().for_each(|record| enter(record, &superblock, &mut map));
        Offload {
            home_awake: Awake::new(config.rest, rt.now()),
            log: RefCell::new(Log::new(&superblock, records)),
            map: RefCell::new(map),
            locks: RangeLocks::default().into(),
            mover: mover(&config),
            away: GroupCommit::new(superblock.durable),
            home: GroupCommit::default(),
            superblock: RefCell::new(superblock),
            superblock_turn: Turn::default(),
            reclaim_turn: Turn::default(),
            fence_turn: Turn::default(),
            ended: Notify::default(),
            emptying: Cell::new(false),
            stopped: RefCell::default(),
            latch: Latch::new(&config.name),
            background: Background::default(),
            counts: Counts::default(),
            config,
            rt,
            pool,
        }
    }

    async fn begin(&self, io: &Io) -> Result<(), BioError> {
        // What was replayed may so far be in the device's cache only.
        self.flush_away(io).await?;
        let (size, next) = (self.config.size, self.log.borrow().next());
        self.store_superblock(io, |superblock| {
            superblock.home = size;
            (superblock.epoch, superblock.since) = (superblock.epoch + 1, next);
        })
        .await
    }
}

/// Why a device with this start is no log.
fn refusal(error: SuperblockError, start: &[u8]) -> String {
    match (error, media::name_of(start)) {
        (SuperblockError::Foreign(_), Some(name)) => format!("holds {name}; to use it for a log, zero its first 8 KiB"),
        (error, _) => error.to_string(),
    }
}

/// A new log is made only for a home that is no log itself: the names of the two devices may be swapped.
async fn check_home(io: &Io, config: &Config) -> Result<(), String> {
    let len = AREA_START.min(config.size) as usize;
    let read = io.read(io.lower(HOME), 0, len).await;
    let mut start = read.map_err(|error| format!("home fails: {error}"))?.to_vec();
    start.resize(AREA_START as usize, 0);
    match Superblock::newest(&start) {
        Err(error) if error.is_unmarked() => Ok(()),
        _ => Err("home holds a log of off-loaded writes, and the device of the log is blank: their names may be swapped; write \
                  the home first, then the log"
            .to_string()),
    }
}

/// Whether the stack's devices are those of the log, as far as can be told.
fn check_fit(superblock: &Superblock, config: &Config) -> Result<(), String> {
    if superblock.home > config.size {
        let (was, is) = (superblock.home, config.size);
        return Err(format!("the log is of a volume of {was} bytes, and home has {is}; name the home that it is of"));
    }
    if superblock.area > config.area {
        let (was, is) = (superblock.area + AREA_START, config.area + AREA_START);
        return Err(format!("the log was made on {was} bytes, and its device has {is}; name all of it"));
    }
    if superblock.block != config.block {
        let (was, is) = (superblock.block, config.block);
        return Err(format!(
            "the log was made for blocks of {was} bytes, and here are {is}; put `align` on the device"
        ));
    }
    Ok(())
}

async fn replay(io: &Io, superblock: &Superblock, window: u64) -> Result<Vec<Record>, String> {
    let mut replay = Replay::new(superblock.clone(), false, window);
    let (mut done, all) = (0, superblock.area);
    while let Some(range) = replay.wants() {
        let read = io.read(io.lower(AWAY), range.start(), range.len() as usize).await;
        done += range.len();
        io.rt().progress(Progress::bytes(LOG, done.min(all - 1), all));
        replay.feed(&read.map_err(|error| format!("the log cannot be read: {error}"))?.to_vec());
    }
    io.rt().progress(Progress::bytes(LOG, all, all));
    replay.end().map_err(|damage| damage.to_string())
}
