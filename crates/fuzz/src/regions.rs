//! The medium of an area of regions: what is read from it is whole, and nothing on it makes the reader fall.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_dev::Media;
use esker_layer_kit::Io;
use esker_layer_kit::region::{Area, RegionError, Regions};

use crate::world;

/// Bytes of the medium; what an input lacks is zero.
const SIZE: u64 = 128 << 10;

fn medium(bytes: &[u8]) -> Rc<Media> {
    let mut store = SparseStore::default();
    store.write(0, &bytes[..bytes.len().min(SIZE as usize)]);
    Media::of(SIZE, store)
}

fn range() -> ByteRange {
    ByteRange::new(0, SIZE).expect("a small range")
}

/// Names and contents of all regions.
async fn held(io: &Io, limits: &esker_block::Limits) -> Result<Vec<(String, Vec<u8>)>, RegionError> {
    let area = Area::open(io, 0, range(), limits).await?;
    let mut held = Vec::new();
    for name in area.names() {
        if let Some(region) = area.restore(io, &name).await? {
            let mut bytes = vec![0; region.len() as usize];
            region.read(0, &mut bytes);
            held.push((name, bytes));
        }
    }
    Ok(held)
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let media = medium(&[]);
    let (sim, io, limits) = world::over(&media);
    sim.block_on(async move {
        let area = Area::open(&io, 0, range(), &limits).await.expect("an empty area");
        for (name, size) in [("a", 100), ("map", 9_000)] {
            let region = area.malloc(&io, name, size).await.expect("there is room");
            region.write(size - 50, &[7; 50]);
            region.commit(&io).await.expect("memory takes it");
        }
    });
    vec![media.bytes(range())]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let (sim, io, limits) = world::over(&medium(input));
    sim.block_on(async move {
        let Ok(first) = held(&io, &limits).await else { return Ok(false) };
        // What is sound can be gone on with, and reads the same again.
        let area = Area::open(&io, 0, range(), &limits).await.map_err(|e| e.to_string())?;
        for (name, bytes) in &first {
            let region = area.restore(&io, name).await.map_err(|e| e.to_string())?.ok_or("a region is gone")?;
            region.write(0, &[!bytes[0]]);
            region.commit(&io).await.map_err(|e| e.to_string())?;
        }
        let again = held(&io, &limits).await.map_err(|e| format!("after commits: {e}"))?;
        let changed = |(name, mut bytes): (String, Vec<u8>)| {
            bytes[0] = !bytes[0];
            (name, bytes)
        };
        let expected: Vec<(String, Vec<u8>)> = first.into_iter().map(changed).collect();
        match expected == again {
            true => Ok(true),
            false => Err("a commit is not what is read again".to_string()),
        }
    })
}
