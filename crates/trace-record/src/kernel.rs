//! The programs in the kernel that see the calls of the traced threads.
//!
//! Two run at the tracepoints `sys_enter` and `sys_exit` of every thread of the machine and leave at once where it is
//! not a traced one; three follow the threads: `task_newtask`, `sched_process_exec`, `sched_process_exit`. Four see
//! page faults on files: `page_fault_user` and `page_fault_kernel` note the address, `mm_filemap_fault` tells that the
//! page has to be brought, `mm_filemap_map_pages` that it and its neighbours are there. Five see requests of an
//! io_uring ([`uring`]). What they see goes into one ring, in one order for all CPUs. What does not fit is counted.
//!
//! A program in the kernel cannot wait for a page. If a text lies in one that is not in memory, the thread is marked.
//! The text is read when the call returns, for which the kernel itself had to fetch the page.
//!
//! [`crate::wire`] is the layout of the records.

mod programs;
mod reading;
mod uring;

use esker_bpf::load::{ArrayMap, HashMap};
use esker_bpf::{BpfError, BtfError, Loaded, Map, MapKind, Ring, Types};

use crate::calls::{self, Extent, ITEMS_MAX, Item, Spec};
use crate::wire;

/// Traced threads, by number: see [`programs`].
const TRACED: &str = "traced";
/// What is read with each call, by its number.
const CALLS: &str = "calls";
/// Where a long record is put together; one for each CPU, as the programs are not preempted.
const SCRATCH: &str = "scratch";
const RING: &str = "ring";
/// Counters: see [`Lost`].
const LOST: &str = "lost";
/// Rings of an io_uring of which traced threads' requests were taken, by their address in the kernel.
const RINGS: &str = "rings";

/// Threads that can be traced at once.
const THREADS_MAX: u32 = 8192;
/// Rings whose requests are told.
const RINGS_MAX: u32 = 4096;
/// Numbers of calls that are looked up.
const CALLS_MAX: u32 = 512;
/// A call's entry in [`CALLS`]: items at the beginning, whether it is recorded, items at the end, an argument to look
/// at.
const SPEC_BYTES: u32 = 32;
const SPEC_RECORDED: i16 = 12;
const SPEC_EXIT: i16 = 16;
const SPEC_UNLESS: i16 = 28;

/// Bytes of an item of a call's beginning, and of its end, for which a thread's value has room.
const ITEM_MAX: i32 = 256;
const EXIT_MAX: i32 = 1024;
/// What is read at the end of the call under way.
const ITEM_EXIT: i16 = 0;
/// The last page fault: whether the kernel had it and whether it may make a page dirty, its address, and when a page of
/// a file was first wanted for it, or 0.
const FAULT_IN_CALL: i16 = 4;
const FAULT_ADDRESS: i16 = 8;
const FAULT_BEGUN: i16 = 16;
const VALUE_BYTES: usize =
    programs::RECORD as usize + wire::DATA as usize + ITEMS_MAX * ITEM_MAX as usize + EXIT_MAX as usize;
const SCRATCH_BYTES: u32 = 32768;

/// What was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Records for which the ring had no room.
    pub records: u64,
    /// Calls of programs of 32 bits, whose numbers mean something else.
    pub foreign: u64,
}

/// The programs, running.
pub struct Kernel {
    /// None once they have ended.
    loaded: Option<Loaded>,
    traced: HashMap<u32, [u8; VALUE_BYTES]>,
    lost: ArrayMap<u64>,
    /// Whether they see requests of an io_uring: not all kernels tell of them alike.
    pub sees_requests: bool,
    /// Whether they see pages of files become dirty by writes through maps.
    pub sees_writes: bool,
    /// What they see.
    pub ring: Ring,
}

/// Programs that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refuses them.
    #[error(transparent)]
    Refused(#[from] BpfError),
    /// The kernel's structures are not as they should be.
    #[error(transparent)]
    Types(#[from] BtfError),
}

impl Kernel {
    /// Loads and starts the programs; no thread is traced yet. The ring has `ring_bytes`, a power of two.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn start(ring_bytes: u32) -> Result<Kernel, KernelError> {
        let types = Types::of_kernel()?;
        let mut all = programs::all(&types)?.to_vec();
        let requests = uring::Places::of(&types);
        all.extend(requests.into_iter().flat_map(uring::programs));
        let mut loaded = Loaded::new(&all, &maps(ring_bytes))?;
        let mut table = loaded.array::<[u8; SPEC_BYTES as usize]>(CALLS)?;
        for spec in calls::all() {
            table.set(spec.number, packed(spec))?;
        }
        let (traced, lost, ring) = (loaded.hash(TRACED)?, loaded.array(LOST)?, loaded.ring(RING)?);
        for fault in programs::FAULTS {
            loaded.attach_raw(fault, fault)?;
        }
        let sees_writes = loaded.attach_raw(programs::DIRTY, programs::DIRTY).is_ok();
        for name in uring::names().filter(|_| requests.is_some()) {
            loaded.attach_raw(name, name)?;
        }
        loaded.attach_raw("task_newtask", "task_newtask")?;
        loaded.attach_raw("process_exec", "sched_process_exec")?;
        loaded.attach_raw("process_exit", "sched_process_exit")?;
        loaded.attach_raw("sys_exit", "sys_exit")?;
        loaded.attach_raw("sys_enter", "sys_enter")?;
        Ok(Kernel { loaded: Some(loaded), traced, lost, ring, sees_requests: requests.is_some(), sees_writes })
    }

    /// From now on this thread is traced, with all that it makes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn trace(&mut self, tid: u32) -> Result<(), KernelError> {
        Ok(self.traced.insert(tid, [0; VALUE_BYTES])?)
    }

    /// Ends the programs. What they have put out is still in the ring, and nothing more comes.
    pub fn halt(&mut self) {
        self.loaded = None;
    }

    /// Whether any traced thread is left.
    pub fn is_busy(&self) -> bool {
        self.traced.keys().next().is_some()
    }

    /// Shows the calls that are under way, as records of their beginnings.
    pub fn under_way(&self, mut show: impl FnMut(&[u8])) {
        for value in self.traced.keys().filter_map(|tid| self.traced.get(&tid)) {
            let mut record = value[programs::RECORD as usize..].to_vec();
            let kind = &mut record[wire::KIND as usize..][..4];
            if kind == (wire::Kind::Call as u32).to_le_bytes() {
                kind.copy_from_slice(&(wire::Kind::Enter as u32).to_le_bytes());
                show(&record);
            }
        }
    }

    /// What was not recorded until now.
    pub fn lost(&self) -> Lost {
        let counter = |index| self.lost.get(index).unwrap_or(0);
        Lost { records: counter(0), foreign: counter(1) }
    }
}

fn maps(ring_bytes: u32) -> [Map; 6] {
    [
        Map { name: TRACED, kind: MapKind::Hash, key: 4, value: VALUE_BYTES as u32, entries: THREADS_MAX },
        Map { name: CALLS, kind: MapKind::Array, key: 4, value: SPEC_BYTES, entries: CALLS_MAX },
        Map { name: SCRATCH, kind: MapKind::PerCpuArray, key: 4, value: SCRATCH_BYTES, entries: 1 },
        Map { name: RING, kind: MapKind::Ring, key: 0, value: 0, entries: ring_bytes },
        Map { name: LOST, kind: MapKind::Array, key: 4, value: 8, entries: 2 },
        Map { name: RINGS, kind: MapKind::Hash, key: 8, value: 8, entries: RINGS_MAX },
    ]
}

/// How an item is measured, for the programs. None is 0: there is no item.
#[derive(Clone, Copy)]
enum Measure {
    Text = 1,
    Counted = 2,
    /// Of a call's first item only: so much is unrolled for it.
    Pointers = 3,
}

fn packed(spec: &Spec) -> [u8; SPEC_BYTES as usize] {
    let mut entry = [0u8; SPEC_BYTES as usize];
    let mut items = |at: usize, items: &[Item]| {
        for (index, item) in items.iter().enumerate() {
            entry[at + index * 4..][..4].copy_from_slice(&packed_item(*item));
        }
    };
    items(0, spec.entry);
    items(SPEC_EXIT as usize, spec.exit);
    entry[SPEC_RECORDED as usize] = 1;
    entry[SPEC_UNLESS as usize] = spec.unless_negative.map_or(u8::MAX, |arg| wire::ARGUMENTS[arg]);
    entry
}

/// A measure in the low bits beside a place of the pointer, a place of the count (a whole number of words), and a size.
/// A constant size is so many times a word that is one.
fn packed_item(item: Item) -> [u8; 4] {
    let pointer = wire::ARGUMENTS[item.arg];
    let (measure, count, size) = match item.what {
        Extent::Text => (Measure::Text, 0, 0),
        Extent::Bytes(bytes) => (Measure::Counted, (wire::ONE - wire::SAVED) as u8, bytes),
        Extent::Array { size, count } => (Measure::Counted, wire::ARGUMENTS[count], size),
        Extent::Returned(size) => (Measure::Counted, (wire::RESULT - wire::SAVED) as u8, size),
        Extent::Pointers { count } => (Measure::Pointers, wire::ARGUMENTS[count], 8),
    };
    [pointer | measure as u8, count, size as u8, (size >> 8) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_with_a_call_fits_its_entry() {
        for spec in calls::all() {
            assert!(spec.exit.len() <= 1, "{}: a thread's value has room for one item", spec.name());
            assert!(spec.number < CALLS_MAX, "{}", spec.name());
            let pointers = |item: &Item| matches!(item.what, Extent::Pointers { .. });
            assert!(!spec.entry.iter().skip(1).any(pointers), "{}: pointers are the first item", spec.name());
        }
    }

    #[test]
    fn the_kernel_takes_the_programs() {
        match Kernel::start(1 << 20) {
            Ok(kernel) => assert_eq!((kernel.is_busy(), kernel.lost()), (false, Lost::default())),
            Err(error) => esker_skip::skip(esker_skip::Ability::Bpf, error),
        }
    }
}
