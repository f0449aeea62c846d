//! What the tests of all models share.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream, Time};
use esker_block::{Args, Bio, Buf, Build, Device, Kind, KindError, Make};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sim::twice;
use esker_rt::{Rt, Sim, SimConfig, sync};

use crate::media::Media;
use crate::{Content, Setup};

/// One world's settings.
pub(crate) fn seeded(seed: u64) -> SimConfig {
    SimConfig { seed, cpus: 1 }
}

/// A device of `kind`, built as a stack would.
pub(crate) fn build(rt: &Rt, kind: &Kind, args: &[(&str, &str)]) -> Result<Rc<dyn Device>, KindError> {
    let given: BTreeMap<String, String> = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let args = Args::read(kind, &given)?;
    let Build::Device(build) = kind.build else { panic!("{} is a device", kind.name) };
    build(&Make {
        rt,
        pool: &Pool::new(0),
        name: "d1",
        args: &args,
        lowers: &[],
        created: &esker_block::Created::default(),
        env: &esker_block::Env::default(),
    })
}

/// A described read.
pub(crate) fn read(at: u64, len: u64) -> Bio {
    Bio::read(at, Buf::described(len as usize, 0))
}

/// A described write.
pub(crate) fn write(at: u64, len: u64, seed: u64) -> Bio {
    Bio::write(at, Buf::described(len as usize, seed))
}

/// Submits one request and returns how long it took.
pub(crate) async fn timed(rt: &Rt, device: &dyn Device, bio: Bio) -> Nanos {
    let start = rt.now();
    device.submit(bio).await.result.expect("the request is valid");
    rt.now().since(start)
}

/// Keeps `depth` requests in flight until `count` are done, and returns how long that took.
pub(crate) async fn flood(
    rt: &Rt,
    device: Rc<dyn Device>,
    depth: u64,
    count: u64,
    next: impl FnMut(&mut Stream) -> Bio + 'static,
) -> Nanos {
    let (start, left) = (rt.now(), Rc::new(Cell::new(count)));
    let next = Rc::new(std::cell::RefCell::new((next, rt.rng("flood"))));
    let worker = |_| {
        let (device, left, next) = (device.clone(), left.clone(), next.clone());
        rt.spawn("worker", async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let bio = {
                    let (make, rng) = &mut *next.borrow_mut();
                    make(rng)
                };
                device.submit(bio).await.result.expect("the request is valid");
            }
        })
    };
    sync::join_all((0..depth).map(worker).collect::<Vec<_>>()).await;
    rt.now().since(start)
}

/// The value of a statistic.
pub(crate) fn stat(device: &dyn Device, name: &str) -> f64 {
    device.stats().iter().find(|s| s.name == name).expect("the statistic exists").value
}

/// Builds the device under test with its content on given media: `check_power_cut` needs to keep them.
pub(crate) type WithSetup = fn(&Rt, Setup) -> Rc<dyn Device>;

/// Writes `old` everywhere, flushes, overwrites with `new`, kills the world and cuts the power. Returns what is left.
fn media_after_a_cut(make: WithSetup, cache: bool, flushed: bool, seed: u64) -> Vec<u8> {
    let media = Rc::new(Media::new(512));
    let sim = Sim::new(seeded(1));
    let (rt, kept) = (sim.rt(), media.clone());
    sim.block_on(async move {
        let device = make(&rt, Setup { size: MIB, block: 512, depth: 32, cache, content: Content::Memory(kept) });
        timed(&rt, &*device, write(0, 64 * KIB, 1)).await;
        timed(&rt, &*device, Bio::flush()).await;
        timed(&rt, &*device, write(0, 64 * KIB, 2)).await;
        if flushed {
            timed(&rt, &*device, Bio::flush()).await;
        }
    });
    sim.kill();
    media.power_cut(&mut Stream::seeded(seed));
    let mut buf = Buf::unique(&Pool::new(0), 64 * KIB as usize);
    media.read(0, &mut buf);
    buf.to_vec()
}

/// A power cut loses part of what was not flushed, whole blocks of it, and nothing else.
pub(crate) fn check_power_cut(make: WithSetup) {
    let of = |seed| Buf::described(64 * KIB as usize, seed).to_vec();
    let (old, new) = (of(1), of(2));
    let mut torn = 0;
    for seed in 0..8 {
        let left = media_after_a_cut(make, true, false, seed);
        let units = left.chunks(512).zip(old.chunks(512)).zip(new.chunks(512));
        assert!(units.clone().all(|((l, o), n)| l == o || l == n), "each unit is old or new");
        torn += usize::from(left != old && left != new);
        assert!(media_after_a_cut(make, true, true, seed) == new, "flushed data survives");
        assert!(media_after_a_cut(make, false, false, seed) == new, "without a cache, so does all");
    }
    assert!(torn > 4, "{torn} of 8 cuts tear a write of 128 units");
}

/// Blocks are 4 KiB unless told otherwise, and the size is a multiple of them.
pub(crate) fn check_blocks(kind: &Kind) {
    let sim = Sim::new(seeded(1));
    for (args, block) in [(&[][..], 4096), (&[("block", "512")], 512)] {
        let limits = build(&sim.rt(), kind, args).unwrap().limits().clone();
        assert_eq!((limits.block, limits.atomic, limits.size % u64::from(block)), (block, block, 0));
    }
}

/// Energy is active power over the span of each of some requests and idle power over the rest.
pub(crate) fn check_energy(kind: &'static Kind, bio: fn(u64) -> Bio) {
    let (usage, busy, total) = twice(seeded(1), move |rt| async move {
        let args = [("active_w", "9"), ("idle_w", "4"), ("price_usd", "77"), ("cache", "off")];
        let device = build(&rt, kind, &args).unwrap();
        let mut busy = Nanos::ZERO;
        for at in [10, 5_000, 77] {
            busy += timed(&rt, &*device, bio(at)).await;
            rt.sleep(Nanos::millis(40)).await;
        }
        (device.usage().unwrap(), busy, rt.now().since(Time::ZERO))
    });
    assert_eq!((usage.busy, usage.price_usd), (busy, 77.0));
    assert_eq!(usage.energy_j, 9.0 * busy.as_secs_f64() + 4.0 * (total - busy).as_secs_f64());
}

/// Arguments that do not fit are refused with an error that holds these words.
pub(crate) fn check_refusals(kind: &Kind, refused: &[(&str, &str, &str)]) {
    let sim = Sim::new(seeded(1));
    for (name, value, words) in refused {
        let error = build(&sim.rt(), kind, &[(name, value)]).err().unwrap().to_string();
        assert!(error.contains(words), "{name} = {value}: {error}");
    }
}

/// In the real world, a read is not answered before `least` has passed.
pub(crate) fn check_no_early_answer(kind: &'static Kind, args: &'static [(&str, &str)], least: Nanos) {
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    let took = reactor.block_on(async move {
        let device = build(&rt, kind, args).unwrap();
        timed(&rt, &*device, read(0, 4 * KIB)).await
    });
    assert!(took >= least, "{took:?} after a plan of at least {least:?}");
}
