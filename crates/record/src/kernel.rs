//! The programs in the kernel that see the calls of the traced threads.
//!
//! Two run at the tracepoints `sys_enter` and `sys_exit` of every thread of the machine and leave at once where it is not a
//! traced one; three follow the threads: `task_newtask`, `sched_process_exec`, `sched_process_exit`. What they see goes
//! into one ring, in one order for all CPUs. What does not fit is counted.
//!
//! A program in the kernel cannot wait for a page: where a text lies in one that is not in memory, the thread is marked, and
//! the text is read when the call returns, for which the kernel itself had to fetch the page.
//!
//! [`crate::wire`] is the layout of the records.

use esker_bpf::asm::Label;
use esker_bpf::load::{ArrayMap, HashMap};
use esker_bpf::{BpfError, Code, Fields, Helper, If, Loaded, Map, MapKind, Op, Program, Reg, Ring, Size, TracefsError};

use crate::calls::{self, ARRAY_MAX, Extent, ITEMS_MAX, Item, Spec, TEXT_MAX};
use crate::wire::{self, Kind};

/// Traced threads: by number, 0, or 1 if the texts of the call under way are still to be read.
const TRACED: &str = "traced";
/// What is read with each call, by its number.
const CALLS: &str = "calls";
/// Where a record is put together; one for each CPU, as the programs are not preempted.
const SCRATCH: &str = "scratch";
const RING: &str = "ring";
/// Counters: see [`Lost`].
const LOST: &str = "lost";

/// Threads that can be traced at once.
const THREADS_MAX: u32 = 65536;
/// Numbers of calls that are looked up.
const CALLS_MAX: u32 = 512;
/// A call's entry in [`CALLS`]: items at the beginning, whether it is recorded, items at the end, an argument to look at.
const SPEC_BYTES: u32 = 32;
const SPEC_RECORDED: i16 = 12;
const SPEC_EXIT: i32 = 16;
const SPEC_UNLESS: i16 = 28;

/// Registers of the thread, as the kernel saved them: from `r10` to `cs` of `struct pt_regs`.
const SAVED_FROM: i32 = 56;
const SAVED_BYTES: i32 = 88;
/// Of those, the number of the call and the code segment.
const SAVED_CALL: i16 = 64;
const SAVED_SEGMENT: i16 = 80;
/// The code segment of programs of 64 bits.
const SEGMENT_64: i32 = 0x33;
/// Where each argument lies among the saved registers: `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
const ARGUMENTS: [u8; 6] = [56, 48, 40, 0, 16, 8];

/// Where a scratch area keeps what is not part of the record.
const SCRATCH_BYTES: u32 = 32768;
const SCRATCH_SAVED: i16 = 16384;
/// Behind the saved registers: what the call returned.
const SCRATCH_RESULT: i16 = SCRATCH_SAVED + SAVED_BYTES as i16;
/// Requests of which the memory is read at one call.
const POINTERS_MAX: i32 = 32;

/// `BPF_RB_NO_WAKEUP`: the reader looks by itself; waking it would cost more than the record.
const NO_WAKEUP: i32 = 1;

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
    _loaded: Loaded,
    traced: HashMap<u32, u64>,
    lost: ArrayMap<u64>,
    /// What they see.
    pub ring: Ring,
}

/// Programs that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refuses them.
    #[error(transparent)]
    Refused(#[from] BpfError),
    /// A tracepoint is not as it should be.
    #[error(transparent)]
    Tracepoint(#[from] TracefsError),
}

impl Kernel {
    /// Loads and starts the programs; no thread is traced yet. The ring has `ring_bytes`, a power of two.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn start(ring_bytes: u32) -> Result<Kernel, KernelError> {
        let mut loaded = Loaded::new(&programs()?, &maps(ring_bytes))?;
        let mut table = loaded.array::<[u8; SPEC_BYTES as usize]>(CALLS)?;
        for spec in calls::all() {
            table.set(spec.number, packed(spec))?;
        }
        let (traced, lost, ring) = (loaded.hash(TRACED)?, loaded.array(LOST)?, loaded.ring(RING)?);
        loaded.attach("task_newtask", "task", "task_newtask")?;
        loaded.attach("process_exec", "sched", "sched_process_exec")?;
        loaded.attach("process_exit", "sched", "sched_process_exit")?;
        loaded.attach_raw("sys_exit", "sys_exit")?;
        loaded.attach_raw("sys_enter", "sys_enter")?;
        Ok(Kernel { _loaded: loaded, traced, lost, ring })
    }

    /// From now on this thread is traced, with all that it makes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn trace(&mut self, tid: u32) -> Result<(), KernelError> {
        Ok(self.traced.insert(tid, 0)?)
    }

    /// Whether any traced thread is left.
    pub fn is_busy(&self) -> bool {
        self.traced.keys().next().is_some()
    }

    /// What was not recorded until now.
    pub fn lost(&self) -> Lost {
        let counter = |index| self.lost.get(index).unwrap_or(0);
        Lost { records: counter(0), foreign: counter(1) }
    }
}

fn maps(ring_bytes: u32) -> [Map; 5] {
    [
        Map { name: TRACED, kind: MapKind::Hash, key: 4, value: 8, entries: THREADS_MAX },
        Map { name: CALLS, kind: MapKind::Array, key: 4, value: SPEC_BYTES, entries: CALLS_MAX },
        Map { name: SCRATCH, kind: MapKind::PerCpuArray, key: 4, value: SCRATCH_BYTES, entries: 1 },
        Map { name: RING, kind: MapKind::Ring, key: 0, value: 0, entries: ring_bytes },
        Map { name: LOST, kind: MapKind::Array, key: 4, value: 8, entries: 2 },
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
    entry[SPEC_UNLESS as usize] = spec.unless_negative.map_or(u8::MAX, |arg| ARGUMENTS[arg]);
    entry
}

/// A measure in the low bits beside a place of the pointer, a place of the count (a whole number of words), and a size. A
/// constant size is so many times a word that is one.
fn packed_item(item: Item) -> [u8; 4] {
    let pointer = ARGUMENTS[item.arg];
    let (measure, count, size) = match item.what {
        Extent::Text => (Measure::Text, 0, 0),
        Extent::Bytes(bytes) => (Measure::Counted, ONE, bytes),
        Extent::Array { size, count } => (Measure::Counted, ARGUMENTS[count], size),
        Extent::Returned(size) => (Measure::Counted, SAVED_BYTES as u8, size),
        Extent::Pointers { count } => (Measure::Pointers, ARGUMENTS[count], 8),
    };
    [pointer | measure as u8, count, size as u8, (size >> 8) as u8]
}

/// Among the saved registers, where the program stores a one.
const ONE: u8 = SAVED_BYTES as u8 + 8;

fn programs() -> Result<[Program; 5], TracefsError> {
    let newtask = Fields::of("task/task_newtask")?;
    let exec = Fields::of("sched/sched_process_exec")?;
    Ok([
        sys_enter(),
        sys_exit(),
        task_newtask(newtask.offset("pid", 4)?, newtask.offset("clone_flags", 8)?),
        process_exec(exec.offset("pid", 4)?, exec.offset("old_pid", 4)?),
        process_exit(),
    ])
}

// The stack of each program, below the frame.
const KEY_THREAD: i16 = -4;
const KEY_CALL: i16 = -8;
const KEY_ZERO: i16 = -12;
const KEPT: i16 = -24;
/// A record that is put together on the stack.
const SMALL: i16 = -64;

/// `R0 = map[*(frame + key)]`, or away if there is nothing.
fn look_up(code: &mut Code, map: &'static str, key: i16, otherwise: Label) {
    code.map(Reg::R1, map);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(key));
    code.call(Helper::MapLookup);
    code.jump_if(If::Equal, Reg::R0, 0, otherwise);
}

/// Counts one more, if the counter is there.
fn count(code: &mut Code, counter: i32) {
    let out = code.label();
    code.store(Size::Word, Reg::R10, KEY_ZERO, counter);
    look_up(code, LOST, KEY_ZERO, out);
    code.mov(Reg::R1, 1);
    code.atomic_add(Reg::R0, 0, Reg::R1);
    code.bind(out);
}

/// `R8` = process and thread; `R7` = the thread's mark; `R9` = the context. Away if the thread is not traced.
fn enter_if_traced(code: &mut Code, out: Label) {
    code.mov(Reg::R9, Reg::R1);
    code.call(Helper::CurrentPidTgid);
    code.mov(Reg::R8, Reg::R0);
    code.store(Size::Word, Reg::R10, KEY_THREAD, Reg::R8);
    look_up(code, TRACED, KEY_THREAD, out);
    code.mov(Reg::R7, Reg::R0);
}

/// `R9` = the scratch area with the saved registers, `R6` = what is read with the call. Away if it is not recorded.
fn enter_call(code: &mut Code, out: Label) {
    let native = code.label();
    code.store(Size::Word, Reg::R10, KEY_ZERO, 0);
    look_up(code, SCRATCH, KEY_ZERO, out);
    code.mov(Reg::R6, Reg::R0);
    code.load(Size::Double, Reg::R3, Reg::R9, 0);
    code.alu(Op::Add, Reg::R3, SAVED_FROM);
    code.mov(Reg::R1, Reg::R6);
    code.alu(Op::Add, Reg::R1, i32::from(SCRATCH_SAVED));
    code.mov(Reg::R2, SAVED_BYTES);
    code.call(Helper::ProbeReadKernel);
    // The second argument of both tracepoints: the number of the call, or its result.
    code.load(Size::Double, Reg::R1, Reg::R9, 8);
    code.store(Size::Double, Reg::R6, SCRATCH_RESULT, Reg::R1);
    code.store(Size::Double, Reg::R6, SCRATCH_RESULT + 8, 1);
    code.mov(Reg::R9, Reg::R6);
    code.load(Size::Double, Reg::R1, Reg::R9, SCRATCH_SAVED + SAVED_SEGMENT);
    code.jump_if(If::Equal, Reg::R1, SEGMENT_64, native);
    count(code, 1);
    code.jump(out);
    code.bind(native);
    code.load(Size::Double, Reg::R1, Reg::R9, SCRATCH_SAVED + SAVED_CALL);
    code.store(Size::Word, Reg::R10, KEY_CALL, Reg::R1);
    look_up(code, CALLS, KEY_CALL, out);
    code.mov(Reg::R6, Reg::R0);
    code.load(Size::Byte, Reg::R1, Reg::R6, SPEC_RECORDED);
    code.jump_if(If::Equal, Reg::R1, 0, out);
}

/// Away if the argument that the call's entry names is negative.
fn unless_negative(code: &mut Code, out: Label) {
    let recorded = code.label();
    code.load(Size::Byte, Reg::R1, Reg::R6, SPEC_UNLESS);
    code.jump_if(If::Above, Reg::R1, SAVED_BYTES, recorded);
    code.mov(Reg::R2, Reg::R9);
    code.alu(Op::Add, Reg::R2, Reg::R1);
    code.load(Size::Word, Reg::R1, Reg::R2, SCRATCH_SAVED);
    code.alu(Op::ShiftRight, Reg::R1, 31);
    code.jump_if(If::Differ, Reg::R1, 0, out);
    code.bind(recorded);
}

/// Time, thread, kind and call at the front of the record in `R9`.
fn header(code: &mut Code, kind: Reg) {
    code.store(Size::Word, Reg::R9, wire::KIND, kind);
    code.store(Size::Double, Reg::R9, wire::THREAD, Reg::R8);
    code.load(Size::Word, Reg::R1, Reg::R10, KEY_CALL);
    code.store(Size::Word, Reg::R9, wire::NUMBER, Reg::R1);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R9, wire::TIME, Reg::R0);
}

/// `R1` = the word among the saved registers whose place is in `R1`.
fn saved_word(code: &mut Code) {
    code.mov(Reg::R2, Reg::R9);
    code.alu(Op::Add, Reg::R2, Reg::R1);
    code.load(Size::Double, Reg::R1, Reg::R2, SCRATCH_SAVED);
}

/// Reads the items whose entry `R6` points to behind `R9 + data`; `R8` becomes how many bytes those were.
fn read_items(code: &mut Code, lengths: i16, data: i16, mark: bool) {
    code.mov(Reg::R8, 0);
    for item in 0..ITEMS_MAX as i16 {
        read_item(code, item * 4, lengths + item * 4, data, mark);
    }
}

fn read_item(code: &mut Code, entry: i16, length: i16, data: i16, mark: bool) {
    let [done, text, failed, got] = [(); 4].map(|()| code.label());
    code.store(Size::Word, Reg::R9, length, wire::NOTHING);
    code.load(Size::Byte, Reg::R1, Reg::R6, entry);
    code.jump_if(If::Equal, Reg::R1, 0, done);
    code.mov(Reg::R3, Reg::R1);
    code.alu(Op::And, Reg::R1, 0x78);
    saved_word(code);
    // An argument of nothing has nothing behind it.
    code.jump_if(If::Equal, Reg::R1, 0, done);
    code.alu(Op::And, Reg::R3, 7);
    code.store(Size::Double, Reg::R10, KEPT, Reg::R1);
    code.jump_if(If::Equal, Reg::R3, Measure::Text as i32, text);
    size_of_array(code, entry);
    if entry == 0 {
        let no_pointers = code.label();
        code.jump_if(If::Differ, Reg::R3, Measure::Pointers as i32, no_pointers);
        read_blocks(code, data, failed);
        code.jump(got);
        code.bind(no_pointers);
    }
    read_array(code, data, failed);
    code.jump(got);
    code.bind(text);
    read_text(code, data, failed);
    code.bind(got);
    code.store(Size::Word, Reg::R9, length, Reg::R0);
    code.alu(Op::Add, Reg::R8, Reg::R0);
    code.jump(done);
    code.bind(failed);
    code.store(Size::Word, Reg::R9, length, wire::UNREAD);
    if mark {
        code.store(Size::Double, Reg::R7, 0, 1);
    }
    code.bind(done);
}

/// `R2` = bytes of an array, at most what is kept.
fn size_of_array(code: &mut Code, entry: i16) {
    let fits = code.label();
    code.load(Size::Byte, Reg::R1, Reg::R6, entry + 1);
    code.alu(Op::And, Reg::R1, 0x78);
    saved_word(code);
    code.load(Size::Half, Reg::R4, Reg::R6, entry + 2);
    code.mov(Reg::R2, Reg::R1);
    let countable = code.label();
    code.jump_if(If::Below, Reg::R2, ARRAY_MAX as i32, countable);
    code.mov(Reg::R2, ARRAY_MAX as i32);
    code.bind(countable);
    code.alu(Op::Multiply, Reg::R2, Reg::R4);
    code.jump_if(If::Below, Reg::R2, ARRAY_MAX as i32, fits);
    code.mov(Reg::R2, ARRAY_MAX as i32);
    code.bind(fits);
}

/// `R1` = where the next bytes go.
fn cursor(code: &mut Code, data: i16) {
    code.mov(Reg::R1, Reg::R9);
    code.alu(Op::Add, Reg::R1, i32::from(data));
    code.alu(Op::Add, Reg::R1, Reg::R8);
}

/// Reads `R2` bytes; `R0` = how many.
fn read_array(code: &mut Code, data: i16, failed: Label) {
    code.store(Size::Double, Reg::R10, KEPT - 8, Reg::R2);
    cursor(code, data);
    code.load(Size::Double, Reg::R3, Reg::R10, KEPT);
    code.call(Helper::ProbeReadUser);
    code.jump_if(If::Differ, Reg::R0, 0, failed);
    code.load(Size::Double, Reg::R0, Reg::R10, KEPT - 8);
}

/// Reads up to the first zero; `R0` = how many bytes.
fn read_text(code: &mut Code, data: i16, failed: Label) {
    cursor(code, data);
    code.mov(Reg::R2, TEXT_MAX as i32);
    code.load(Size::Double, Reg::R3, Reg::R10, KEPT);
    code.call(Helper::ProbeReadUserStr);
    code.jump_if(If::Less, Reg::R0, 1, failed);
    code.jump_if(If::Above, Reg::R0, TEXT_MAX as i32, failed);
}

/// Reads `R2` bytes of pointers, and the block behind each, if they are not too many; `R0` = how many bytes.
fn read_blocks(code: &mut Code, data: i16, failed: Label) {
    let whole = calls::BLOCK_BYTES as i32 + 8;
    let all = code.label();
    code.alu(Op::ShiftRight, Reg::R2, 3);
    code.jump_if(If::Above, Reg::R2, POINTERS_MAX, failed);
    code.store(Size::Double, Reg::R10, KEPT - 8, Reg::R2);
    for index in 0..POINTERS_MAX {
        code.load(Size::Double, Reg::R1, Reg::R10, KEPT - 8);
        code.jump_if(If::Below, Reg::R1, index + 1, all);
        cursor(code, data + (index * whole) as i16);
        code.mov(Reg::R2, 8);
        code.load(Size::Double, Reg::R3, Reg::R10, KEPT);
        code.alu(Op::Add, Reg::R3, index * 8);
        code.call(Helper::ProbeReadUser);
        code.jump_if(If::Differ, Reg::R0, 0, failed);
        cursor(code, data + (index * whole) as i16);
        code.load(Size::Double, Reg::R3, Reg::R1, 0);
        code.alu(Op::Add, Reg::R1, 8);
        code.mov(Reg::R2, calls::BLOCK_BYTES as i32);
        code.call(Helper::ProbeReadUser);
        code.jump_if(If::Differ, Reg::R0, 0, failed);
    }
    code.bind(all);
    code.load(Size::Double, Reg::R0, Reg::R10, KEPT - 8);
    code.jump_if(If::Above, Reg::R0, POINTERS_MAX, failed);
    code.alu(Op::Multiply, Reg::R0, whole);
}

/// Puts out the record in `R9`: `front` bytes and `R8` more.
fn put_out(code: &mut Code, front: i16) {
    code.mov(Reg::R3, Reg::R8);
    code.alu(Op::Add, Reg::R3, i32::from(front));
    code.mov(Reg::R2, Reg::R9);
    put_out_bytes(code);
}

/// Puts out `R3` bytes at `R2`, or counts that there was no room.
fn put_out_bytes(code: &mut Code) {
    let fits = code.label();
    code.map(Reg::R1, RING);
    code.mov(Reg::R4, NO_WAKEUP);
    code.call(Helper::RingOutput);
    code.jump_if(If::Equal, Reg::R0, 0, fits);
    count(code, 0);
    code.bind(fits);
}

fn ends(code: &mut Code, out: Label) {
    code.bind(out);
    code.mov(Reg::R0, 0);
    code.exit();
}

fn sys_enter() -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    enter_call(&mut code, out);
    unless_negative(&mut code, out);
    code.mov(Reg::R1, Kind::Enter as i32);
    header(&mut code, Reg::R1);
    for (index, place) in ARGUMENTS.iter().enumerate() {
        code.load(Size::Double, Reg::R1, Reg::R9, SCRATCH_SAVED + i16::from(*place));
        code.store(Size::Double, Reg::R9, wire::ARGS + index as i16 * 8, Reg::R1);
    }
    read_items(&mut code, wire::ENTER_LENGTHS, wire::ENTER_DATA, true);
    put_out(&mut code, wire::ENTER_DATA);
    ends(&mut code, out);
    code.finish("sys_enter", "raw_tp/sys_enter")
}

fn sys_exit() -> Program {
    let mut code = Code::new();
    let [out, failed, plain, ready, nothing] = [(); 5].map(|()| code.label());
    enter_if_traced(&mut code, out);
    enter_call(&mut code, out);
    unless_negative(&mut code, out);
    code.load(Size::Double, Reg::R2, Reg::R9, SCRATCH_RESULT);
    code.store(Size::Double, Reg::R9, wire::RESULT, Reg::R2);
    code.load(Size::Double, Reg::R1, Reg::R7, 0);
    code.jump_if(If::Equal, Reg::R1, 0, plain);
    code.store(Size::Double, Reg::R7, 0, 0);
    code.mov(Reg::R1, Kind::ExitLate as i32);
    header(&mut code, Reg::R1);
    code.jump(ready);
    code.bind(plain);
    code.mov(Reg::R1, Kind::Exit as i32);
    header(&mut code, Reg::R1);
    code.load(Size::Double, Reg::R2, Reg::R9, SCRATCH_RESULT);
    code.jump_if(If::Less, Reg::R2, 0, failed);
    code.alu(Op::Add, Reg::R6, SPEC_EXIT);
    code.bind(ready);
    read_items(&mut code, wire::EXIT_LENGTHS, wire::EXIT_DATA, false);
    code.jump(nothing);
    code.bind(failed);
    code.mov(Reg::R8, 0);
    for item in 0..ITEMS_MAX as i16 {
        code.store(Size::Word, Reg::R9, wire::EXIT_LENGTHS + item * 4, wire::NOTHING);
    }
    code.bind(nothing);
    put_out(&mut code, wire::EXIT_DATA);
    ends(&mut code, out);
    code.finish("sys_exit", "raw_tp/sys_exit")
}

/// Puts out a record of the stack: kind, a number (in `R6`) and a word (in `R7`).
fn put_out_small(code: &mut Code, kind: Kind) {
    code.store(Size::Double, Reg::R10, SMALL + wire::THREAD, Reg::R8);
    code.store(Size::Word, Reg::R10, SMALL + wire::KIND, kind as i32);
    code.store(Size::Word, Reg::R10, SMALL + wire::NUMBER, Reg::R6);
    code.store(Size::Double, Reg::R10, SMALL + wire::RESULT, Reg::R7);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R10, SMALL + wire::TIME, Reg::R0);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(SMALL));
    code.mov(Reg::R3, i32::from(wire::SMALL_BYTES));
    put_out_bytes(code);
}

/// `traced[*(frame + key)] = 0`.
fn now_traced(code: &mut Code, key: i16) {
    code.store(Size::Double, Reg::R10, KEPT, 0);
    code.map(Reg::R1, TRACED);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(key));
    code.mov(Reg::R3, Reg::R10);
    code.alu(Op::Add, Reg::R3, i32::from(KEPT));
    code.mov(Reg::R4, 0);
    code.call(Helper::MapUpdate);
}

fn no_longer_traced(code: &mut Code, key: i16) {
    code.map(Reg::R1, TRACED);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(key));
    code.call(Helper::MapDelete);
}

/// What a traced thread makes is traced. Runs in the thread that makes it, before the new one runs.
fn task_newtask(pid: i16, flags: i16) -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Word, Reg::R6, Reg::R9, pid);
    code.load(Size::Double, Reg::R7, Reg::R9, flags);
    code.store(Size::Word, Reg::R10, KEY_CALL, Reg::R6);
    now_traced(&mut code, KEY_CALL);
    put_out_small(&mut code, Kind::Fork);
    ends(&mut code, out);
    code.finish("task_newtask", "tp/task/task_newtask")
}

/// A thread that executes takes the number of its process: it was traced under its old one.
fn process_exec(pid: i16, old_pid: i16) -> Program {
    let mut code = Code::new();
    let out = code.label();
    code.mov(Reg::R9, Reg::R1);
    code.load(Size::Word, Reg::R6, Reg::R9, pid);
    code.load(Size::Word, Reg::R7, Reg::R9, old_pid);
    code.store(Size::Word, Reg::R10, KEY_CALL, Reg::R7);
    look_up(&mut code, TRACED, KEY_CALL, out);
    no_longer_traced(&mut code, KEY_CALL);
    code.store(Size::Word, Reg::R10, KEY_CALL, Reg::R6);
    now_traced(&mut code, KEY_CALL);
    code.call(Helper::CurrentPidTgid);
    code.mov(Reg::R8, Reg::R0);
    put_out_small(&mut code, Kind::Exec);
    ends(&mut code, out);
    code.finish("process_exec", "tp/sched/sched_process_exec")
}

fn process_exit() -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    no_longer_traced(&mut code, KEY_THREAD);
    code.mov(Reg::R6, 0);
    code.mov(Reg::R7, 0);
    put_out_small(&mut code, Kind::End);
    ends(&mut code, out);
    code.finish("process_exit", "tp/sched/sched_process_exit")
}
