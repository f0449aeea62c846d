//! What the tests of both models share.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::{Args, Bio, Buf, Build, Device, Kind, KindError, Make};
use esker_rt::mem::Pool;
use esker_rt::{Rt, SimConfig, sync};

/// One world's settings.
pub fn seeded(seed: u64) -> SimConfig {
    SimConfig { seed, cpus: 1 }
}

/// A device of `kind`, built as a stack would.
pub fn build(rt: &Rt, kind: &Kind, args: &[(&str, &str)]) -> Result<Rc<dyn Device>, KindError> {
    let given: BTreeMap<String, String> = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let args = Args::read(kind, &given)?;
    let Build::Device(build) = kind.build else { panic!("{} is a device", kind.name) };
    build(&Make { rt, pool: &Pool::new(0), name: "d1", args: &args, lowers: &[] })
}

/// A described read.
pub fn read(at: u64, len: u64) -> Bio {
    Bio::read(at, Buf::described(len as usize, 0))
}

/// A described write.
pub fn write(at: u64, len: u64, seed: u64) -> Bio {
    Bio::write(at, Buf::described(len as usize, seed))
}

/// Submits one request and returns how long it took.
pub async fn timed(rt: &Rt, device: &dyn Device, bio: Bio) -> Nanos {
    let start = rt.now();
    device.submit(bio).await.result.expect("the request is valid");
    rt.now().since(start)
}

/// Keeps `depth` requests in flight until `count` are done, and returns how long that took.
pub async fn flood(
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
pub fn stat(device: &dyn Device, name: &str) -> f64 {
    device.stats().iter().find(|s| s.name == name).expect("the statistic exists").value
}
