//! How the programs read memory of processes.

use esker_bpf::asm::Label;
use esker_bpf::{Code, Helper, If, Op, Reg, Size};

use super::programs::RECORD;
use super::{ITEM_MAX, Measure};
use crate::calls::{ARRAY_MAX, BLOCK_BYTES, ITEMS_MAX};
use crate::wire;

/// Requests of which the memory is read at one call.
const POINTERS_MAX: i32 = 32;
/// Lowest address of a process.
const LOWEST: i32 = 65536;

// The stack, below the frame: what is shared with the programs, and what is not.
const POINTER: i16 = -24;
const COUNT: i16 = -32;
/// What state the call under way will be in.
pub(super) const STATE: i16 = -40;
/// Memory of the process on its way to the thread's value, [`ITEM_MAX`] bytes.
const STAGE: i16 = -336;

/// How items are read.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Longest text and array.
    pub max: (i32, i32),
    /// Where to go if one is longer; without it, that is as if it could not be read.
    pub longer: Option<Label>,
    /// The state after an item that could not be read.
    pub unread: Option<i32>,
}

impl Reading {
    /// Whether what is read goes to the stack first: into the value of a thread.
    fn is_staged(self) -> bool {
        self.max.0 == ITEM_MAX
    }
}

/// `R1` = the word whose place among the saved registers is in `R1`.
pub(super) fn saved_word(code: &mut Code) {
    code.mov(Reg::R2, Reg::R7);
    code.alu(Op::Add, Reg::R2, Reg::R1);
    code.load(Size::Double, Reg::R1, Reg::R2, RECORD + wire::SAVED);
}

/// Reads the items whose entries `R6` points to into the record in `R9`; `R8` becomes how many bytes those are.
pub(super) fn read_items(code: &mut Code, lengths: i16, data: i16, reading: Reading) {
    code.mov(Reg::R8, 0);
    for item in 0..ITEMS_MAX as i16 {
        read_item(code, item * 4, lengths + item * 4, data, reading);
    }
}

/// Reads one item behind the `R8` bytes that are there.
pub(super) fn read_item(code: &mut Code, entry: i16, length: i16, data: i16, reading: Reading) {
    let [done, text, failed, got] = [(); 4].map(|()| code.label());
    code.store(Size::Word, Reg::R9, RECORD + length, wire::NOTHING);
    code.load(Size::Byte, Reg::R1, Reg::R6, entry);
    code.jump_if(If::Equal, Reg::R1, 0, done);
    code.mov(Reg::R3, Reg::R1);
    code.alu(Op::And, Reg::R1, 0x78);
    saved_word(code);
    // No memory lies there: the argument is nothing, or a number.
    code.jump_if(If::Below, Reg::R1, LOWEST, done);
    code.store(Size::Double, Reg::R10, POINTER, Reg::R1);
    code.alu(Op::And, Reg::R3, 7);
    code.jump_if(If::Equal, Reg::R3, Measure::Text as i32, text);
    size_of_array(code, entry, reading, failed);
    // Pointers are of a call's first item, and never fit into a thread's value.
    if entry == 0 && reading.max.1 == ARRAY_MAX as i32 {
        let no_pointers = code.label();
        code.jump_if(If::Differ, Reg::R3, Measure::Pointers as i32, no_pointers);
        read_blocks(code, data, failed);
        code.jump(got);
        code.bind(no_pointers);
    } else if let Some(longer) = reading.longer {
        code.jump_if(If::Equal, Reg::R3, Measure::Pointers as i32, longer);
    }
    read_array(code, data, reading, failed);
    code.jump(got);
    code.bind(text);
    read_text(code, data, reading, failed);
    code.bind(got);
    code.store(Size::Word, Reg::R9, RECORD + length, Reg::R0);
    code.alu(Op::Add, Reg::R8, Reg::R0);
    code.jump(done);
    code.bind(failed);
    code.store(Size::Word, Reg::R9, RECORD + length, wire::UNREAD);
    if let Some(state) = reading.unread {
        code.store(Size::Double, Reg::R10, STATE, state);
    }
    code.bind(done);
}

/// `R2` = bytes of an array. Away if they are more than can be read.
fn size_of_array(code: &mut Code, entry: i16, reading: Reading, failed: Label) {
    let too_long = reading.longer.unwrap_or(failed);
    code.load(Size::Byte, Reg::R1, Reg::R6, entry + 1);
    code.alu(Op::And, Reg::R1, 0x78);
    saved_word(code);
    code.load(Size::Half, Reg::R4, Reg::R6, entry + 2);
    code.mov(Reg::R2, Reg::R1);
    code.jump_if(If::Above, Reg::R2, reading.max.1, too_long);
    code.alu(Op::Multiply, Reg::R2, Reg::R4);
    code.jump_if(If::Above, Reg::R2, reading.max.1, too_long);
}

/// `R1` = where the next bytes go.
fn cursor(code: &mut Code, data: i16) {
    code.mov(Reg::R1, Reg::R9);
    code.alu(Op::Add, Reg::R1, i32::from(RECORD + data));
    code.alu(Op::Add, Reg::R1, Reg::R8);
}

/// Reads `R2` bytes; `R0` = how many.
fn read_array(code: &mut Code, data: i16, reading: Reading, failed: Label) {
    let [direct, read] = [(); 2].map(|()| code.label());
    code.store(Size::Double, Reg::R10, COUNT, Reg::R2);
    if reading.is_staged() {
        code.jump_if(If::Above, Reg::R2, ITEM_MAX, direct);
        stage(code, Helper::ProbeReadUser);
        code.jump_if(If::Differ, Reg::R0, 0, failed);
        take_staged(code, data);
        code.jump(read);
    }
    code.bind(direct);
    cursor(code, data);
    code.load(Size::Double, Reg::R3, Reg::R10, POINTER);
    code.call(Helper::ProbeReadUser);
    code.jump_if(If::Differ, Reg::R0, 0, failed);
    code.load(Size::Double, Reg::R0, Reg::R10, COUNT);
    code.bind(read);
}

/// Reads `R2` bytes, or a text of at most as many, to the stack. From there they are copied. The kernel checks whether
/// memory of a process may be copied to where it is to go, quickly for the stack, and for the memory of maps by a
/// search through all that it has allocated.
fn stage(code: &mut Code, helper: Helper) {
    code.mov(Reg::R1, Reg::R10);
    code.alu(Op::Add, Reg::R1, i32::from(STAGE));
    code.load(Size::Double, Reg::R3, Reg::R10, POINTER);
    code.call(helper);
}

/// Copies what was read to the stack to where it belongs; its length is on the stack too, and then in `R0`.
fn take_staged(code: &mut Code, data: i16) {
    cursor(code, data);
    code.load(Size::Double, Reg::R2, Reg::R10, COUNT);
    code.mov(Reg::R3, Reg::R10);
    code.alu(Op::Add, Reg::R3, i32::from(STAGE));
    code.call(Helper::ProbeReadKernel);
    code.load(Size::Double, Reg::R0, Reg::R10, COUNT);
}

/// Reads up to the first zero; `R0` = how many bytes.
fn read_text(code: &mut Code, data: i16, reading: Reading, failed: Label) {
    code.mov(Reg::R2, reading.max.0);
    if reading.is_staged() {
        stage(code, Helper::ProbeReadUserStr);
    } else {
        cursor(code, data);
        code.load(Size::Double, Reg::R3, Reg::R10, POINTER);
        code.call(Helper::ProbeReadUserStr);
    }
    code.jump_if(If::Less, Reg::R0, 1, failed);
    // A text that fills its room was cut, or nearly so.
    let most = if reading.longer.is_some() { reading.max.0 - 1 } else { reading.max.0 };
    code.jump_if(If::Above, Reg::R0, most, reading.longer.unwrap_or(failed));
    if reading.is_staged() {
        code.store(Size::Double, Reg::R10, COUNT, Reg::R0);
        take_staged(code, data);
    }
}

/// Reads `R2` bytes of pointers, and the block behind each, if they are not too many; `R0` = how many bytes.
fn read_blocks(code: &mut Code, data: i16, failed: Label) {
    let whole = i32::from(BLOCK_BYTES) + 8;
    let all = code.label();
    code.alu(Op::ShiftRight, Reg::R2, 3);
    code.jump_if(If::Above, Reg::R2, POINTERS_MAX, failed);
    code.store(Size::Double, Reg::R10, COUNT, Reg::R2);
    for index in 0..POINTERS_MAX {
        let place = data + (index * whole) as i16;
        code.load(Size::Double, Reg::R1, Reg::R10, COUNT);
        code.jump_if(If::Below, Reg::R1, index + 1, all);
        cursor(code, place);
        code.mov(Reg::R2, 8);
        code.load(Size::Double, Reg::R3, Reg::R10, POINTER);
        code.alu(Op::Add, Reg::R3, index * 8);
        code.call(Helper::ProbeReadUser);
        code.jump_if(If::Differ, Reg::R0, 0, failed);
        cursor(code, place);
        code.load(Size::Double, Reg::R3, Reg::R1, 0);
        code.alu(Op::Add, Reg::R1, 8);
        code.mov(Reg::R2, i32::from(BLOCK_BYTES));
        code.call(Helper::ProbeReadUser);
        code.jump_if(If::Differ, Reg::R0, 0, failed);
    }
    code.bind(all);
    code.load(Size::Double, Reg::R0, Reg::R10, COUNT);
    code.alu(Op::Multiply, Reg::R0, whole);
}
