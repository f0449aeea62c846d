//! From what the log's device holds to a volume in use.

use std::cell::{Cell, RefCell};

use esker_block::locks::RangeLocks;
use esker_block::{BioError, KindError, Latch, Opening};
use esker_layer_kit::{Io, media};
use esker_rt::sync::{Credits, Notify};

use crate::format::{AREA_START, Head, HeadError, Record};
use crate::log::{Log, enter};
use crate::map::Map;
use crate::replay::Replay;
use crate::run::{Counts, Offload, mover};
use crate::{AWAY, Config, HOME};

impl Offload {
    /// Reads the head and replays the log, or makes one on a blank device. What was found is made durable, and a new
    /// epoch begins behind it.
    pub(crate) async fn open(config: Config, opening: Opening) -> Result<Offload, KindError> {
        let Opening { rt, pool, below, .. } = opening;
        let io = Io::new(&rt, &pool, below);
        let name = config.name.clone();
        let outside = |what: &dyn std::fmt::Display| KindError::Outside(format!("{name}: {what}"));
        let failed = |error: BioError| outside(&format!("the device of the log fails: {error}"));
        let slots = io.read(io.lower(AWAY), 0, AREA_START as usize).await.map_err(failed)?.to_vec();
        let (head, records) = match Head::newest(&slots) {
            Err(HeadError::Blank) => {
                check_home(&io, &config).await.map_err(|what| outside(&what))?;
                let head = Head::new(rt.unique(), config.size, config.area, config.block);
                let unfit = |error| outside(&format!("a log made here could not be opened again: it {error}"));
                head.check_new().map_err(unfit)?;
                (head, Vec::new())
            }
            Err(error) => return Err(outside(&format!("the device of the log {}", refusal(error, &slots)))),
            Ok(head) => {
                check_fit(&head, &config).map_err(|what| outside(&what))?;
                let records = replay(&io, &head, config.batch).await.map_err(|what| outside(&what))?;
                (head, records)
            }
        };
        let offload = Offload::of(config, rt, pool, head, records);
        offload.begin(&io).await.map_err(failed)?;
        Ok(offload)
    }

    fn of(config: Config, rt: esker_rt::Rt, pool: esker_rt::mem::Pool, head: Head, records: Vec<Record>) -> Offload {
        let mut map = Map::default();
        records.iter().for_each(|record| enter(record, &head, &mut map));
        Offload {
            read_last: Cell::new(rt.now()),
            log: RefCell::new(Log::new(&head, records)),
            map: RefCell::new(map),
            locks: RangeLocks::default().into(),
            mover: mover(&config),
            durable: Cell::new(head.durable),
            head: RefCell::new(head),
            head_turn: Credits::new(1),
            reclaim_turn: Credits::new(1),
            fence_turn: Credits::new(1),
            home_written: Cell::new(0),
            home_flushed: Cell::new(0),
            ended: Notify::default(),
            emptying: Cell::new(false),
            stopped: RefCell::default(),
            latch: Latch::new(&config.name),
            closing: Cell::new(false),
            wake: Notify::default(),
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
        self.store_head(io, |head| {
            head.home = size;
            (head.epoch, head.since) = (head.epoch + 1, next);
        })
        .await
    }
}

/// Why a device with this start is no log.
fn refusal(error: HeadError, start: &[u8]) -> String {
    match (error, media::name_of(start)) {
        (HeadError::Foreign, Some(name)) => format!("holds {name}; to use it for a log, zero its first 8 KiB"),
        (error, _) => error.to_string(),
    }
}

/// A new log is made only for a home that is no log itself: the names of the two devices may be swapped.
async fn check_home(io: &Io, config: &Config) -> Result<(), String> {
    let len = AREA_START.min(config.size) as usize;
    let read = io.read(io.lower(HOME), 0, len).await;
    let mut start = read.map_err(|error| format!("home fails: {error}"))?.to_vec();
    start.resize(AREA_START as usize, 0);
    match Head::newest(&start) {
        Err(HeadError::Blank | HeadError::Foreign) => Ok(()),
        _ => Err("home holds a log of off-loaded writes, and the device of the log is blank: their names may be swapped; write \
                  the home first, then the log"
            .to_string()),
    }
}

/// Whether the stack's devices are those of the log, as far as can be told.
fn check_fit(head: &Head, config: &Config) -> Result<(), String> {
    if head.home > config.size {
        let (was, is) = (head.home, config.size);
        return Err(format!("the log is of a volume of {was} bytes, and home has {is}; name the home that it is of"));
    }
    if head.area > config.area {
        let (was, is) = (head.area + AREA_START, config.area + AREA_START);
        return Err(format!("the log was made on {was} bytes, and its device has {is}; name all of it"));
    }
    if head.block != config.block {
        let (was, is) = (head.block, config.block);
        return Err(format!(
            "the log was made for blocks of {was} bytes, and here are {is}; put `align` on the device"
        ));
    }
    Ok(())
}

async fn replay(io: &Io, head: &Head, window: u64) -> Result<Vec<Record>, String> {
    let mut replay = Replay::new(head.clone(), false, window);
    while let Some(range) = replay.wants() {
        let read = io.read(io.lower(AWAY), range.start(), range.len() as usize).await;
        replay.feed(&read.map_err(|error| format!("the log cannot be read: {error}"))?.to_vec());
    }
    replay.end().map_err(|damage| damage.to_string())
}
