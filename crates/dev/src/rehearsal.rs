//! Files and block devices for a rehearsal: what is read comes from them, what is written stays in memory and is lost.
//!
//! They hold the locks that the real ones would hold, and refuse what the real ones would refuse. A file that is not
//! there is not created: it reads as zeroes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::store::SparseStore;
use esker_block::{
    Bio, BioError, Build, Device, Done, Extent, ExtentState, Kind, KindError, Limits, Make, Op, OpKind, Reply, Step,
};

use crate::disk::{self, Came, Disk};
use crate::{file, raw};

/// Kind `file`, rehearsed.
pub static FILE: Kind = Kind { build: Build::Device(build_file), ..file::KIND };
/// Kind `raw`, rehearsed.
pub static RAW: Kind = Kind { build: Build::Device(build_raw), ..raw::KIND };

fn build_file(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let found = file::open_reading(make)?;
    Ok(Rc::new(match found {
        file::ExistingFile::Opened(opened) => Overlay::over(
            Rc::new(Disk::new(make.rt, make.pool, opened, Came::found(make))),
            make.args.flag("read_only"),
        ),
        file::ExistingFile::Absent { size, block } => Overlay::of(None, disk::limits(size, block, false)),
    }))
}

fn build_raw(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let opened = raw::open_device(make, true)?;
    let read_only = make.args.flag("read_only");
    Ok(Rc::new(Overlay::over(Rc::new(Disk::new(make.rt, make.pool, opened, Came::found(make))), read_only)))
}

/// A device that is only read, under what was written.
struct Overlay {
    under: Option<Rc<dyn Device>>,
    limits: Limits,
    written: Rc<RefCell<Written>>,
}

/// What was written, and where: from each start to its end, without touching ones.
#[derive(Default)]
struct Written {
    store: SparseStore,
    parts: BTreeMap<u64, u64>,
}

impl Written {
    fn cover(&mut self, range: ByteRange) {
        let (mut start, mut end) = (range.start(), range.end());
        let touching: Vec<u64> =
            self.parts.range(..=end).rev().map_while(|(s, e)| (*e >= start).then_some(*s)).collect();
        for from in touching {
            let to = self.parts.remove(&from).expect("found above");
            (start, end) = (start.min(from), end.max(to));
        }
        self.parts.insert(start, end);
    }

    /// The written parts of a range.
    fn inside(&self, range: ByteRange) -> Vec<ByteRange> {
        let before = self.parts.range(..range.end()).rev().take_while(|(_, end)| **end > range.start());
        let parts = before.filter_map(|(start, end)| ByteRange::new(*start, end - start)?.intersect(range));
        parts.collect()
    }

    /// Puts what was written into what lies below.
    fn lay_over(&self, range: ByteRange, done: &mut Done) {
        for part in self.inside(range) {
            let mut bytes = vec![0; part.len() as usize];
            self.store.read(part.start(), &mut bytes);
            done.buf.fill((part.start() - range.start()) as usize, &bytes);
        }
    }
}

impl Overlay {
    fn over(under: Rc<dyn Device>, read_only: bool) -> Overlay {
        let limits = disk::limits(under.size(), under.limits().block, read_only);
        Overlay::of(Some(under), limits)
    }

    fn of(under: Option<Rc<dyn Device>>, limits: Limits) -> Overlay {
        Overlay { under, limits, written: Rc::default() }
    }

    fn read(&self, mut bio: Bio) -> Step<Done> {
        let (range, written) = (bio.range, self.written.clone());
        match &self.under {
            Some(under) => {
                let below = under.submit(bio);
                Step::later(async move {
                    let mut done = below.await;
                    if done.result.is_ok() {
                        written.borrow().lay_over(range, &mut done);
                    }
                    done
                })
            }
            None => {
                written.borrow().store.read_buf(range.start(), &mut bio.buf);
                Step::Now(bio.ok())
            }
        }
    }
}

impl Device for Overlay {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let mut written = self.written.borrow_mut();
        match bio.op {
            Op::Read => {
                drop(written);
                return self.read(bio);
            }
            Op::Write => {
                written.store.write_buf(bio.offset(), &bio.buf);
                written.cover(bio.range);
            }
            Op::Zero => {
                written.store.zero(bio.range);
                written.cover(bio.range);
            }
            Op::Flush | Op::Discard => {}
            Op::Extents => {
                let all = Extent { len: bio.len(), state: ExtentState::Data };
                return Step::Now(Done { result: Ok(Reply::Extents([all].into())), buf: bio.buf });
            }
            Op::Ranges(_) => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Clone))),
        }
        Step::Now(bio.ok())
    }
}

/// What lies at the path of a file or block device, in words; nothing if nothing is there or all that was looked at is
/// zero.
///
/// # Errors
/// It cannot be read.
pub fn content(path: &Path) -> std::io::Result<Vec<String>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(_) => Ok(crate::found::found_in(path)?.holds),
    }
}

#[cfg(test)]
mod tests {
    use esker_block::Buf;
    use esker_rt::mem::Pool;
    use proptest::prelude::*;

    use super::*;
    use crate::media::Media;
    use crate::memory::{Defer, MemoryDevice};

    const SIZE: u64 = 64 << 10;

    proptest! {
        #[test]
        fn it_reads_like_the_device_and_leaves_it_alone(steps in prop::collection::vec((0u64..128, 1u64..16, 0u8..4), 0..20)) {
            let sim = esker_rt::Sim::new(esker_rt::SimConfig::seeded(1));
            let (rt, pool) = (sim.rt(), Pool::default());
            let media = Media::new(SIZE);
            media.write(0, &Buf::described(SIZE as usize, 7));
            let all = ByteRange::new(0, SIZE).unwrap();
            let before = media.bytes(all);
            let mut model = before.clone();
            let under = media.clone();
            let read = sim.block_on(async move {
                let overlay = Overlay::over(Rc::new(MemoryDevice::over(&rt, under, 512, Defer::Never)), false);
                for (at, len, value) in steps {
                    let (at, len) = (at * 512, (len * 512).min(SIZE - at * 512));
                    model[at as usize..(at + len) as usize].fill(value);
                    let bio = match value {
                        0 => Bio::zero(at, len),
                        _ => Bio::write(at, Buf::from_bytes(&pool, &vec![value; len as usize])),
                    };
                    overlay.submit(bio).await.result.unwrap();
                }
                let done = overlay.submit(Bio::read(0, Buf::unique(&pool, SIZE as usize))).await;
                (done.buf.to_vec(), model)
            });
            prop_assert!(read.0 == read.1);
            prop_assert!(media.bytes(all) == before);
        }
    }
}
