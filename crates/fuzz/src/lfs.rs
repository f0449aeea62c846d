//! Images of the log-structured file system: nothing makes opening, checking, showing or reading fall, and each comes
//! to an end.
//!
//! An input is a list of changes to a small image that the kernel wrote. Checksums would hide what lies behind them, so
//! each input is tried with the old sums and with right ones.

use std::rc::Rc;
use std::sync::LazyLock;

use esker_base::Stream;
use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fs_lfs::dump::{Show, dump};
use esker_fs_lfs::sums::Summed;
use esker_fs_lfs::{LfsReader, Volume, check};
use esker_rt::{Rt, Sim, SimConfig};
use esker_testkit::files::listing;
use esker_vfs::{Call, Stamp};

const IMAGE: &[u8] = include_bytes!("../../fs-lfs/golden/small.img.zst");
/// Bytes of a change: three of a position, one of its value, one of its length.
const CHANGE: usize = 5;

static BASE: LazyLock<(Vec<u8>, Summed)> = LazyLock::new(|| {
    let image = zstd::decode_all(IMAGE).expect("the golden image is sound");
    let summed = Summed::of(&image).expect("the golden image is sound");
    (image, summed)
});

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut rng = Stream::named(1, "lfs corpus");
    let changes = |count: usize, rng: &mut Stream| {
        let mut input = vec![0; count * CHANGE];
        rng.fill(&mut input);
        input
    };
    (0..24).map(|number| changes(number % 4, &mut rng)).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let old = try_image(changed(input, false))?;
    Ok(try_image(changed(input, true))? || old)
}

/// The image with the changes of an input.
fn changed(input: &[u8], right_sums: bool) -> Vec<u8> {
    let (image, summed) = &*BASE;
    let mut image = image.clone();
    let places = [summed.superblocks(), summed.logs()].concat();
    let all: usize = places.iter().map(ExactSizeIterator::len).sum();
    for change in input.chunks_exact(CHANGE) {
        let mut at = usize::from(change[0]) | usize::from(change[1]) << 8 | usize::from(change[2]) << 16;
        at %= all;
        let Some(place) = places.iter().find(|place| {
            let here = at < place.len();
            at -= if here { 0 } else { place.len() };
            here
        }) else {
            continue;
        };
        let end = (place.start + at + usize::from(change[4] % 8) + 1).min(place.end);
        image[place.start + at..end].fill(change[3]);
    }
    if right_sums {
        summed.logs().iter().for_each(|log| summed.reseal_log(&mut image, log.clone()));
        summed.reseal_superblocks(&mut image);
    }
    image
}

fn try_image(image: Vec<u8>) -> Result<bool, String> {
    let mut store = SparseStore::default();
    let pieces = image.chunks(4096).enumerate();
    pieces.filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)).for_each(|(number, piece)| {
        store.write(number as u64 * 4096, piece);
    });
    let media = Media::of(image.len() as u64, store);
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(use_it(rt, media))
}

async fn use_it(rt: Rt, media: Rc<Media>) -> Result<bool, String> {
    let device = || Rc::new(MemoryDevice::over(&rt, media.clone(), crate::world::SECTOR, Defer::Never));
    let volume = match Volume::open(&rt, device()).await {
        Ok(volume) => Rc::new(volume),
        Err(why) if why.to_string().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
    };
    let found = check(&rt, device()).await.map_err(|error| format!("opened, and not checked: {error}"))?;
    let shows = [Show::Superblocks, Show::Segments, Show::Checkpoints, Show::Logs(0), Show::Inode(None, 12)];
    for show in shows {
        // What is damaged is told as an error.
        let _told = dump(&volume, show).await;
    }
    let numbers = volume.checkpoints().await.unwrap_or_default();
    for cno in numbers.iter().map(|entry| entry.head.cno).take(8) {
        if let Ok(reader) = LfsReader::of(volume.clone(), Some(cno)).await {
            let read = listing::rows(&reader, Call::at(Stamp(0))).await;
            if read.is_err() && found.is_clean() && cno == volume.latest().cno {
                return Err(format!("the check finds nothing, and the tree cannot be read: {read:?}"));
            }
        }
    }
    Ok(found.is_clean())
}
