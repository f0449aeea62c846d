//! Descriptor chains: which pieces of its memory a guest offers for one request. Everything here may lie: indexes,
//! addresses and lengths are checked, loops end, and what is read is read once.

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

use crate::Memory;

/// Descriptors of one chain, tables included: more is a loop or an attack.
const DESCRIPTORS_MAX: usize = 1024;
const DESCRIPTOR_BYTES: u64 = 16;

/// A chain that breaks the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The next index is not in the table.
    #[error("descriptor {0} is outside its table")]
    Index(u16),
    /// Too many descriptors: mostly a loop.
    #[error("more than {DESCRIPTORS_MAX} descriptors")]
    Long,
    /// A descriptor, table or buffer is not in the guest's memory.
    #[error("address {0:#x} is not in the guest's memory")]
    Address(u64),
    /// A table inside a table, with a successor, or of an odd length.
    #[error("an indirect table that is none")]
    Table,
    /// A buffer for reading after one for writing.
    #[error("a buffer to read follows one to write")]
    Order,
}

/// A run of guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    at: GuestAddress,
    len: u32,
}

/// Pieces of guest memory that are seen as one run of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span(Vec<Segment>);

impl Span {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|segment| u64::from(segment.len)).sum()
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from offset `from` on.
    ///
    /// # Errors
    /// [`Malformed::Address`] if the memory went away or the span is too short.
    pub fn read(&self, memory: &Memory, from: u64, out: &mut [u8]) -> Result<(), Malformed> {
        let mut done = 0;
        self.each(from, out.len(), &mut |at, len| {
            let copied = memory.read_slice(&mut out[done..done + len], at);
            done += len;
            copied.map_err(|_| Malformed::Address(at.0))
        })
    }

    /// Copies bytes in, from offset `from` on.
    ///
    /// # Errors
    /// As for [`Span::read`].
    pub fn write(&self, memory: &Memory, from: u64, bytes: &[u8]) -> Result<(), Malformed> {
        let mut done = 0;
        self.each(from, bytes.len(), &mut |at, len| {
            let copied = memory.write_slice(&bytes[done..done + len], at);
            done += len;
            copied.map_err(|_| Malformed::Address(at.0))
        })
    }

    /// Calls `act` for the pieces of `[from, from + len)` in order.
    fn each(
        &self,
        from: u64,
        len: usize,
        act: &mut dyn FnMut(GuestAddress, usize) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let (mut skip, mut left) = (from, len);
        for segment in self.0.iter().filter(|_| len > 0) {
            let size = u64::from(segment.len);
            if skip >= size {
                skip -= size;
                continue;
            }
            // Cannot overflow: the whole segment was found in memory.
            let piece = left.min((size - skip) as usize);
            act(GuestAddress(segment.at.0 + skip), piece)?;
            (skip, left) = (0, left - piece);
            if left == 0 {
                return Ok(());
            }
        }
        if left == 0 { Ok(()) } else { Err(Malformed::Address(u64::MAX)) }
    }
}

/// What a guest offers for one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// What the device may read.
    pub readable: Span,
    /// What the device may write.
    pub writable: Span,
}

/// A table of descriptors.
#[derive(Clone, Copy)]
struct Table {
    at: GuestAddress,
    len: u16,
    indirect: bool,
}

impl Table {
    fn read(&self, memory: &Memory, index: u16) -> Result<Descriptor, Malformed> {
        if index >= self.len {
            return Err(Malformed::Index(index));
        }
        let at = self.at.0.checked_add(u64::from(index) * DESCRIPTOR_BYTES).ok_or(Malformed::Table)?;
        memory.read_obj(GuestAddress(at)).map_err(|_| Malformed::Address(at))
    }

    /// The table that `descriptor` of this one refers to.
    fn inner(&self, descriptor: &Descriptor) -> Result<Table, Malformed> {
        let bytes = u64::from(descriptor.len());
        let len = u16::try_from(bytes / DESCRIPTOR_BYTES).map_err(|_| Malformed::Table)?;
        let whole = bytes.is_multiple_of(DESCRIPTOR_BYTES) && len > 0;
        if self.indirect || descriptor.has_next() || !whole {
            return Err(Malformed::Table);
        }
        Ok(Table { at: descriptor.addr(), len, indirect: true })
    }
}

impl Chain {
    /// Reads the chain that begins at `head` of the table of `len` descriptors at `at`.
    ///
    /// # Errors
    /// [`Malformed`] says which rule is broken.
    pub fn read(memory: &Memory, at: GuestAddress, len: u16, head: u16) -> Result<Chain, Malformed> {
        let mut table = Table { at, len, indirect: false };
        let (mut chain, mut index) = (Chain::default(), head);
        for _ in 0..DESCRIPTORS_MAX {
            let descriptor = table.read(memory, index)?;
            if descriptor.refers_to_indirect_table() {
                table = table.inner(&descriptor)?;
                index = 0;
                continue;
            }
            chain.add(memory, &descriptor)?;
            if !descriptor.has_next() {
                return Ok(chain);
            }
            index = descriptor.next();
        }
        Err(Malformed::Long)
    }

    fn add(&mut self, memory: &Memory, descriptor: &Descriptor) -> Result<(), Malformed> {
        let segment = Segment { at: descriptor.addr(), len: descriptor.len() };
        if segment.len > 0 && !memory.check_range(segment.at, segment.len as usize) {
            return Err(Malformed::Address(segment.at.0));
        }
        match descriptor.is_write_only() {
            true => self.writable.0.push(segment),
            false if self.writable.0.is_empty() => self.readable.0.push(segment),
            false => return Err(Malformed::Order),
        }
        Ok(())
    }
}
