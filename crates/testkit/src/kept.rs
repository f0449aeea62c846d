//! A medium that outlives its stack, so that a test can look at it, damage it, and build another stack over it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use esker_block::{Bio, Buf, Build, Device, Done, Kind, KindError, Limits, Make, Param, ParamType, Step};
use esker_dev::{Defer, Media, MemoryDevice, memory};
use esker_dev_sim::faulty::{Faulty, Injector};

/// Everything that is written is in its bed at once.
pub static KEPT: Kind = Kind {
    name: "kept",
    params: &[
        Param::required("bed", ParamType::Count, "Number of the test bed."),
        Param::required("size", ParamType::Size, "Size of the device."),
        Param::with_default("gone", ParamType::Count, "1000000", "Number of the request at which it is gone."),
    ],
    build: Build::Device(build),
    ..memory::KIND
};

/// Number of the bed, which a test has for itself, and name of the device.
type Key = (u64, String);

static BEDS: Mutex<BTreeMap<Key, Vec<u8>>> = Mutex::new(BTreeMap::new());

fn beds() -> MutexGuard<'static, BTreeMap<Key, Vec<u8>>> {
    BEDS.lock().unwrap_or_else(|e| panic!("another test panicked: {e}"))
}

struct Retained {
    inner: Rc<dyn Device>,
    media: Rc<Media>,
    bed: Key,
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let (bed, size) = ((make.args.int("bed"), make.name.to_string()), make.args.int("size"));
    let media = Media::new(size);
    media.write(0, &Buf::from_bytes(make.pool, &peek(bed.0, &bed.1, size)));
    let memory = Rc::new(MemoryDevice::over(make.rt, media.clone(), 512, Defer::Never));
    let plan = format!("gone {}", make.args.int("gone")).parse().expect("a plan");
    Ok(Rc::new(Retained { inner: Faulty::over(make.rt, memory, &Injector::new(plan)), media, bed }))
}

impl Device for Retained {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let range = bio.range;
        let step = self.inner.submit(bio);
        poke(self.bed.0, &self.bed.1, range.start(), &self.media.bytes(range));
        step
    }
}

/// The first `size` bytes that a kept medium holds.
pub fn peek(bed: u64, name: &str, size: u64) -> Vec<u8> {
    let mut bytes = beds().get(&(bed, name.to_string())).cloned().unwrap_or_default();
    bytes.resize(size as usize, 0);
    bytes
}

/// Changes what it holds; stacks that are built later find it.
pub fn poke(bed: u64, name: &str, at: u64, bytes: &[u8]) {
    let (mut beds, end) = (beds(), at as usize + bytes.len());
    let held = beds.entry((bed, name.to_string())).or_default();
    held.resize(held.len().max(end), 0);
    held[at as usize..end].copy_from_slice(bytes);
}
