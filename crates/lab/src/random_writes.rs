//! Random 4 KiB writes: the load under which snapshots are compared.

use std::rc::Rc;
use std::time::Instant;

use esker_base::Stream;
use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use esker_lab_kit::rig::clients;

/// Bytes of one write.
pub(crate) const BLOCK: u64 = 4096;

/// A number of writes, so many at once, to the first bytes of a device; none is flushed.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Bytes of the device that are written to.
    pub bytes: u64,
    /// In flight at once.
    pub depth: u64,
    /// In all.
    pub writes: u64,
    /// Which places.
    pub seed: u64,
}

/// Writes, and returns how many were answered in a second.
///
/// # Errors
/// The first failure.
pub(crate) async fn rate(rt: &Rt, device: &Rc<dyn Device>, load: Load) -> Result<f64, BioError> {
    let (pool, start) = (Pool::default(), Instant::now());
    let writer = |writer| {
        let (device, pool) = (device.clone(), pool.clone());
        let mut random = Stream::named(load.seed, &format!("writer {writer}"));
        async move {
            let mut buf = Buf::unique(&pool, BLOCK as usize);
            for number in (writer..load.writes).step_by(load.depth as usize) {
                if let Some(bytes) = buf.bytes_mut() {
                    bytes[..8].copy_from_slice(&number.to_le_bytes());
                }
                let done = device.submit(Bio::write(random.below(load.bytes / BLOCK) * BLOCK, buf)).await;
                done.result?;
                buf = done.buf;
            }
            Ok(())
        }
    };
    clients(rt, load.depth, writer).await.into_iter().collect::<Result<(), BioError>>()?;
    Ok(load.writes as f64 / start.elapsed().as_secs_f64())
}

/// Writes every block once, from front to back.
///
/// # Errors
/// The first failure.
pub(crate) async fn fill(device: &Rc<dyn Device>, bytes: u64) -> Result<(), BioError> {
    let pool = Pool::default();
    for at in (0..bytes).step_by(1 << 20) {
        let mut buf = Buf::unique(&pool, 1 << 20);
        buf.bytes_mut().expect("just made unique").fill((at >> 20) as u8 | 1);
        device.submit(Bio::write(at, buf)).await.result?;
    }
    Ok(())
}
