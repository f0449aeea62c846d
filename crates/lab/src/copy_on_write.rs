//! A rival that exists in this laboratory only: a snapshot by copying before writing, as LVM makes it (ANViL, section
//! 3.6.1).
//!
//! The first write to each chunk of the origin waits until the chunk has been copied to a store and an entry in the
//! store's table says so. Then it goes to its place, as all further writes do. As in the kernel's `dm-snapshot`: chunks
//! are copied side by side, entries that come together share a write of the table, and a write waits for its own chunk
//! only. In the rival's favour nothing is flushed, and the table has one block.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::{Bio, BioError, Buf, Device, Done, Limits, Op, Step};
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

/// Bytes of the table, which is the store's first block.
pub(crate) const TABLE: usize = 4096;

/// A device with a snapshot.
pub(crate) struct CopyOnWrite(Rc<Inner>);

struct Inner {
    pool: Pool,
    origin: Rc<dyn Device>,
    store: Rc<dyn Device>,
    chunk: u64,
    /// Chunks that have been copied (true), or are being copied.
    chunks: RefCell<BTreeMap<u64, bool>>,
    moved: Notify,
    /// Entries that are to be written, and that are.
    wanted: Cell<u64>,
    written: Cell<u64>,
    is_writing: Cell<bool>,
}

impl CopyOnWrite {
    /// A snapshot of `origin`, just made, whose store has room for the table and all chunks.
    pub(crate) fn new(pool: &Pool, origin: Rc<dyn Device>, store: Rc<dyn Device>, chunk: u64) -> CopyOnWrite {
        let (wanted, written, is_writing) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let (pool, chunks, moved) = (pool.clone(), RefCell::default(), Notify::default());
        CopyOnWrite(Rc::new(Inner { pool, origin, store, chunk, chunks, moved, wanted, written, is_writing }))
    }
}

impl Device for CopyOnWrite {
    fn limits(&self) -> &Limits {
        self.0.origin.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let chunk = bio.offset() / self.0.chunk;
        let is_free = bio.op != Op::Write || self.0.chunks.borrow().get(&chunk) == Some(&true);
        if is_free {
            return self.0.origin.submit(bio);
        }
        let inner = self.0.clone();
        Step::later(async move {
            match inner.keep(chunk).await {
                Ok(()) => inner.origin.submit(bio).await,
                Err(error) => bio.fail(error),
            }
        })
    }
}

impl Inner {
    /// Returns when the chunk has been copied.
    async fn keep(&self, chunk: u64) -> Result<(), BioError> {
        let state = self.chunks.borrow().get(&chunk).copied();
        if state.is_some() {
            self.moved.wait_until(|| self.chunks.borrow().get(&chunk) == Some(&true)).await;
            return Ok(());
        }
        let slot = self.chunks.borrow().len() as u64;
        self.chunks.borrow_mut().insert(chunk, false);
        let read = Bio::read(chunk * self.chunk, Buf::unique(&self.pool, self.chunk as usize));
        let done = self.origin.submit(read).await;
        done.result?;
        self.store.submit(Bio::write(TABLE as u64 + slot * self.chunk, done.buf)).await.result?;
        self.note().await?;
        self.chunks.borrow_mut().insert(chunk, true);
        self.moved.notify_all();
        Ok(())
    }

    /// Returns when an entry for a copied chunk is in the table; callers that come while it is written share the next
    /// write.
    async fn note(&self) -> Result<(), BioError> {
        let mine = self.wanted.get() + 1;
        self.wanted.set(mine);
        while self.written.get() < mine {
            if self.is_writing.replace(true) {
                self.moved.wait_until(|| !self.is_writing.get() || self.written.get() >= mine).await;
                continue;
            }
            let all = self.wanted.get();
            let mut table = Buf::unique(&self.pool, TABLE);
            table.bytes_mut().expect("just made unique")[..8].copy_from_slice(&all.to_le_bytes());
            let done = self.store.submit(Bio::write(0, table)).await;
            self.is_writing.set(false);
            self.moved.notify_all();
            done.result?;
            self.written.set(self.written.get().max(all));
            self.moved.notify_all();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use esker_rt::{Sim, SimConfig};
    use esker_stack::{Spec, Stack};

    use super::*;

    #[test]
    fn a_chunk_is_copied_once_before_it_is_written_and_only_then() {
        let sim = Sim::new(SimConfig::seeded(1));
        let rt = sim.rt();
        sim.block_on(async move {
            let pool = Pool::default();
            let text = "o = memory size=1MiB defer=always latency=9us; s = memory size=2MiB defer=always latency=5us";
            let stack = Stack::build(&rt, &pool, esker_kinds::ALL, &Spec::parse("test", text).unwrap()).unwrap();
            let [origin, store] = ["o", "s"].map(|name| Rc::new(stack.device(name).unwrap()) as Rc<dyn Device>);
            let write = |device: &dyn Device, at: u64, value: u8| {
                device.submit(Bio::write(at, Buf::from_bytes(&pool, &[value; 4096])))
            };
            write(&*origin, 65_536, 7).await.result.unwrap();
            let cow = CopyOnWrite::new(&pool, origin.clone(), store.clone(), 65_536);
            let both = [write(&cow, 65_536, 8), write(&cow, 65_536 + 4096, 9)]
                .map(|step| rt.spawn("w", async move { step.await }));
            for done in esker_rt::sync::join_all(both).await {
                done.result.unwrap();
            }
            let read = |device: &dyn Device, at: u64| device.submit(Bio::read(at, Buf::unique(&pool, 4096)));
            assert_eq!(read(&cow, 65_536).await.buf.to_vec()[0], 8);
            assert_eq!(read(&*store, 4096).await.buf.to_vec(), [7; 4096], "what was there is in the store");
            write(&cow, 65_536, 10).await.result.unwrap();
            assert_eq!(read(&*store, 4096).await.buf.to_vec(), [7; 4096], "and is not copied again");
            assert_eq!((cow.0.chunks.borrow().len(), cow.0.written.get()), (1, 1));
        });
    }
}
