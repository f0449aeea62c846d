//! The medium of the harness's file system, and the images of trees on it: nothing makes opening fall, and what it
//! takes serves calls and is found again.
//!
//! Checksums would hide all that lies behind them, so each input is tried as a medium, and as the image behind right
//! sums.

use std::rc::Rc;

use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fs_posix::script::{Bounded, Durable, Player, ScriptOp};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_testkit::files::breach::actor;
use esker_testkit::files::{Whole, WholeConfig};
use esker_vfs::{FileSystem, Ram};

/// Bytes of the medium; what an input lacks is zero.
const SIZE: u64 = Whole::SIZE_MIN;
const CONFIG: WholeConfig = WholeConfig { changes_max: 2, flaw: None };

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<MemoryDevice> {
    Rc::new(MemoryDevice::over(rt, media.clone(), crate::world::SECTOR, Defer::Never))
}

/// Makes calls, whatever they answer.
async fn use_it(files: Rc<dyn FileSystem>) {
    let mut player = actor(files);
    for op in Bounded::before().iter().chain(&Bounded::new(1).steps(7)).chain([&ScriptOp::Sync(Durable::All)]) {
        player.call(op).await;
    }
}

async fn open(rt: &Rt, media: &Rc<Media>) -> Result<Whole, String> {
    Whole::open(rt, device(rt, media), CONFIG).await.map_err(|error| error.to_string())
}

async fn digest(files: &dyn FileSystem) -> Result<u64, String> {
    let call = esker_vfs::Call {
        now: esker_vfs::Stamp(0),
        tag: esker_block::Tag::of(esker_block::Class::Foreground),
        hint: esker_vfs::Hint::default(),
    };
    esker_vfs::tree_digest(files, call)
        .await
        .map_err(|errno| format!("a tree that was taken cannot be read: {errno:?}"))
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let media = Media::new(SIZE);
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, made) = (sim.rt(), media.clone());
    sim.block_on(async move {
        Whole::make(&rt, device(&rt, &made)).await.expect("memory takes it");
        let whole = Whole::open(&rt, device(&rt, &made), CONFIG).await.expect("it was just made");
        use_it(Rc::new(whole)).await;
    });
    let range = esker_base::ByteRange::new(0, SIZE).expect("a small medium");
    let ram = Ram::new(Whole::limits(SIZE), Pool::default());
    let empty = ram.to_image();
    let files: Rc<dyn FileSystem> = Rc::new(ram.clone());
    Sim::new(SimConfig::seeded(1)).block_on(use_it(files));
    vec![media.bytes(range), ram.to_image(), empty]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let (as_medium, as_image) = (try_medium(input)?, try_image(input)?);
    Ok(as_medium || as_image)
}

fn try_medium(input: &[u8]) -> Result<bool, String> {
    let mut store = SparseStore::default();
    store.write(0, &input[..input.len().min(SIZE as usize)]);
    let media = Media::of(SIZE, store);
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let whole = match open(&rt, &media).await {
            Ok(whole) => whole,
            Err(why) if why.is_empty() => return Err("refused without a reason".to_string()),
            Err(_) => return Ok(false),
        };
        use_it(Rc::new(whole.clone())).await;
        let (used, again) = (digest(&whole).await?, open(&rt, &media).await?);
        if digest(&again).await? == used { Ok(true) } else { Err("what was synced is not found again".to_string()) }
    })
}

fn try_image(input: &[u8]) -> Result<bool, String> {
    let read = |image: &[u8]| Ram::from_image(Whole::limits(SIZE), Pool::default(), image);
    let ram = match read(input) {
        Ok(ram) => ram,
        Err(error) if error.to_string().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
    };
    let files: Rc<dyn FileSystem> = Rc::new(ram.clone());
    Sim::new(SimConfig::seeded(1)).block_on(use_it(files));
    let again = read(&ram.to_image()).map_err(|error| format!("its own image is refused: {error}"))?;
    if again.digest() == ram.digest() { Ok(true) } else { Err("its own image is another tree".to_string()) }
}
