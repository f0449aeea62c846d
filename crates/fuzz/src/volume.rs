//! The medium of a volume: nothing on it makes recovery fall, and what it takes it takes twice in the same way.
//!
//! Checksums would hide all that lies behind them, so each input is tried as it is, and with its checksums mended.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Limits, RangeOp};
use esker_dev::Media;
use esker_framing::{HEADER, RECORD_HEADER};
use esker_layer_kit::Io;
use esker_layer_logvol::map::Extent;
use esker_layer_logvol::{Config, Volume, check};
use esker_layer_thin::{Manager, ports};

use crate::world;

/// Bytes of the medium; what an input lacks is zero.
const SIZE: u64 = 16 * SEGMENT;
const SEGMENT: u64 = 8 << 10;
const BLOCK: usize = world::SECTOR as usize;

/// What a look at a medium finds.
type Content = Vec<Extent>;

fn medium(bytes: &[u8]) -> Rc<Media> {
    let mut store = SparseStore::default();
    store.write(0, &bytes[..bytes.len().min(SIZE as usize)]);
    Media::of(SIZE, store)
}

/// Runs `body` in a world over the medium.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    body: impl FnOnce(esker_rt::Rt, Io, Limits) -> F,
) -> T {
    let (sim, io, limits) = world::over(media);
    sim.block_on(body(sim.rt(), io, limits))
}

async fn open(rt: &esker_rt::Rt, io: &Io, limits: &Limits) -> Result<Rc<Volume>, String> {
    let config = Config::over("fuzz", limits, BLOCK as u32, BLOCK as u32, SEGMENT, 1 << 40);
    Volume::open(config, rt, io.pool(), io.below().clone()).await.map_err(|e| e.to_string())
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let media = medium(&[]);
    on(&media, async |rt, io, limits| {
        let volume = open(&rt, &io, &limits).await.expect("a blank medium becomes a volume");
        let below = io.below();
        for i in 0..60u64 {
            let buf = Buf::from_bytes(io.pool(), &[i as u8; BLOCK]);
            let bio = Bio::write(i * 7 % 50 * 2 * BLOCK as u64, buf);
            volume.clone().change(below.clone(), bio).await.result.expect("memory takes it");
            if i == 40 {
                volume.checkpoint(&volume.store(below.clone())).await.expect("memory takes it");
            }
        }
        let src = ByteRange::new(0, 20 * BLOCK as u64).expect("small");
        let ops = [RangeOp::Clone { src, dst: 1 << 30 }, RangeOp::Move { src, dst: 1 << 31 }];
        volume.change(below.clone(), Bio::ranges(ops)).await.result.expect("memory takes it");
    });
    let whole = media.bytes(ByteRange::new(0, SIZE).expect("small"));
    vec![whole.clone(), whole[..whole.len() / 2].to_vec(), named()]
}

/// A medium with named volumes.
fn named() -> Vec<u8> {
    let media = medium(&[]);
    on(&media, async |rt, io, limits| {
        let manager = manager(&rt, &io, &limits).await.expect("a blank medium becomes a volume");
        for words in ["create b 4KiB", "snapshot a s b t", "clone s c", "delete t", "hold s", "receive d e 4096 7 0 0"]
        {
            manager.ask(io.below(), &words_of(words)).await.expect("the order is sound");
        }
    });
    media.bytes(ByteRange::new(0, SIZE).expect("small"))
}

fn words_of(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

async fn manager(rt: &esker_rt::Rt, io: &Io, limits: &Limits) -> Result<Manager<Volume>, String> {
    let volume = open(rt, io, limits).await?;
    let ports = ports::parse("a=8KiB", BLOCK as u64).expect("the ports are sound");
    Manager::open(volume, io.below(), Rc::new(ports), 20).await.map_err(|e| e.to_string())
}

/// The names on a medium; opening it once more finds the same ones.
fn try_named(bytes: &[u8]) -> Result<bool, String> {
    let media = medium(bytes);
    let names = || {
        on(&media, async |rt, io, limits| {
            let manager = manager(&rt, &io, &limits).await?;
            manager.ask(io.below(), &words_of("list")).await.map_err(|e| format!("names cannot be listed: {e}"))
        })
    };
    let Ok(first) = names() else { return Ok(false) };
    match names()? == first {
        true => Ok(true),
        false => Err("it was opened twice, with different names".to_string()),
    }
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_medium(input)?;
    let mut mended = input.to_vec();
    mend(&mut mended);
    Ok(try_medium(&mended)? | try_named(&mended)? | as_it_is)
}

fn try_medium(bytes: &[u8]) -> Result<bool, String> {
    let media = medium(bytes);
    let checked = on(&media, async |rt, io, limits| check::check(&rt, io.pool(), io.below(), &limits).await);
    let look = || -> Result<Content, String> {
        on(&media, async |rt, io, limits| {
            let volume = open(&rt, &io, &limits).await?;
            // Whatever is mapped can be asked for.
            let first: Content = volume.snapshot().from(0).take(64).collect();
            for extent in &first {
                let range = extent.lba..extent.lba + 1;
                let read = volume.read_blocks(io.below(), range, Default::default()).await;
                read.map_err(|e| format!("what is mapped cannot be read: {e}"))?;
            }
            Ok(volume.snapshot().from(0).collect())
        })
    };
    match (look(), checked) {
        (Ok(first), checked) => {
            let again = look().map_err(|e| format!("it opened once, and then: {e}"))?;
            if first != again {
                return Err("it opened twice, with two maps".to_string());
            }
            match checked {
                Ok(verdict) if verdict.mappings != first.len() as u64 => Err("the checker saw another map".to_string()),
                Err(check::CheckError::Broken(what)) => Err(format!("it opened, though the checker said: {what}")),
                _ => Ok(true),
            }
        }
        (Err(text), _) if text.is_empty() => Err("refused without a reason".to_string()),
        (Err(_), _) => Ok(false),
    }
}

/// Gives each thing that looks like a superblock, head, batch, page of the map or entry of the catalogue a right
/// checksum.
fn mend(bytes: &mut [u8]) {
    let volume: [u8; 16] = bytes.get(32..48).map_or([0; 16], |id| id.try_into().expect("16 bytes"));
    for at in (0..bytes.len() / BLOCK).map(|block| block * BLOCK) {
        let rest = &mut bytes[at..];
        let records = usize::from(u16::from_le_bytes([rest[28], rest[29]]));
        let batch = (32 + 24 * records).next_multiple_of(BLOCK);
        let payload = usize::from(u16::from_le_bytes([rest[8], rest[9]]));
        match &rest[..4] {
            [0x89, b'E', b's', b'k'] => {
                let len = usize::from(u16::from_le_bytes([rest[10], rest[11]])).clamp(HEADER, BLOCK);
                set(rest, len, 24);
            }
            [b'E', b's', b'M', b'p'] => set(rest, BLOCK, 4),
            [b'E', b'b', ..] if batch <= rest.len() => set(rest, batch, 4),
            // A log record, or a sealed page.
            _ if rest[16..32] == volume && rest[4] == 1 => set(rest, (RECORD_HEADER + payload).min(BLOCK), 0),
            _ if rest[16..32] == volume => set(rest, BLOCK, 0),
            _ => {}
        }
    }
}

/// The checksum of the first `len` bytes, kept at `at`.
fn set(bytes: &mut [u8], len: usize, at: usize) {
    bytes[at..at + 4].fill(0);
    let sum = crc32fast::hash(&bytes[..len]);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remains_of_a_log_below_a_blank_superblock_are_not_taken_for_the_new_one() {
        let mut medium = corpus().swap_remove(0);
        for block in medium.chunks_mut(BLOCK).filter(|block| block.starts_with(&[0x89, b'E', b's', b'k'])) {
            block.fill(0);
        }
        assert_eq!(try_medium(&medium), Ok(true));
    }
}
