//! From parameters and a medium to a volume in use.

use std::ops::RangeInclusive;
use std::rc::Rc;

use esker_base::units::MIB;
use esker_block::{Args, Below, KindError, Limits, Make, OpKind, Support};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::collect::{Separation, Settings, SettingsError};
use crate::format::{BATCH_HEAD, Geometry, GeometryError, Heads, RECORD, SLOT};
use crate::log::Log;
use crate::map::{LOGICAL_BLOCKS, Map};
use crate::pages::Pages;
use crate::recover::{RecoverError, Recovery};
use crate::segments::Segments;
use crate::store::Stores;
use crate::volume::{Config, StartState, Volume};
use esker_block::BioError;

/// Bytes of the largest request, and with it of the largest write that a power cut leaves whole or undone.
const REQUEST_MAX: u64 = MIB;
/// Bytes of the largest batch.
const BATCH_MAX: u64 = 2 * MIB;
/// Segments that a new volume has by default, about: enough that several open ones and the reserve are a small share.
const SEGMENTS_DEFAULT: u64 = 1024;
/// Bytes of a segment by default. The largest request is a quarter of the smallest one.
const SEGMENT_DEFAULT: RangeInclusive<u64> = 4 * MIB..=128 * MIB;
/// Elements of the largest range vector.
const RANGES_MAX: u64 = 1024;

/// Why a volume cannot be opened.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum OpenError {
    /// What is there cannot be used.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A new volume cannot be made like this; the text says what would do.
    #[error("a new volume cannot be made: {0}")]
    Unfit(#[from] GeometryError),
    /// Requests could be smaller than its blocks, or larger than its segments hold.
    #[error("it has blocks of {block} and segments of {segment} bytes; write block={block} segment={segment}")]
    Geometry {
        /// Bytes of its blocks.
        block: u32,
        /// Bytes of its segments.
        segment: u64,
    },
    /// Its first checkpoint cannot be written.
    #[error("it cannot be written: {0}")]
    Unwritable(#[from] BioError),
}

/// What a volume is to be, and what it offers in logical blocks of `sector` bytes, or of its own where these are
/// smaller.
pub(crate) fn configure(make: &Make<'_>, sector: u32) -> Result<(Config, Limits), KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let (lower, args) = (&make.lowers[0], make.args);
    let narrow = |name: &str| u32::try_from(args.int(name)).unwrap_or(u32::MAX);
    let (block, page) = (narrow("block"), narrow("page"));
    let (segment, segment_least) = match args.int_opt("segment") {
        Some(segment) => (segment, segment),
        None => (segment_for(lower.size), *SEGMENT_DEFAULT.start()),
    };
    let config = Config {
        collector: collector(args).map_err(|error| unfit(error.to_string()))?,
        segment_least,
        ..Config::over(make.name, lower, block, page, segment, args.int("checkpoint_interval"))
    };
    let geometry = config.geometry().map_err(|error| unfit(error.to_string()))?;
    let least = (2 * SLOT as u64).max(4 * u64::from(geometry.block)).max(u64::from(geometry.page));
    if geometry.block < lower.block || config.transfer_max < least {
        return Err(unfit(format!(
            "blocks of {} bytes over a device with blocks of {} and requests of up to {} bytes; blocks of at most {} and \
             requests of at least {least} are needed",
            geometry.block, lower.block, config.transfer_max, geometry.block,
        )));
    }
    let whole = LOGICAL_BLOCKS * u64::from(geometry.block);
    let size = args.int_opt("size").unwrap_or(whole);
    if size == 0 || size > whole || !size.is_multiple_of(u64::from(geometry.block)) {
        return Err(unfit(format!("size = {size}; it is a multiple of {} up to {whole}", geometry.block)));
    }
    Ok((config.clone(), config.limits(lower, &geometry, size, sector)))
}

/// Bytes of a segment by default in a new volume on a medium of `bytes`.
pub(crate) fn segment_for(bytes: u64) -> u64 {
    let about = (bytes / SEGMENTS_DEFAULT).max(1);
    (1 << about.ilog2()).clamp(*SEGMENT_DEFAULT.start(), *SEGMENT_DEFAULT.end())
}

fn collector(args: &Args) -> Result<Settings, SettingsError> {
    let separation = match args.text("gc_separation") {
        "none" => Separation::Origin,
        _ => Separation::Lifetime,
    };
    let pace = (args.float("gc_start"), args.float("gc_bandwidth"));
    let victims = (args.text("gc_policy"), args.int_opt("gc_sample"));
    Settings::of(victims, separation, pace, args.int("gc_memory"), args.int("gc_threads"))
}

impl Config {
    /// For a volume over a device with these limits.
    pub fn over(name: &str, lower: &Limits, block: u32, page: u32, segment: u64, checkpoint: u64) -> Config {
        let transfer_max = u64::from(lower.transfer_max);
        let most = BATCH_MAX.min(transfer_max).min(segment) / u64::from(block.max(1));
        Config {
            name: name.to_string(),
            block,
            page: page.max(block),
            segment,
            segment_least: segment,
            checkpoint,
            medium: lower.size,
            medium_block: lower.block,
            // A segment's head may come before it.
            batch_blocks: most.saturating_sub(1),
            transfer_max,
            volatile: lower.volatile_cache,
            discards: lower.support(OpKind::Discard) != Support::No,
            zeroes: lower.support(OpKind::Zero) == Support::Native,
            collector: Settings::default(),
        }
    }

    /// Where things would be in a new volume.
    ///
    /// # Errors
    /// Which number is wrong, and what would be right.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        Geometry::fit(self.medium, self.block, self.page, self.segment)
    }

    /// What requests to a volume of this geometry must keep to, if its logical blocks are of `sector` bytes or its own,
    /// whichever are smaller.
    pub fn limits(&self, lower: &Limits, geometry: &Geometry, size: u64, sector: u32) -> Limits {
        let request = self.request_max(geometry, sector);
        let ranges = (request.saturating_sub(BATCH_HEAD as u64) / RECORD as u64).min(RANGES_MAX);
        let all = OpKind::ALL.into_iter();
        let limits = Limits {
            size,
            block: sector.min(geometry.block),
            atomic: request as u32,
            transfer_max: request as u32,
            volatile_cache: lower.volatile_cache,
            discard: geometry.block,
            ranges_max: ranges as u32,
            remap: geometry.block,
            described: false,
            preferred: lower.preferred.max(geometry.block).min(request as u32),
            ..lower.clone()
        };
        all.fold(limits, |limits, kind| limits.with(kind, Support::Native))
    }

    /// Bytes of the longest request, if requests are of multiples of `sector` bytes.
    pub(crate) fn request_max(&self, geometry: &Geometry, sector: u32) -> u64 {
        let block = u64::from(geometry.block);
        // The records take a block, a head one, and a request that begins and ends inside blocks touches one more than
        // it fills.
        let room = self.transfer_max - if sector < geometry.block { 3 * block } else { 2 * block };
        // A quarter of a segment, so that no more is wasted at its end.
        REQUEST_MAX.min(geometry.segment_bytes() / 4).min(room) / block * block
    }
}

impl Volume {
    /// Opens the volume on lower device 0 of `below`, or makes one if the medium is blank. What it finds there decides
    /// over what the configuration says about geometry; but the configuration has decided over requests, so the blocks
    /// there must not be larger, nor the segments smaller than [`Config::segment_least`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(config: Config, rt: &Rt, pool: &Pool, below: Below) -> Result<Rc<Volume>, OpenError> {
        let discards = config.discards;
        Volume::open_in(&|geometry| Stores::on_device(geometry, discards), config, rt, pool, below).await
    }

    /// The same for a volume in other stores; its slots are on lower device 0.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open_in(
        stores: &dyn Fn(Geometry) -> Stores,
        config: Config,
        rt: &Rt,
        pool: &Pool,
        below: Below,
    ) -> Result<Rc<Volume>, OpenError> {
        let geometry = config.geometry()?;
        let recovery = Recovery {
            rt,
            pool,
            below: &below,
            stores,
            medium: config.medium,
            block: config.medium_block,
            transfer_max: config.transfer_max,
        };
        let unique = rt.unique();
        let found = match recovery.newest().await? {
            Some(slot) => {
                let epoch = epoch_of(unique, slot.generation);
                recovery.run(slot).await?.into_found(epoch)
            }
            None => fresh(stores(geometry), geometry, unique, epoch_of(unique, 0)),
        };
        let (block, segment) = (found.geometry.block, found.geometry.segment_bytes());
        if block > config.block || segment < config.segment_least {
            return Err(OpenError::Geometry { block, segment });
        }
        let is_new = found.generation == 0;
        let volume = Rc::new(Volume::of(config, rt.clone(), pool.clone(), found));
        match volume.checkpoint(&volume.store(below.clone())).await {
            // It can be read, and the first change tries again.
            Err(error @ BioError::NoSpace(_)) if !is_new => volume.break_off(&error),
            other => other?,
        }
        if is_new {
            volume.lay_by(&volume.store(below.clone())).await;
        }
        volume.note_space();
        Ok(volume)
    }

    /// It leaves its stack: work in the background ends.
    pub fn close(&self) {
        self.checkpoints.close();
        self.erasures.close();
        self.returns.close();
        self.collector.tasks.close();
    }
}

/// What marks the log of one opening. In virtual time two worlds with one seed draw the same number at the same
/// instant. But no two openings find a checkpoint of the same generation: multiplied by an odd number, it keeps them
/// apart.
fn epoch_of(unique: u128, generation: u64) -> u64 {
    (unique >> 64) as u64 ^ unique as u64 ^ generation.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn fresh(stores: Stores, geometry: Geometry, identity: u128, epoch: u64) -> StartState {
    StartState {
        geometry,
        identity,
        epoch,
        generation: 0,
        stores,
        map: Map::new(geometry.fanout()),
        segments: Segments::new(geometry),
        pages: Pages::new(geometry),
        log: Log::at(1, Heads::default()),
        replayed: 0,
    }
}
