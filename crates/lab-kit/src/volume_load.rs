//! Volumes over scratch files, and what experiments do with them.

use std::path::Path;
use std::rc::Rc;

use esker_block::{Bio, BioError, Buf, Device, RangeOp};
use esker_rt::mem::Pool;
use esker_rt::real::Reactor;
use esker_stack::Export;

use crate::experiment::LabError;
use crate::rig::{self, clients};

/// Writes in flight.
const DEPTH: u64 = 64;

/// Opens `vol`, a volume with `params` over a file of `bytes`, with direct I/O or not.
///
/// # Errors
/// [`LabError::Build`].
pub fn open(reactor: &Reactor, file: &Path, bytes: u64, direct: bool, params: &str) -> Result<Export, LabError> {
    let path = file.display();
    let text = format!("a = file path={path} size={bytes} direct={direct}; vol = logvol {params} on a");
    Ok(rig::stack(&reactor.rt(), &rig::spec(&text))?.device("vol").expect("the experiment's own name"))
}

/// A buffer that differs from all others, so that nothing below can cheat.
pub fn numbered(pool: &Pool, len: usize, number: u64) -> Buf {
    let mut buf = Buf::unique(pool, len);
    buf.bytes_mut().expect("just made unique")[..8].copy_from_slice(&number.to_le_bytes());
    buf
}

/// Writes `len` bytes at each of `count` places, many at once.
///
/// # Errors
/// The first failure.
pub async fn write_all(
    vol: &Export,
    len: usize,
    count: u64,
    place: impl Fn(u64) -> u64 + 'static,
) -> Result<(), BioError> {
    let place = Rc::new(place);
    let writer = |writer| {
        let (vol, place) = (vol.clone(), place.clone());
        async move {
            for i in (writer..count).step_by(DEPTH as usize) {
                vol.submit(Bio::write(place(i), numbered(vol.stack().pool(), len, i))).await.result?;
            }
            Ok(())
        }
    };
    clients(vol.stack().rt(), DEPTH, writer).await.into_iter().collect()
}

/// Clones `len` bytes from `from` to `to`.
///
/// # Errors
/// What the volume answers.
pub async fn clone(vol: &Export, from: u64, len: u64, to: u64) -> Result<(), BioError> {
    let src = esker_base::ByteRange::new(from, len).expect("inside the volume");
    vol.submit(Bio::ranges([RangeOp::Clone { src, dst: to }])).await.result.map(drop)
}

/// A number that the volume tells about itself.
pub fn stat(vol: &Export, name: &str) -> f64 {
    let parts = vol.stack().stats();
    let part = parts.iter().find(|part| part.kind == "logvol").expect("the stack has one");
    let stat = part.stats.iter().find(|stat| stat.name == name);
    stat.unwrap_or_else(|| panic!("a volume tells no {name}")).value
}
