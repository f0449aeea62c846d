//! The signal of a fault, from a program in the kernel. It keeps a bit for each page of each region that a managed
//! process writes for the first time, and reports once that enough are set.
//!
//! It runs at the tracepoint `page_fault_user` and counts pages whose faults are writes, also writes to what was only
//! read before: until then that is a page of zeroes, which belongs to no process. A page that is written again after
//! its region was told has been freed in between, perhaps with all others: the region is counted anew. Of regions whose
//! pages may be shared it tells at once when a page is written that must not be: so a write to a shared page is known
//! before it has a copy. What is freed again it does not see, nor what was there before it began: it says where to
//! look, and the look decides. Looking through page tables goes on beside it, more seldom.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use esker_bpf::load::{ArrayMap, HashMap};
use esker_bpf::{BpfError, Code, Helper, If, Loaded, Map, MapKind, Op, Program, Reg, Ring, Size};

use esker_hugepage::utilisation::Util;
use esker_hugepage::view::{Pid, Region, RegionAddress};
use esker_hugepage::{REGION_BYTES, REGION_PAGES};

/// Processes that are watched: a bit for each number that one may have. Every fault of the machine asks for one.
const WATCHED: &str = "watched";
/// Pages that were written, by process and region: the bits, then how many are set.
const USED: &str = "used";
/// Regions whose pages may be shared, by process and region, and whether a write to one was told.
const MERGEABLE: &str = "mergeable";
const RING: &str = "ring";

/// Numbers of processes end here (`PID_MAX_LIMIT` of `linux/threads.h`).
const PID_MAX: u32 = 1 << 22;
/// Regions that are kept at once: 128 GiB.
const REGIONS_MAX: u32 = 65536;
const RING_BYTES: u32 = 1 << 20;

/// Words of bits of a region, and one for their count.
const WORDS: usize = REGION_PAGES as usize / 64 + 1;
const COUNT: i16 = (WORDS as i16 - 1) * 8;

/// An allocation of so much is never served from memory that was used before (`M_MMAP_THRESHOLD` of mallopt(3)).
const FRESH_BYTES: usize = 64 << 20;

const PROGRAM: &str = "page_fault";
/// The one that tells of shared pages alone.
const OF_SHARED: &str = "shared_fault";
const TRACEPOINT: &str = "page_fault_user";
/// Where the tracepoint's arguments lie: address, registers, code (`arch/x86/include/asm/trace/exceptions.h`).
const ADDRESS: i16 = 0;
const ERROR_CODE: i16 = 16;
/// Bits of the fault's code: the page is there and may not be used so; it was a write.
const PROTECTED: i32 = 1;
const WRITE: i32 = 2;
/// What a record tells: enough was written, or a page that may be shared.
const ENOUGH: i32 = 0;
const SHARED: i32 = 1;
const PAGE_SHIFT: i32 = REGION_BYTES.trailing_zeros() as i32 - REGION_PAGES.trailing_zeros() as i32;
const REGION_SHIFT: i32 = REGION_BYTES.trailing_zeros() as i32;

/// Why there is no such signal.
#[derive(Debug, thiserror::Error)]
pub enum FaultsError {
    /// The kernel refuses the program.
    #[error(transparent)]
    Refused(#[from] BpfError),
    /// It runs and sees nothing.
    #[error("the program in the kernel does not see faults of this process; is this another PID namespace?")]
    Blind,
    /// There are too many descriptors.
    #[error("the ring of the program in the kernel cannot be waited for: {0}")]
    Bell(#[from] io::Error),
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ear {
    /// Everything.
    All,
    /// Writes to shared pages: first faults of a page cost as much as without a program.
    Shared,
    /// Nothing.
    Nothing,
}

impl Ear {
    fn program(self) -> Option<&'static str> {
        match self {
            Ear::All => Some(PROGRAM),
            Ear::Shared => Some(OF_SHARED),
            Ear::Nothing => None,
        }
    }
}

/// The program, running.
pub struct Faults {
    loaded: Loaded,
    ear: Ear,
    watched: ArrayMap<u64>,
    used: HashMap<[u64; 2], [u64; WORDS]>,
    mergeable: HashMap<[u64; 2], u64>,
    ring: Ring,
    bell: Arc<OwnedFd>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// Starts the program, which tells of a region once `pages` of it were written. No process is watched yet.
    ///
    /// # Errors
    /// [`FaultsError`].
    pub fn start(pages: u32) -> Result<Faults, FaultsError> {
        let maps = [
            Map { name: WATCHED, kind: MapKind::Array, key: 4, value: 8, entries: PID_MAX / 64 },
            Map { name: USED, kind: MapKind::Hash, key: 16, value: WORDS as u32 * 8, entries: REGIONS_MAX },
            Map { name: MERGEABLE, kind: MapKind::Hash, key: 16, value: 8, entries: REGIONS_MAX },
            Map { name: RING, kind: MapKind::Ring, key: 0, value: 0, entries: RING_BYTES },
        ];
        let mut loaded = Loaded::new(&[program(pages), program_of_shared()], &maps)?;
        let (watched, used, ring) = (loaded.array(WATCHED)?, loaded.hash(USED)?, loaded.ring(RING)?);
        let mergeable = loaded.hash(MERGEABLE)?;
        loaded.attach_raw(PROGRAM, TRACEPOINT)?;
        let bell = Arc::new(ring.bell()?);
        let mut faults = Faults { loaded, ear: Ear::All, watched, used, mergeable, ring, bell };
        faults.try_here()?;
        Ok(faults)
    }

    /// Whether a fault of this process itself is seen.
    fn try_here(&mut self) -> Result<(), FaultsError> {
        let me = Pid(std::process::id());
        self.watch(me)?;
        let mut memory = vec![0u8; FRESH_BYTES];
        std::hint::black_box(&mut memory)[FRESH_BYTES / 2] = 1;
        let is_seen = self.used.keys().any(|key| key[0] == u64::from(me.0));
        self.forget(me);
        if is_seen { Ok(()) } else { Err(FaultsError::Blind) }
    }

    /// Has something to read as soon as there is something to be told.
    pub fn bell(&self) -> Arc<OwnedFd> {
        self.bell.clone()
    }

    /// What is told from now on; at first everything. What is written otherwise is not seen.
    ///
    /// # Errors
    /// [`FaultsError::Refused`].
    pub fn listen(&mut self, ear: Ear) -> Result<(), FaultsError> {
        let before = std::mem::replace(&mut self.ear, ear);
        if before == ear {
            return Ok(());
        }
        // In this order, so that nothing is missed.
        ear.program().map_or(Ok(()), |program| self.loaded.attach_raw(program, TRACEPOINT))?;
        before.program().map_or(Ok(()), |program| self.loaded.detach(program))?;
        Ok(())
    }

    /// Watches a process.
    ///
    /// # Errors
    /// If its number is none.
    pub fn watch(&mut self, pid: Pid) -> Result<(), FaultsError> {
        let word = self.watched.get(pid.0 / 64).unwrap_or(0);
        Ok(self.watched.set(pid.0 / 64, word | 1 << (pid.0 % 64))?)
    }

    /// Forgets a process, with all that was seen of it.
    pub fn forget(&mut self, pid: Pid) {
        if let Some(word) = self.watched.get(pid.0 / 64) {
            // The word is there.
            drop(self.watched.set(pid.0 / 64, word & !(1 << (pid.0 % 64))));
        }
        let of_it: Vec<[u64; 2]> = self.used.keys().filter(|key| key[0] == u64::from(pid.0)).collect();
        of_it.iter().for_each(|key| self.used.remove(key));
        let of_it: Vec<[u64; 2]> = self.mergeable.keys().filter(|key| key[0] == u64::from(pid.0)).collect();
        of_it.iter().for_each(|key| self.mergeable.remove(key));
    }

    /// Says whether pages of a region may be shared: then writes to those that are, are told.
    ///
    /// # Errors
    /// If there are too many.
    pub fn set_mergeable(&mut self, place: RegionAddress, mergeable: bool) -> Result<(), FaultsError> {
        let key = [u64::from(place.pid.0), place.region.0];
        match mergeable {
            true => Ok(self.mergeable.insert(key, 0)?),
            false => {
                self.mergeable.remove(&key);
                Ok(())
            }
        }
    }

    /// Says which pages of a region are in use: what was freed of it was not seen.
    pub fn correct(&mut self, place: RegionAddress, used: &Util) {
        let mut words = [0; WORDS];
        used.pages().for_each(|page| words[page as usize / 64] |= 1 << (page % 64));
        words[WORDS - 1] = u64::from(used.count());
        // Without room it is not counted, as if it had come later.
        drop(self.used.insert([u64::from(place.pid.0), place.region.0], words));
    }

    /// Forgets which pages of a region are in use: it is of no interest any more.
    pub fn forget_region(&mut self, place: RegionAddress) {
        self.used.remove(&[u64::from(place.pid.0), place.region.0]);
    }

    /// Regions of which enough was written since the last call, or a shared page.
    pub fn told(&mut self) -> Vec<RegionAddress> {
        let Faults { ring, mergeable, .. } = self;
        let mut places = Vec::new();
        ring.drain(|record| {
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("a record is three words"));
            let key = [word(0), word(8)];
            if word(16) == SHARED as u64 && mergeable.get(&key).is_some() {
                // Full it cannot be: the key is there.
                drop(mergeable.insert(key, 0));
            }
            places.push(RegionAddress { pid: Pid(key[0] as u32), region: Region(key[1]) });
        });
        places
    }
}

// The stack, below the frame.
const KEY: i16 = -24;
const WHAT: i16 = KEY + 16;
const KEY_WORD: i16 = KEY - 8;
const EMPTY: i16 = KEY_WORD - WORDS as i16 * 8;

fn program(pages: u32) -> Program {
    let mut code = Code::new();
    let out = code.label();
    take_write(&mut code, out);
    is_watched(&mut code, out);
    take_region(&mut code);
    tell_of_shared(&mut code);
    find_region(&mut code, out);
    set_bit(&mut code, pages as i32, out);
    code.jump_if(If::Differ, Reg::R1, pages as i32 - 1, out);
    emit(&mut code, ENOUGH);
    end(&mut code, out);
    code.finish(PROGRAM, "raw_tp/page_fault_user")
}

fn program_of_shared() -> Program {
    let mut code = Code::new();
    let out = code.label();
    take_write(&mut code, out);
    take_region(&mut code);
    tell_of_shared(&mut code);
    end(&mut code, out);
    code.finish(OF_SHARED, "raw_tp/shared_fault")
}

/// `R6` = the tracepoint's arguments, `R8` = whether the page is there, `R0` = the process, also in the key; away if it
/// is no write.
fn take_write(code: &mut Code, out: esker_bpf::asm::Label) {
    code.mov(Reg::R6, Reg::R1);
    code.load(Size::Double, Reg::R1, Reg::R6, ERROR_CODE);
    code.mov(Reg::R8, Reg::R1);
    code.alu(Op::And, Reg::R8, PROTECTED);
    code.alu(Op::And, Reg::R1, WRITE);
    code.jump_if(If::Equal, Reg::R1, 0, out);
    code.call(Helper::CurrentPidTgid);
    code.alu(Op::ShiftRight, Reg::R0, 32);
    code.store(Size::Double, Reg::R10, KEY, Reg::R0);
}

/// `R6` = the address, and its region is in the key.
fn take_region(code: &mut Code) {
    code.load(Size::Double, Reg::R6, Reg::R6, ADDRESS);
    code.mov(Reg::R1, Reg::R6);
    code.alu(Op::ShiftRight, Reg::R1, REGION_SHIFT);
    code.store(Size::Double, Reg::R10, KEY + 8, Reg::R1);
}

fn end(code: &mut Code, out: esker_bpf::asm::Label) {
    code.bind(out);
    code.mov(Reg::R0, 0);
    code.exit();
}

/// Tells of the region if its pages may be shared, the page that was written is there and that was not told yet.
fn tell_of_shared(code: &mut Code) {
    let no = code.label();
    code.jump_if(If::Equal, Reg::R8, 0, no);
    look_up(code, MERGEABLE, KEY);
    code.jump_if(If::Equal, Reg::R0, 0, no);
    code.mov(Reg::R1, 1);
    code.atomic_fetch(Op::Or, Reg::R0, 0, Reg::R1);
    code.jump_if(If::Differ, Reg::R1, 0, no);
    emit(code, SHARED);
    code.bind(no);
}

/// Puts out the region and what there is to tell of it.
fn emit(code: &mut Code, what: i32) {
    code.store(Size::Double, Reg::R10, WHAT, what);
    code.map(Reg::R1, RING);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(KEY));
    code.mov(Reg::R3, 24);
    // Rare enough, once for each region, that the waiting task may be woken.
    code.mov(Reg::R4, 0);
    code.call(Helper::RingOutput);
}

/// `R0 = map[*(frame + key)]`, or nothing.
fn look_up(code: &mut Code, map: &'static str, key: i16) {
    code.map(Reg::R1, map);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(key));
    code.call(Helper::MapLookup);
}

/// Away if the process `R0` is not watched. Leaves `R6` as it is.
fn is_watched(code: &mut Code, out: esker_bpf::asm::Label) {
    code.mov(Reg::R7, Reg::R0);
    code.alu(Op::ShiftRight, Reg::R0, 6);
    code.store(Size::Word, Reg::R10, KEY_WORD, Reg::R0);
    look_up(code, WATCHED, KEY_WORD);
    code.jump_if(If::Equal, Reg::R0, 0, out);
    code.load(Size::Double, Reg::R1, Reg::R0, 0);
    code.alu(Op::And, Reg::R7, 63);
    code.alu(Op::ShiftRight, Reg::R1, Reg::R7);
    code.alu(Op::And, Reg::R1, 1);
    code.jump_if(If::Equal, Reg::R1, 0, out);
}

/// `R0` = the region's bits, new ones if there are none; away if there is no room.
fn find_region(code: &mut Code, out: esker_bpf::asm::Label) {
    let found = code.label();
    look_up(code, USED, KEY);
    code.jump_if(If::Differ, Reg::R0, 0, found);
    for word in 0..WORDS as i16 {
        code.store(Size::Double, Reg::R10, EMPTY + word * 8, 0);
    }
    code.map(Reg::R1, USED);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(KEY));
    code.mov(Reg::R3, Reg::R10);
    code.alu(Op::Add, Reg::R3, i32::from(EMPTY));
    // Only if another thread has not made it just now.
    code.mov(Reg::R4, 1);
    code.call(Helper::MapUpdate);
    look_up(code, USED, KEY);
    code.jump_if(If::Equal, Reg::R0, 0, out);
    code.bind(found);
}

/// Sets the bit of the address in `R6`; `R1` = how many were set before. Away if it was set and fewer are than are
/// told; if that many are, its region begins anew with this page.
fn set_bit(code: &mut Code, pages: i32, out: esker_bpf::asm::Label) {
    let is_new = code.label();
    code.alu(Op::ShiftRight, Reg::R6, PAGE_SHIFT);
    code.alu(Op::And, Reg::R6, REGION_PAGES as i32 - 1);
    code.mov(Reg::R2, Reg::R6);
    code.alu(Op::And, Reg::R2, 63);
    code.mov(Reg::R3, 1);
    code.alu(Op::ShiftLeft, Reg::R3, Reg::R2);
    code.mov(Reg::R4, Reg::R3);
    code.alu(Op::ShiftRight, Reg::R6, 6);
    code.alu(Op::ShiftLeft, Reg::R6, 3);
    code.mov(Reg::R5, Reg::R0);
    code.alu(Op::Add, Reg::R5, Reg::R6);
    code.atomic_fetch(Op::Or, Reg::R5, 0, Reg::R3);
    code.alu(Op::And, Reg::R3, Reg::R4);
    code.jump_if(If::Equal, Reg::R3, 0, is_new);
    code.load(Size::Double, Reg::R1, Reg::R0, COUNT);
    code.jump_if(If::Below, Reg::R1, pages, out);
    for word in 0..WORDS as i16 {
        code.store(Size::Double, Reg::R0, word * 8, 0);
    }
    code.store(Size::Double, Reg::R5, 0, Reg::R4);
    code.bind(is_new);
    code.mov(Reg::R1, 1);
    code.atomic_fetch(Op::Add, Reg::R0, COUNT, Reg::R1);
}
