//! Images of the kernel and of `mkfs.nilfs2`, our own, and damaged ones.
//!
//! `golden/NAME.img.zst` is a device that Debian's kernel 6.1 wrote in a guest, `golden/NAME.log.zst` what the guest
//! told of it: its tree when a snapshot was made and at the end, `lssu` and `lscp`. The test `lfs_guest` of `it` makes
//! such images anew.

mod cleaner;
mod cleaning;
mod control;
mod crashes;
mod cut;
mod damage;
mod fresh;
mod kernel;
mod planted;
mod reading;
mod snapshots;
mod writing;

use std::future::Future;
use std::rc::Rc;

use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::{Rt, Sim, SimConfig};
use esker_testkit::files::listing::{self, GuestTold};
use esker_vfs::{Call, Stamp};

use crate::{LfsError, LfsReader, MkfsConfig};

const SECTOR: u32 = 512;
/// Seconds since 1970 at which our own file systems are made.
const MADE: u64 = 1_800_000_000;

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<MemoryDevice> {
    Rc::new(MemoryDevice::over(rt, media.clone(), SECTOR, Defer::Never))
}

/// A medium of these bytes.
fn media(bytes: &[u8]) -> Rc<Media> {
    let mut store = SparseStore::default();
    for (number, piece) in bytes.chunks(4096).enumerate().filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)) {
        store.write(number as u64 * 4096, piece);
    }
    Media::of(bytes.len() as u64, store)
}

/// Runs in a simulated world.
fn run<T: 'static, F: Future<Output = T> + 'static>(work: impl FnOnce(Rt) -> F) -> T {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(work(rt))
}

/// The tree of a checkpoint, as lines.
async fn rows(rt: &Rt, media: &Rc<Media>, cno: Option<u64>) -> Result<Vec<String>, String> {
    let reader = LfsReader::open(rt, device(rt, media), cno).await.map_err(|error| error.to_string())?;
    listing::rows(&reader, Call::at(Stamp(0))).await.map_err(|errno| format!("{errno:?}"))
}

/// An image and what a guest told of it.
struct Golden {
    image: Vec<u8>,
    told: GuestTold,
}

macro_rules! golden {
    ($name:literal) => {
        Golden::unpack(
            include_bytes!(concat!("../golden/", $name, ".img.zst")),
            include_bytes!(concat!("../golden/", $name, ".log.zst")),
        )
    };
}

impl Golden {
    fn unpack(image: &[u8], log: &[u8]) -> Golden {
        let unpack = |bytes: &[u8]| zstd::decode_all(bytes).expect("a golden file is sound");
        let told = String::from_utf8_lossy(&unpack(log)).into_owned();
        Golden { image: unpack(image), told: GuestTold(told) }
    }

    /// What the guest told of a tree.
    fn rows(&self, which: &str) -> Vec<String> {
        let rows = self.told.rows(which);
        assert!(rows.len() > 10, "the guest told of {which}");
        rows
    }
}

fn small() -> Golden {
    golden!("small")
}

fn kernel_1k() -> Golden {
    golden!("kernel-1k")
}

/// A machine that was switched off without an unmount.
fn kernel_cut() -> Golden {
    golden!("cut")
}

fn kernel_4k() -> Golden {
    golden!("kernel-4k")
}

/// A medium with an empty file system of ours.
fn made(size: u64, config: MkfsConfig) -> Result<Rc<Media>, LfsError> {
    let media = Media::new(size);
    let target = media.clone();
    run(move |rt| async move { crate::mkfs(&rt, device(&rt, &target), &config).await.map(drop) })?;
    Ok(media)
}

fn config(block_bytes: u32) -> MkfsConfig {
    MkfsConfig { block_bytes, label: "ours".to_string(), ..MkfsConfig::usual(Stamp(MADE as i64 * 1_000_000_000)) }
}
