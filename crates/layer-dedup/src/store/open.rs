//! OpenContext: the superblock, the journal replayed, the free map counted; or a new volume.

use esker_base::Progress;
use esker_block::{Bio, BioError, Buf};
use esker_framing::SuperblockError;
use esker_layer_kit::{Io, media};

use super::commit::{chunk, flush, write_superblock};
use super::{Config, Store};
use crate::cache::METADATA;
use crate::journal::{self, JournalError, Record};
use crate::layout::{BITS_PER_CELL, BITS_PER_PAGE, SUPERBLOCKS};
use crate::space::Space;
use crate::superblock::Superblock;

/// Why a volume cannot be used. The text goes on after the words "the lower device".
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// No superblock.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The medium of another layer.
    #[error("holds {0}, and no deduplicated volume; if nothing there is needed, zero its first 8 KiB")]
    Medium(&'static str),
    /// The volume is another one than the stack text says.
    #[error("holds a volume made with block={block} size={size}; write these values in the stack text")]
    Other {
        /// Its block in bytes.
        block: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// It has become smaller.
    #[error("has {is} bytes, and the volume on it needs {needed}")]
    Shrunk {
        /// Bytes that are there.
        is: u64,
        /// Bytes that should be.
        needed: u64,
    },
    /// The journal.
    #[error("has a journal that cannot be used: {0}")]
    Journal(#[from] JournalError),
    /// The lower device failed.
    #[error("cannot be used: {0}")]
    Io(#[from] BioError),
}

impl OpenError {
    /// Whether what was durable is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, OpenError::Journal(_)) || matches!(self, OpenError::Superblock(error) if error.is_damage())
    }
}

impl Store {
    /// Finds the volume, or makes one on a blank lower device, and brings it to where its last commit left it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(config: Config, io: &Io) -> Result<Store, OpenError> {
        let start = read(io, 0, SUPERBLOCKS, &config).await?;
        let superblock = match (Superblock::newest(&start), media::name_of(&start)) {
            (Err(SuperblockError::Blank), _) => format(&config, io).await?,
            (Err(SuperblockError::Foreign(_)), Some(name)) => return Err(OpenError::Medium(name)),
            (found, _) => found?,
        };
        let layout = superblock.layout;
        if (layout.block, layout.logical) != (config.layout.block, config.layout.logical) {
            return Err(OpenError::Other { block: layout.block, size: layout.size() });
        }
        if layout.end() > config.device {
            return Err(OpenError::Shrunk { is: config.device, needed: layout.end() });
        }
        let journal = read(io, SUPERBLOCKS, layout.journal, &config).await?;
        let records = journal::replay(superblock.set, superblock.epoch, &layout, &journal)?;
        drop(journal);
        let store = Store::of(Config { layout, ..config }, &superblock, io.rt());
        let count = records.len() as u64;
        for (number, record) in (1u64..).zip(&records) {
            store.redo(io, record).await?;
            io.rt().progress(Progress::of("journal of dedup", "records", number, count));
        }
        store.done.replayed.set(records.len() as u64);
        store.count_free(io).await?;
        if !store.latch.is_set() {
            // From here on nothing of the old journal counts, not even what a torn commit left behind its tear.
            store.write_tables(io).await?;
        }
        Ok(store)
    }

    async fn redo(&self, io: &Io, record: &Record) -> Result<(), BioError> {
        if self.cache.is_full_of_changes() {
            // The records are durable already.
            self.cache.write_back(io).await?;
        }
        self.cache.hold();
        let ready = self.ready(io, record).await;
        if ready.is_ok() {
            self.apply(record);
        }
        self.cache.release();
        ready
    }

    async fn count_free(&self, io: &Io) -> Result<(), BioError> {
        let physical = u64::from(self.layout().physical);
        let mut free = Vec::new();
        for page in 0..self.layout().free_pages() {
            let first = u64::from(page) * BITS_PER_PAGE;
            let end = (first + BITS_PER_PAGE).min(physical);
            let mut used = 0;
            for base in (first..end).step_by(BITS_PER_CELL as usize) {
                let bits = self.bits(io, base as u32).await?;
                let last = (end - base).min(BITS_PER_CELL) as usize;
                used += bits[..last / 8].iter().map(|byte| byte.count_ones()).sum::<u32>();
                // Bits beyond the last block mean nothing.
                used += (bits[last / 8 % bits.len()] & ((1 << (last % 8)) - 1)).count_ones();
            }
            free.push(((end - first) as u32).saturating_sub(used));
            self.rt.progress(Progress::of("free map of dedup", "blocks", end, physical));
        }
        let space = Space::new(free);
        let used = physical - space.free();
        if used != u64::from(self.used.get()) {
            let what = format!("the free map says {used} blocks are used, the superblock {}", self.used.get());
            self.latch.set(&self.rt, what, super::commit::CHECK);
        }
        self.space.replace(space);
        Ok(())
    }
}

async fn read(io: &Io, at: u64, len: u64, config: &Config) -> Result<Vec<u8>, BioError> {
    let mut bytes = Vec::with_capacity(len as usize);
    let most = chunk(config);
    for from in (0..len).step_by(most as usize) {
        let buf = Buf::unique(io.pool(), most.min(len - from) as usize);
        let done = io.submit(Bio::read(at + from, buf).tagged(METADATA).to(io.lower(0))).await;
        done.result?;
        bytes.extend_from_slice(&done.buf.to_vec());
    }
    Ok(bytes)
}

/// Makes a volume on a blank lower device: empty tables first, then the superblock, without which there is none.
async fn format(config: &Config, io: &Io) -> Result<Superblock, OpenError> {
    let (from, end) = (config.layout.tables(), config.layout.data());
    let most = if config.zeroes { end - from } else { chunk(config) };
    for at in (from..end).step_by(most as usize) {
        let len = most.min(end - at);
        io.rt().progress(Progress::bytes("tables of dedup", at - from, end - from));
        let bio = match config.zeroes {
            true => Bio::zero(at, len),
            false => Bio::write(at, Buf::zeroed(io.pool(), len as usize)),
        };
        io.submit(bio.tagged(METADATA).to(io.lower(0))).await.result?;
    }
    io.rt().progress(Progress::bytes("tables of dedup", end - from, end - from));
    flush(io).await?;
    let superblock = Superblock { set: io.rt().unique(), epoch: 1, layout: config.layout, mapped: 0, used: 0 };
    write_superblock(io, &superblock, config).await?;
    Ok(superblock)
}
