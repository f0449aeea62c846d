//! Access bits as they stand in the page tables of x86-64, read through a program in the kernel ([`esker_bpf::Peek`]).
//!
//! They are cleared by `MADV_COLD` on whole regions, which drops the translations of all CPUs too: what is used after
//! that is marked again. (`clear_refs` drops none, so that a page that stays in the translation cache looks idle.) A
//! huge page has one bit. Of a region in base pages the bits of writable pages count, as the others (shared by KSM or
//! by fork) cannot be cleared.
//!
//! Page tables may go while they are read. A huge page's entry is believed only if it names the page of memory that the
//! process' pagemap told just before; of base pages wrong bits cost a wrong guess.

use std::collections::BTreeMap;
use std::io;

use esker_bpf::peek::WORDS;
use esker_bpf::{BpfError, BtfError, Peek, Types};
use esker_sys::process::{Advice, PageTable, Process};

use esker_hugepage::view::{Pid, Region};
use esker_hugepage::{PAGE_BYTES, REGION_BYTES};

/// Bits of an entry (Intel SDM, volume 3, section 5.5).
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const ACCESSED: u64 = 1 << 5;
const LEAF: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;
/// Where the kernel maps all of memory begins at a multiple of this, below any table and not further below it than
/// memory is large.
const MAP_STEP: u64 = 1 << 30;
const MEMORY_MAX: u64 = 64 << 40;
/// The kernel's half with tables of four levels begins here, with five lower.
const FOUR_LEVELS: u64 = 0xffff_8000_0000_0000;
const ENTRIES: u64 = 512;
/// Tasks that are looked through for a process.
const TASKS_MAX: usize = 1 << 16;

/// Why page tables cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum YoungError {
    /// The kernel takes no program.
    #[error(transparent)]
    Refused(#[from] BpfError),
    /// It does not tell its structures.
    #[error(transparent)]
    Types(#[from] BtfError),
    /// Memory of this process cannot be looked up.
    #[error("this process' own memory: {0}")]
    Own(#[from] io::Error),
    /// What is read makes no sense.
    #[error("{0}")]
    Strange(&'static str),
}

/// Offsets in `task_struct` and `mm_struct`.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    leader: u64,
    tasks: u64,
    tgid: u64,
    memory: u64,
    root: u64,
}

/// A reader of page tables.
#[derive(Debug)]
pub struct Young {
    peek: Peek,
    offsets: Offsets,
    /// Where the kernel maps physical address 0.
    map: u64,
    tasks: BTreeMap<Pid, u64>,
}

impl Young {
    /// Starts the program and tries it on this process.
    ///
    /// # Errors
    /// [`YoungError`].
    pub fn start() -> Result<Young, YoungError> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(YoungError::Strange("only the page tables of x86-64 are known"));
        }
        let types = Types::of_kernel()?;
        let offset = |structure, member| types.offset(structure, member).map(|offset| offset as u64);
        let offsets = Offsets {
            leader: offset("task_struct", "group_leader")?,
            tasks: offset("task_struct", "tasks")?,
            tgid: offset("task_struct", "tgid")?,
            memory: offset("task_struct", "mm")?,
            root: offset("mm_struct", "pgd")?,
        };
        let mut young = Young { peek: Peek::start()?, offsets, map: 0, tasks: BTreeMap::new() };
        young.map = young.find_map()?;
        young.try_here()?;
        Ok(young)
    }

    /// Finds where physical memory is mapped by a page of this process, of which content and frame are known.
    fn find_map(&mut self) -> Result<u64, YoungError> {
        let me = Pid(std::process::id());
        let root = self
            .root(me)
            .ok_or(YoungError::Strange("this process' own task is not found; is this another PID namespace?"))?;
        let mut known = vec![0u64; 2 * ENTRIES as usize];
        let first = known.as_ptr().align_offset(PAGE_BYTES as usize);
        let marks = [0x9d1c_7a6b_3e52_f048, root ^ u64::MAX];
        known[first..first + 2].copy_from_slice(&marks);
        let address = std::hint::black_box(&known)[first..].as_ptr() as usize as u64;
        let frame = PageTable::open(me.0)?.frames(address, 1)?[0];
        let at =
            frame.ok_or(YoungError::Strange("physical addresses are not told without CAP_SYS_ADMIN"))? * PAGE_BYTES;
        let top = root / MAP_STEP * MAP_STEP;
        let mut candidates = (0..MEMORY_MAX / MAP_STEP).map(|step| top.wrapping_sub(step * MAP_STEP));
        let found = candidates.find(|map| {
            let page = self.peek.page(map.wrapping_add(at));
            page.is_some_and(|words| words[..2] == marks)
        });
        found.ok_or(YoungError::Strange("a known page is not where the kernel maps memory"))
    }

    /// Whether a bit of this process' own memory comes and goes.
    fn try_here(&mut self) -> Result<(), YoungError> {
        let me = Pid(std::process::id());
        let mut memory = vec![1u8; 2 * REGION_BYTES as usize];
        let first = memory.as_ptr().align_offset(REGION_BYTES as usize);
        let start = memory[first..].as_ptr() as usize as u64;
        let region = Region(start / REGION_BYTES);
        let process = Process::open(me.0)?;
        // Base pages that are new are passed over until they are on the kernel's lists.
        process.advise(start, REGION_BYTES, Advice::Collapse)?;
        process.advise(start, REGION_BYTES, Advice::Cold)?;
        let table = PageTable::open(me.0)?;
        let cleared = self.accessed(me, &[region], &table);
        std::hint::black_box(&mut memory)[first] = 2;
        match (cleared[0], self.accessed(me, &[region], &table)[0]) {
            (Some(false), Some(true)) => Ok(()),
            _ => Err(YoungError::Strange("access bits of this process' own memory are not as they must be")),
        }
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.tasks.remove(&pid);
    }

    /// Which of some regions were used since their bits were cleared; nothing where that cannot be told. Neighbours
    /// cost least: the entries of 512 regions lie in one table, which is read once for all that come in a row.
    pub fn accessed(&mut self, pid: Pid, regions: &[Region], table: &PageTable) -> Vec<Option<bool>> {
        let mut read: Option<(u64, Option<[u64; WORDS]>)> = None;
        let mut bit = |region: &Region| {
            let which = region.0 / ENTRIES;
            if read.as_ref().is_none_or(|(read, _)| *read != which) {
                read = Some((which, self.entries(pid, *region)));
            }
            let (_, entries) = read.as_ref()?;
            self.is_accessed(entries.as_ref()?[(region.0 % ENTRIES) as usize], *region, table)
        };
        regions.iter().map(&mut bit).collect()
    }

    /// What the entry of a region says.
    fn is_accessed(&mut self, entry: u64, region: Region, table: &PageTable) -> Option<bool> {
        if entry & PRESENT == 0 {
            return None;
        }
        if entry & LEAF != 0 {
            let frame = table.frames(region.0 * REGION_BYTES, 1).ok()?[0]?;
            return (entry & FRAME & !(REGION_BYTES - 1) == frame * PAGE_BYTES).then_some(entry & ACCESSED != 0);
        }
        let is_used = |entry: &u64| entry & (PRESENT | WRITABLE | ACCESSED) == PRESENT | WRITABLE | ACCESSED;
        self.peek.page(self.map.wrapping_add(entry & FRAME)).map(|entries| entries.iter().any(is_used))
    }

    /// The table of the second level that holds the entry of a region.
    fn entries(&mut self, pid: Pid, region: Region) -> Option<[u64; WORDS]> {
        let root = self.root(pid)?;
        let upper: &[u32] = if self.map >= FOUR_LEVELS { &[18, 9] } else { &[27, 18, 9] };
        let mut table = root;
        for shift in upper {
            let entry = self.peek.word(table + (region.0 >> shift) % ENTRIES * 8);
            if entry & PRESENT == 0 || entry & LEAF != 0 {
                return None;
            }
            table = self.map.wrapping_add(entry & FRAME);
        }
        self.peek.page(table)
    }

    /// Where the table of the highest level of a process is.
    fn root(&mut self, pid: Pid) -> Option<u64> {
        let task = self.task(pid)?;
        let memory = self.peek.word(task + self.offsets.memory);
        let root = if memory == 0 { 0 } else { self.peek.word(memory + self.offsets.root) };
        (root != 0).then_some(root)
    }

    /// The task of a process, in the kernel's ring of all.
    fn task(&mut self, pid: Pid) -> Option<u64> {
        if let Some(task) = self.tasks.get(&pid).copied()
            && self.number(task) == pid
        {
            return Some(task);
        }
        let own = self.peek.own_task();
        let begun = self.peek.word(own + self.offsets.leader);
        let mut task = begun;
        for _ in 0..TASKS_MAX {
            if self.number(task) == pid {
                self.tasks.insert(pid, task);
                return Some(task);
            }
            let next = self.peek.word(task + self.offsets.tasks);
            task = next.wrapping_sub(self.offsets.tasks);
            if next == 0 || task == begun {
                return None;
            }
        }
        None
    }

    fn number(&mut self, task: u64) -> Pid {
        Pid(self.peek.word(task + self.offsets.tgid) as u32)
    }
}
