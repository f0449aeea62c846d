//! The medium of a deduplicated volume: nothing on it makes reader or checker fall, and what the checker calls sound
//! can be gone on with. Each input is tried as it is, and once more with right checksums, so that what lies behind them
//! is reached.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Done};
use esker_dev::Media;
use esker_framing::Record;
use esker_framing::cell::{CELL, PAGE, seal};
use esker_framing::superblock::reseal;
use esker_layer_dedup::check::{self, Verdict};
use esker_layer_dedup::layout::{Layout, SUPERBLOCKS};
use esker_layer_dedup::run::Dedup;
use esker_layer_dedup::store::{Config, Store};
use esker_layer_dedup::superblock::{LEN, Superblock};
use esker_layer_kit::Io;

use crate::world;

/// Bytes of the medium, which has room for some twenty-seven blocks; what an input lacks is zero.
const SIZE: u64 = 48 << 10;
const BLOCK: usize = world::SECTOR as usize;

fn config() -> Config {
    Config {
        name: "fuzz".to_string(),
        layout: Layout::plan(SIZE, BLOCK as u64, None).expect("there is room"),
        device: SIZE,
        unit: 1,
        transfer_max: 1 << 20,
        zeroes: true,
        pages_max: 16,
        pending_max: 10,
        refs_max: u32::MAX,
        verify: false,
    }
}

fn media_of(bytes: &[u8]) -> Rc<Media> {
    let mut store = SparseStore::default();
    store.write(0, &bytes[..bytes.len().min(SIZE as usize)]);
    Media::of(SIZE, store)
}

fn bytes_of(media: &Media) -> Vec<u8> {
    media.bytes(ByteRange::new(0, SIZE).expect("a small range"))
}

/// A volume in use.
struct Volume {
    dedup: Dedup,
    io: Io,
}

impl Volume {
    async fn serve(&self, bio: Bio) -> Done {
        self.dedup.serve(&self.io, bio).await
    }

    async fn write(&self, block: u64, number: u64) -> bool {
        let bytes = Buf::described(BLOCK, number).to_vec();
        let bio = Bio::write(block * BLOCK as u64, Buf::from_bytes(self.io.pool(), &bytes));
        self.serve(bio).await.result.is_ok()
    }

    /// Its bytes; none if some of them cannot be read.
    async fn content(&self) -> Option<Vec<u8>> {
        let size = self.dedup.store().layout().size();
        let mut content = Vec::new();
        for at in (0..size).step_by(BLOCK) {
            let done = self.serve(Bio::read(at, Buf::unique(self.io.pool(), BLOCK))).await;
            done.result.ok()?;
            content.extend(done.buf.to_vec());
        }
        Some(content)
    }
}

/// Runs `body` on the volume of a medium, if it can be opened.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    body: impl FnOnce(Volume) -> F + 'static,
) -> Option<T> {
    let (sim, io, _) = world::over(media);
    sim.block_on(async move {
        let store = Store::open(config(), &io).await.ok()?;
        Some(body(Volume { dedup: Dedup::new(store), io }).await)
    })
}

fn checked(media: &Media) -> Option<Verdict> {
    let bytes = bytes_of(media);
    let mut read = |at: u64, out: &mut [u8]| {
        let end = at.checked_add(out.len() as u64).filter(|end| *end <= SIZE);
        let end = end.ok_or_else(|| std::io::Error::other("beyond the end"))?;
        out.copy_from_slice(&bytes[at as usize..end as usize]);
        Ok(())
    };
    check::check(&mut read, true).ok()
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let volume = |settles: bool| {
        let media = Media::new(SIZE);
        on(&media, async move |volume| {
            for block in 0..12 {
                volume.write(block, 1 + block / 2).await;
            }
            if settles {
                volume.dedup.store().quiesce(&volume.io).await.expect("memory takes it");
            }
            volume.write(3, 77).await;
            volume.serve(Bio::discard(0, 1024)).await;
            volume.serve(Bio::flush()).await;
        });
        bytes_of(&media)
    };
    vec![volume(true), volume(false)]
}

/// Puts right checksums on whatever is not zero.
fn resealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = bytes_of(&media_of(input));
    for slot in 0..2 {
        let superblock = &mut bytes[slot * PAGE..slot * PAGE + LEN];
        reseal(superblock);
    }
    let Ok(superblock) = Superblock::newest(&bytes[..SUPERBLOCKS as usize]) else { return bytes };
    let tables = superblock.layout.tables().min(SIZE) as usize;
    let data = superblock.layout.data().min(SIZE) as usize;
    for (number, cell) in bytes.chunks_exact_mut(CELL).enumerate() {
        let at = number * CELL;
        match at {
            _ if cell.iter().all(|byte| *byte == 0) => {}
            at if (SUPERBLOCKS as usize..tables).contains(&at) => {
                let used = Record::needs(cell).min(CELL);
                cell[..4].fill(0);
                let sum = crc32fast::hash(&cell[..used]).to_le_bytes();
                cell[..4].copy_from_slice(&sum);
            }
            at if (tables..data).contains(&at) => seal(superblock.set, at as u64, cell),
            _ => {}
        }
    }
    bytes
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_medium(input)?;
    Ok(try_medium(&resealed(input))? || as_it_is)
}

/// Uses a medium: whether it was sound.
fn try_medium(bytes: &[u8]) -> Result<bool, String> {
    let media = media_of(bytes);
    let is_blank = bytes.iter().take(SUPERBLOCKS as usize).all(|byte| *byte == 0);
    let is_sound = !is_blank && checked(&media).is_some_and(|verdict| verdict.wrong == 0);
    let used = on(&media, async |volume| {
        let before = volume.content().await;
        for block in 0..8 {
            volume.write(block * 3, 1 + block).await;
        }
        volume.serve(Bio::zero(1024, 2048)).await;
        volume.serve(Bio::extents(0, 8192)).await;
        let is_flushed = volume.serve(Bio::flush()).await.result.is_ok();
        (before.is_some(), is_flushed, volume.content().await)
    });
    let Some((is_readable, is_flushed, content)) = used else {
        // Another geometry than this target asks for is refused, however sound.
        return Ok(false);
    };
    if !is_sound {
        return Ok(false);
    }
    if !is_readable || !is_flushed {
        return Err(format!("a sound volume cannot be used: readable {is_readable}, flushed {is_flushed}"));
    }
    let again = on(&media, async |volume| volume.content().await).flatten();
    if again.is_none() || again != content {
        return Err("what was flushed is not what is read again".to_string());
    }
    match checked(&media) {
        Some(verdict) if verdict.wrong == 0 => Ok(true),
        verdict => Err(format!("a sound volume is not sound after use: {verdict:?}")),
    }
}
