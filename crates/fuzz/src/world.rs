//! A simulated world over a medium that an input describes.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Device, Limits};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};

/// Bytes of a sector of the medium.
pub(crate) const SECTOR: u32 = 512;

/// The world, and access to the medium. The bytes of the medium seed the world: with a constant seed, a blank
/// superblock would get the epoch that the sample drew, and the remains of the sample's log would pass for new ones.
pub(crate) fn over(media: &Rc<Media>) -> (Sim, Io, Limits) {
    let bytes = media.bytes(ByteRange::new(0, media.size()).expect("a medium of a fuzzer is small"));
    let sim = Sim::new(SimConfig::seeded(u64::from(crc32fast::hash(&bytes))));
    let device = MemoryDevice::over(&sim.rt(), media.clone(), SECTOR, Defer::Never);
    let limits = device.limits().clone();
    let io = Io::over(&sim.rt(), &Pool::default(), vec![Rc::new(device)]);
    (sim, io, limits)
}
