//! Simulated disks to try an extension on.

use std::rc::Rc;

use esker_block::Device;
use esker_dev::{Defer, Media, MemoryDevice, NullDevice};
use esker_dev_sim::fault::FaultPlan;
use esker_dev_sim::faulty::{Faulty, Injector};
use esker_rt::Rt;

/// What a simulated disk keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Simulated {
    /// All that is written, in memory: for tests of consistency.
    Memory,
    /// Nothing, for exploring code fast.
    Nothing,
}

/// A disk that exists only here, and its faults. Dropping it frees it.
pub struct SimulatedDisk {
    /// The device.
    pub device: Rc<dyn Device>,
    /// Its faults, and how often they struck.
    pub faults: Rc<Injector>,
}

/// A size that no disk has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a simulated disk of {0} bytes cannot be made; use a positive multiple of 512")]
pub struct BadSize(u64);

/// Makes a simulated disk of `size` bytes in blocks of 512 that follows a plan of faults (`alloc_simulated_disk`).
///
/// # Errors
/// A size that no disk has.
pub fn simulated(rt: &Rt, keeps: Simulated, size: u64, plan: FaultPlan) -> Result<SimulatedDisk, BadSize> {
    if size == 0 || !size.is_multiple_of(512) {
        return Err(BadSize(size));
    }
    let inner: Rc<dyn Device> = match keeps {
        Simulated::Memory => Rc::new(MemoryDevice::over(rt, Media::new(size), 512, Defer::Never)),
        Simulated::Nothing => Rc::new(NullDevice::new(size, 512)),
    };
    let faults = Injector::new(plan);
    Ok(SimulatedDisk { device: Faulty::over(rt, inner, &faults), faults })
}

#[cfg(test)]
mod tests {
    use esker_block::{Bio, Buf};
    use esker_rt::mem::Pool;
    use esker_rt::sim::{Sim, SimConfig, twice};

    use super::*;

    #[test]
    fn simulated_disks_keep_what_they_say_and_follow_their_plan() {
        for (keeps, expected) in [(Simulated::Memory, 7), (Simulated::Nothing, 0)] {
            let held = twice(SimConfig::seeded(1), move |rt| async move {
                let disk = simulated(&rt, keeps, 1 << 20, "error write 2; gone 5".parse().unwrap()).unwrap();
                let pool = Pool::default();
                let write = async || {
                    let bio = Bio::write(512, Buf::from_bytes(&pool, &[7; 512]));
                    disk.device.submit(bio).await.result.is_ok()
                };
                assert_eq!((write().await, write().await, write().await), (true, false, true));
                let read = disk.device.submit(Bio::read(512, Buf::unique(&pool, 512))).await;
                assert!(read.result.is_ok());
                let held = read.buf.to_vec()[0];
                assert!(!write().await && !write().await, "it is gone");
                assert_eq!(disk.faults.fired(), 3);
                held
            });
            assert_eq!(held, expected, "{keeps:?}");
        }
        let sim = Sim::new(SimConfig::seeded(1));
        let error =
            simulated(&sim.rt(), Simulated::Memory, 513, FaultPlan::default()).map(drop).unwrap_err().to_string();
        assert_eq!(error, "a simulated disk of 513 bytes cannot be made; use a positive multiple of 512");
        assert!(simulated(&sim.rt(), Simulated::Nothing, 0, FaultPlan::default()).is_err());
    }
}
