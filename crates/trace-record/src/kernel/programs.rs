//! The programs themselves.
//!
//! A thread's value in the map of traced threads holds the call under way, in the layout of its record: the beginning
//! fills it, the end completes it and puts it out. So most calls are one record, and the end looks up nothing. What has
//! no room there is put together in a scratch area and put out at once, and the end follows alone.

use esker_bpf::asm::Label;
use esker_bpf::{BtfError, Code, Counters, Helper, If, Op, Program, Reg, Size, Types};

use super::reading::{Reading, STATE, read_item, read_items, saved_word};
use super::{
    CALLS, EXIT_MAX, FAULT_ADDRESS, FAULT_BEGUN, FAULT_IN_CALL, ITEM_EXIT, ITEM_MAX, LOST, RING, SCRATCH, SPEC_EXIT,
    SPEC_RECORDED, SPEC_UNLESS, TRACED,
};
use crate::calls::processes::FUTEX_OPERATION;
use crate::calls::{ARRAY_MAX, ITEMS_MAX, TEXT_MAX};
use crate::wire::{self, Kind};

/// Where the saved registers begin in `struct pt_regs`, and the code segment among them.
const SAVED_FROM: i32 = 56;
const SAVED_SEGMENT: i16 = 80;
/// The code segment of programs of 64 bits.
const SEGMENT_64: i32 = 0x33;

/// A thread's value and the scratch area begin with what is read at the call's end and the last fault; the record
/// follows.
pub(super) const RECORD: i16 = 32;

/// States of the call under way besides [`Kind::Call`] and [`Kind::Enter`], which are put out as they are: its
/// beginning was put out; so it was, and its texts are still to be read.
const SPLIT: i32 = 16;
const SPLIT_LATE: i32 = 17;

/// Below it lie results that only the kernel sees: the call begins again.
const FAILURES: i32 = -511;

// The stack of each program, below the frame.
const KEY_THREAD: i16 = -4;
const KEY_OTHER: i16 = -8;
const KEY_COUNTER: i16 = -12;
/// What was not recorded: see [`super::Lost`].
pub(super) const COUNTERS: Counters = Counters { map: LOST, key: KEY_COUNTER };
/// A record that is put together on the stack.
const SMALL: i16 = -80;
/// A record of a fault.
const FAULT: i16 = -80;

/// In the word that says whether the kernel had the last fault: the fault is a write of which no page was seen yet that
/// became dirty.
const FAULT_WRITES: i32 = 2;
/// Bits of the error code of a fault: the access is a write.
const ERROR_WRITE: i32 = 2;

/// The program and tracepoint that see pages become dirty; Linux 5.18.
pub(super) const DIRTY: &str = "writeback_dirty_folio";
/// Programs that see page faults, called as their tracepoints are.
pub(super) const FAULTS: [&str; 4] =
    ["page_fault_user", "page_fault_kernel", "mm_filemap_fault", "mm_filemap_map_pages"];

/// All of them, for this kernel's structures. They take the tracepoints' own arguments: those that take records instead
/// cost the kernel 80 ms each when they end.
pub(super) fn all(types: &Types) -> Result<[Program; 10], BtfError> {
    let pid = types.offset("task_struct", "pid")?;
    let [user, kernel, wanted, there] = FAULTS;
    Ok([
        sys_enter(),
        sys_exit(),
        task_newtask(pid),
        process_exec(),
        process_exit(),
        page_fault(user, "raw_tp/page_fault_user", false),
        page_fault(kernel, "raw_tp/page_fault_kernel", true),
        filemap(wanted, "raw_tp/mm_filemap_fault", [1, 1]),
        filemap(there, "raw_tp/mm_filemap_map_pages", [1, 2]),
        dirty(),
    ])
}

/// `R8` = process and thread; `R7` = the thread's value; `R9` = the context. Away if the thread is not traced.
pub(super) fn enter_if_traced(code: &mut Code, out: Label) {
    code.mov(Reg::R9, Reg::R1);
    code.call(Helper::CurrentPidTgid);
    code.mov(Reg::R8, Reg::R0);
    code.store(Size::Word, Reg::R10, KEY_THREAD, Reg::R8);
    code.look_up(TRACED, KEY_THREAD, out);
    code.mov(Reg::R7, Reg::R0);
}

/// `R9` = the scratch area; away if there is none.
pub(super) fn take_scratch(code: &mut Code, out: Label) {
    code.store(Size::Word, Reg::R10, KEY_OTHER, 0);
    code.look_up(SCRATCH, KEY_OTHER, out);
    code.mov(Reg::R9, Reg::R0);
}

/// Puts out `R8` and `front` bytes of the record in `R9`.
pub(super) fn put_out(code: &mut Code, front: i16) {
    code.mov(Reg::R3, Reg::R8);
    code.alu(Op::Add, Reg::R3, i32::from(front));
    code.mov(Reg::R2, Reg::R9);
    code.alu(Op::Add, Reg::R2, i32::from(RECORD));
    put_out_bytes(code);
}

/// Puts out `R3` bytes at `R2`, or counts that there was no room.
pub(super) fn put_out_bytes(code: &mut Code) {
    code.put_out(RING, COUNTERS);
}

fn sys_enter() -> Program {
    let mut code = Code::new();
    let [out, long] = [(); 2].map(|()| code.label());
    enter_if_traced(&mut code, out);
    code.store(Size::Word, Reg::R7, FAULT_IN_CALL, 0);
    begin_call(&mut code, out);
    code.store(Size::Double, Reg::R10, STATE, Kind::Call as i32);
    code.mov(Reg::R9, Reg::R7);
    let reading = Reading { max: (ITEM_MAX, ITEM_MAX), longer: Some(long), unread: Some(Kind::Enter as i32) };
    read_items(&mut code, wire::LENGTHS, wire::DATA, reading);
    code.store(Size::Double, Reg::R7, RECORD + wire::USED, Reg::R8);
    code.load(Size::Double, Reg::R1, Reg::R10, STATE);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, Reg::R1);
    code.jump(out);
    code.bind(long);
    begin_long(&mut code, out);
    code.end_at(out);
    code.finish("sys_enter", "raw_tp/sys_enter")
}

/// Fills the front of the thread's value; `R6` = what is read with the call. Away if it is not recorded.
fn begin_call(code: &mut Code, out: Label) {
    let native = code.label();
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, 0);
    code.load(Size::Double, Reg::R1, Reg::R9, 8);
    code.store(Size::Word, Reg::R10, KEY_OTHER, Reg::R1);
    code.store(Size::Word, Reg::R7, RECORD + wire::NUMBER, Reg::R1);
    code.look_up(CALLS, KEY_OTHER, out);
    code.mov(Reg::R6, Reg::R0);
    code.load(Size::Byte, Reg::R1, Reg::R6, SPEC_RECORDED);
    code.jump_if(If::Equal, Reg::R1, 0, out);
    code.load(Size::Double, Reg::R3, Reg::R9, 0);
    code.alu(Op::Add, Reg::R3, SAVED_FROM);
    code.mov(Reg::R1, Reg::R7);
    code.alu(Op::Add, Reg::R1, i32::from(RECORD + wire::SAVED));
    code.mov(Reg::R2, i32::from(wire::SAVED_BYTES));
    code.call(Helper::ProbeReadKernel);
    code.load(Size::Double, Reg::R1, Reg::R7, RECORD + wire::SAVED + SAVED_SEGMENT);
    code.jump_if(If::Equal, Reg::R1, SEGMENT_64, native);
    code.count(COUNTERS, 1);
    code.jump(out);
    code.bind(native);
    unless_negative(code, out);
    code.load(Size::Word, Reg::R1, Reg::R6, SPEC_EXIT);
    code.store(Size::Word, Reg::R7, ITEM_EXIT, Reg::R1);
    code.store(Size::Double, Reg::R7, RECORD + wire::ONE, 1);
    code.store(Size::Double, Reg::R7, RECORD + wire::THREAD, Reg::R8);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R7, RECORD + wire::TIME, Reg::R0);
}

/// Away if the argument that the call's entry names is negative.
fn unless_negative(code: &mut Code, out: Label) {
    let recorded = code.label();
    code.load(Size::Byte, Reg::R1, Reg::R6, SPEC_UNLESS);
    code.jump_if(If::Above, Reg::R1, i32::from(wire::SAVED_BYTES), recorded);
    saved_word(code);
    code.alu(Op::ShiftLeft, Reg::R1, 32);
    code.alu(Op::ShiftRight, Reg::R1, 63);
    code.jump_if(If::Differ, Reg::R1, 0, out);
    code.bind(recorded);
}

/// The beginning of a call with more than a thread's value has room for: put out at once.
fn begin_long(code: &mut Code, out: Label) {
    take_scratch(code, out);
    for at in (RECORD..RECORD + wire::LENGTHS).step_by(8) {
        code.load(Size::Double, Reg::R1, Reg::R7, at);
        code.store(Size::Double, Reg::R9, at, Reg::R1);
    }
    code.store(Size::Word, Reg::R9, RECORD + wire::KIND, Kind::Enter as i32);
    code.store(Size::Double, Reg::R10, STATE, SPLIT);
    let max = (TEXT_MAX as i32, ARRAY_MAX as i32);
    read_items(code, wire::LENGTHS, wire::DATA, Reading { max, longer: None, unread: Some(SPLIT_LATE) });
    code.store(Size::Double, Reg::R9, RECORD + wire::USED, Reg::R8);
    put_out(code, wire::DATA);
    code.load(Size::Double, Reg::R1, Reg::R10, STATE);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, Reg::R1);
}

fn sys_exit() -> Program {
    let mut code = Code::new();
    let [out, whole, late, alone, succeeded] = [(); 5].map(|()| code.label());
    enter_if_traced(&mut code, out);
    code.load(Size::Word, Reg::R6, Reg::R7, RECORD + wire::KIND);
    code.jump_if(If::Equal, Reg::R6, 0, out);
    code.load(Size::Double, Reg::R9, Reg::R9, 8);
    code.store(Size::Double, Reg::R7, RECORD + wire::RESULT, Reg::R9);
    unless_idle(&mut code, out);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R7, RECORD + wire::LEAVE, Reg::R0);
    code.mov(Reg::R1, 0);
    code.jump_if(If::Less, Reg::R1, Reg::R9, succeeded);
    code.jump_if(If::Equal, Reg::R9, 0, succeeded);
    // What a call gives is there only if it succeeded.
    code.store(Size::Word, Reg::R7, ITEM_EXIT, 0);
    code.bind(succeeded);
    code.jump_if(If::Equal, Reg::R6, Kind::Call as i32, whole);
    code.jump_if(If::Equal, Reg::R6, SPLIT, alone);
    code.jump_if(If::Equal, Reg::R6, SPLIT_LATE, late);
    put_value_out(&mut code, out);
    code.bind(late);
    end_late(&mut code, out);
    code.jump(out);
    code.bind(alone);
    code.store(Size::Double, Reg::R10, STATE, Kind::Exit as i32);
    code.mov(Reg::R6, Reg::R7);
    end_alone(&mut code, out);
    code.jump(out);
    code.bind(whole);
    end_whole(&mut code, out);
    code.end_at(out);
    code.finish("sys_exit", "raw_tp/sys_exit")
}

/// Away if the call is one at a futex that was not woken and woke nothing, which is most of what programs ask of locks
/// when several threads want them. One that begins again stays.
fn unless_idle(code: &mut Code, out: Label) {
    let [told, wait, idle] = [(); 3].map(|()| code.label());
    code.load(Size::Word, Reg::R1, Reg::R7, RECORD + wire::NUMBER);
    code.jump_if(If::Differ, Reg::R1, libc::SYS_futex as i32, told);
    code.load(Size::Double, Reg::R1, Reg::R7, RECORD + wire::SAVED + i16::from(wire::ARGUMENTS[1]));
    code.alu(Op::And, Reg::R1, FUTEX_OPERATION);
    code.jump_if(If::Equal, Reg::R1, libc::FUTEX_WAIT, wait);
    code.jump_if(If::Equal, Reg::R1, libc::FUTEX_WAIT_BITSET, wait);
    code.mov(Reg::R2, 0);
    code.jump_if(If::Less, Reg::R2, Reg::R9, told);
    code.jump(idle);
    code.bind(wait);
    code.jump_if(If::Equal, Reg::R9, 0, told);
    code.jump_if(If::Less, Reg::R9, FAILURES, told);
    code.bind(idle);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, 0);
    code.jump(out);
    code.bind(told);
}

/// Puts out the thread's value as it is.
fn put_value_out(code: &mut Code, out: Label) {
    code.mov(Reg::R9, Reg::R7);
    used(code, out);
    put_out(code, wire::DATA);
}

/// `R8` = bytes of items in the thread's value.
fn used(code: &mut Code, out: Label) {
    code.load(Size::Double, Reg::R8, Reg::R7, RECORD + wire::USED);
    code.jump_if(If::Above, Reg::R8, ITEMS_MAX as i32 * ITEM_MAX, out);
}

/// The end of a call whose beginning is in the thread's value: most calls.
fn end_whole(code: &mut Code, out: Label) {
    code.mov(Reg::R9, Reg::R7);
    code.mov(Reg::R6, Reg::R7);
    used(code, out);
    let reading = Reading { max: (ITEM_MAX, EXIT_MAX), longer: None, unread: None };
    read_item(code, ITEM_EXIT, wire::EXIT_LENGTH, wire::DATA, reading);
    put_out(code, wire::DATA);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, 0);
}

/// The end of a call whose texts could not be read at its beginning.
fn end_late(code: &mut Code, out: Label) {
    code.load(Size::Word, Reg::R1, Reg::R7, RECORD + wire::NUMBER);
    code.store(Size::Word, Reg::R10, KEY_OTHER, Reg::R1);
    code.look_up(CALLS, KEY_OTHER, out);
    code.mov(Reg::R6, Reg::R0);
    code.store(Size::Double, Reg::R10, STATE, Kind::ExitLate as i32);
    end_alone(code, out);
}

/// A record of an end alone, of the kind that the stack says, with the items whose entries `R6` points to.
fn end_alone(code: &mut Code, out: Label) {
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, 0);
    take_scratch(code, out);
    let copied = [
        (wire::LEAVE, wire::TIME),
        (wire::THREAD, wire::THREAD),
        (wire::NUMBER, wire::NUMBER),
        (wire::RESULT, wire::SMALL_RESULT),
    ];
    for (from, to) in copied {
        code.load(Size::Double, Reg::R1, Reg::R7, RECORD + from);
        code.store(Size::Double, Reg::R9, RECORD + to, Reg::R1);
    }
    code.load(Size::Double, Reg::R1, Reg::R10, STATE);
    code.store(Size::Word, Reg::R9, RECORD + wire::KIND, Reg::R1);
    let max = (TEXT_MAX as i32, ARRAY_MAX as i32);
    read_items(code, wire::SMALL_LENGTHS, wire::SMALL_DATA, Reading { max, longer: None, unread: None });
    put_out(code, wire::SMALL_DATA);
}

/// Puts out a record of the stack: kind, a number (in `R6`) and a word (in `R9`), of the thread in `R8`.
pub(super) fn put_out_small(code: &mut Code, kind: Kind) {
    code.store(Size::Double, Reg::R10, SMALL + wire::THREAD, Reg::R8);
    code.store(Size::Word, Reg::R10, SMALL + wire::KIND, kind as i32);
    code.store(Size::Word, Reg::R10, SMALL + wire::NUMBER, Reg::R6);
    code.store(Size::Double, Reg::R10, SMALL + wire::SMALL_RESULT, Reg::R9);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R10, SMALL + wire::TIME, Reg::R0);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(SMALL));
    code.mov(Reg::R3, i32::from(wire::SMALL_BYTES));
    put_out_bytes(code);
}

/// `traced[*(frame + KEY_OTHER)] =` what `R3` points to.
fn trace_other(code: &mut Code) {
    code.map(Reg::R1, TRACED);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(KEY_OTHER));
    code.mov(Reg::R4, 0);
    code.call(Helper::MapUpdate);
}

fn forget(code: &mut Code, key: i16) {
    code.map(Reg::R1, TRACED);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(key));
    code.call(Helper::MapDelete);
}

/// What a traced thread makes is traced. Runs in the thread that makes it, before the new one runs; its arguments are
/// the new task, whose number lies at `pid`, and flags. The new one begins with its maker's value, less the call under
/// way, which is not its own.
fn task_newtask(pid: i32) -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R3, Reg::R9, 0);
    code.alu(Op::Add, Reg::R3, pid);
    code.load(Size::Double, Reg::R9, Reg::R9, 8);
    code.mov(Reg::R1, Reg::R10);
    code.alu(Op::Add, Reg::R1, i32::from(KEY_OTHER));
    code.mov(Reg::R2, 4);
    code.call(Helper::ProbeReadKernel);
    code.load(Size::Word, Reg::R6, Reg::R10, KEY_OTHER);
    code.load(Size::Word, Reg::R1, Reg::R7, RECORD + wire::KIND);
    code.store(Size::Double, Reg::R10, STATE, Reg::R1);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, 0);
    code.mov(Reg::R3, Reg::R7);
    trace_other(&mut code);
    code.load(Size::Double, Reg::R1, Reg::R10, STATE);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, Reg::R1);
    put_out_small(&mut code, Kind::Fork);
    code.end_at(out);
    code.finish("task_newtask", "raw_tp/task_newtask")
}

/// A thread that executes takes the number of its process: it was traced under its old one, and is under its call. Runs
/// in that thread; its second argument is the old number.
fn process_exec() -> Program {
    let mut code = Code::new();
    let out = code.label();
    code.load(Size::Double, Reg::R9, Reg::R1, 8);
    code.call(Helper::CurrentPidTgid);
    code.mov(Reg::R8, Reg::R0);
    code.store(Size::Word, Reg::R10, KEY_OTHER, Reg::R0);
    code.load(Size::Word, Reg::R6, Reg::R10, KEY_OTHER);
    code.jump_if(If::Equal, Reg::R6, Reg::R9, out);
    code.store(Size::Word, Reg::R10, KEY_THREAD, Reg::R9);
    code.look_up(TRACED, KEY_THREAD, out);
    code.mov(Reg::R7, Reg::R0);
    code.store(Size::Word, Reg::R7, RECORD + wire::THREAD, Reg::R6);
    code.mov(Reg::R3, Reg::R7);
    trace_other(&mut code);
    forget(&mut code, KEY_THREAD);
    put_out_small(&mut code, Kind::Exec);
    code.end_at(out);
    code.finish("process_exec", "raw_tp/sched_process_exec")
}

/// A call under way will not return.
fn process_exit() -> Program {
    let mut code = Code::new();
    let [out, no_call] = [(); 2].map(|()| code.label());
    enter_if_traced(&mut code, out);
    code.mov(Reg::R6, Reg::R8);
    code.load(Size::Word, Reg::R1, Reg::R7, RECORD + wire::KIND);
    code.jump_if(If::Equal, Reg::R1, 0, no_call);
    code.jump_if(If::Above, Reg::R1, Kind::Enter as i32, no_call);
    code.store(Size::Word, Reg::R7, RECORD + wire::KIND, Kind::Enter as i32);
    put_value_out(&mut code, no_call);
    code.bind(no_call);
    forget(&mut code, KEY_THREAD);
    code.mov(Reg::R8, Reg::R6);
    code.mov(Reg::R6, 0);
    code.mov(Reg::R9, 0);
    put_out_small(&mut code, Kind::End);
    code.end_at(out);
    code.finish("process_exit", "raw_tp/sched_process_exit")
}

/// Notes the address of a fault, the first argument, and whether it is a write, from the third. Whether a file is
/// behind it is not known yet.
fn page_fault(name: &'static str, section: &'static str, in_call: bool) -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R1, Reg::R9, 0);
    code.store(Size::Double, Reg::R7, FAULT_ADDRESS, Reg::R1);
    code.store(Size::Double, Reg::R7, FAULT_BEGUN, 0);
    code.load(Size::Double, Reg::R2, Reg::R9, 16);
    code.alu(Op::And, Reg::R2, ERROR_WRITE);
    code.alu(Op::Or, Reg::R2, i32::from(in_call));
    code.store(Size::Word, Reg::R7, FAULT_IN_CALL, Reg::R2);
    code.end_at(out);
    code.finish(name, section)
}

/// Tells of pages of a file, whose first and last are these arguments, that they were wanted or found for the last
/// fault. A page that has to be read is told twice: when it is wanted, and when the thread goes on.
fn filemap(name: &'static str, section: &'static str, pages: [i16; 2]) -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R1, Reg::R7, FAULT_ADDRESS);
    code.jump_if(If::Equal, Reg::R1, 0, out);
    for (place, argument) in [0, 8].into_iter().zip(pages) {
        code.load(Size::Double, Reg::R1, Reg::R9, argument * 8);
        code.store(Size::Double, Reg::R10, FAULT + wire::FAULT_PAGES + place, Reg::R1);
    }
    code.load(Size::Word, Reg::R1, Reg::R7, FAULT_IN_CALL);
    code.alu(Op::And, Reg::R1, !FAULT_WRITES);
    put_out_fault(&mut code);
    code.end_at(out);
    code.finish(name, section)
}

/// Tells that a page became dirty by the last fault, if that is a write. Whose page it is follows from the address:
/// other things become dirty in a fault, too, so the first one is told. A call ends what a fault may mean.
fn dirty() -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Word, Reg::R1, Reg::R7, FAULT_IN_CALL);
    code.mov(Reg::R2, Reg::R1);
    code.alu(Op::And, Reg::R2, FAULT_WRITES);
    code.jump_if(If::Equal, Reg::R2, 0, out);
    code.mov(Reg::R2, Reg::R1);
    code.alu(Op::And, Reg::R2, !FAULT_WRITES);
    code.store(Size::Word, Reg::R7, FAULT_IN_CALL, Reg::R2);
    code.store(Size::Double, Reg::R10, FAULT + wire::FAULT_PAGES, 0);
    code.store(Size::Double, Reg::R10, FAULT + wire::FAULT_PAGES + 8, -1);
    put_out_fault(&mut code);
    code.end_at(out);
    code.finish(DIRTY, "raw_tp/writeback_dirty_folio")
}

/// Puts out the record of the last fault, of which pages are there; `R1` is what kind of fault it is.
fn put_out_fault(code: &mut Code) {
    let begun = code.label();
    code.store(Size::Word, Reg::R10, FAULT + wire::NUMBER, Reg::R1);
    code.load(Size::Double, Reg::R1, Reg::R7, FAULT_ADDRESS);
    code.store(Size::Double, Reg::R10, FAULT + wire::FAULT_ADDRESS, Reg::R1);
    code.store(Size::Double, Reg::R10, FAULT + wire::THREAD, Reg::R8);
    code.store(Size::Word, Reg::R10, FAULT + wire::KIND, Kind::Fault as i32);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R10, FAULT + wire::LEAVE, Reg::R0);
    code.load(Size::Double, Reg::R1, Reg::R7, FAULT_BEGUN);
    code.jump_if(If::Differ, Reg::R1, 0, begun);
    code.store(Size::Double, Reg::R7, FAULT_BEGUN, Reg::R0);
    code.mov(Reg::R1, Reg::R0);
    code.bind(begun);
    code.store(Size::Double, Reg::R10, FAULT + wire::TIME, Reg::R1);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(FAULT));
    code.mov(Reg::R3, i32::from(wire::FAULT_BYTES));
    put_out_bytes(code);
}
