//! An assembler for the kernel's virtual machine: instructions in the order of the calls, labels, and maps by name.
//!
//! Source of encodings: `Documentation/bpf/standardization/instruction-set.rst` of Linux. Immediates are 32 bits wide
//! and sign-extended, as the machine does it; [`Code::imm64`] is the one instruction with more.

use crate::object::Program;

/// A register. `R0` holds results, `R1` to `R5` arguments and are lost in calls, `R6` to `R9` are kept, `R10` is the
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes a load or store moves.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// One.
    Byte = 0x10,
    /// Two.
    Half = 0x08,
    /// Four.
    Word = 0x00,
    /// Eight.
    Double = 0x18,
}

/// What is done to a register, in 64 bits.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Add = 0x00,
    Sub = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// When a jump is taken; comparisons are unsigned unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub enum If {
    /// Both are equal.
    Equal = 0x10,
    /// The register is greater.
    Above = 0x20,
    /// A bit is set in both.
    AnyBit = 0x40,
    /// They differ.
    Differ = 0x50,
    /// The register is smaller.
    Below = 0xa0,
    /// The register is smaller, both as signed numbers.
    Less = 0xc0,
}

/// Functions of the kernel, with their numbers in `enum bpf_func_id`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    CurrentPidTgid = 14,
    SkbLoadBytes = 26,
    CurrentTask = 35,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    RingOutput = 130,
}

/// The second operand: a register or an immediate.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A register's value.
    Reg(Reg),
    /// A number, sign-extended.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand::Imm(imm)
    }
}

/// A place to jump to; bound once, by the code that made it.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

const CLASS_LOAD_IMM: u8 = 0x18;
const CLASS_LOAD: u8 = 0x61;
const CLASS_STORE_IMM: u8 = 0x62;
const CLASS_STORE: u8 = 0x63;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU: u8 = 0x07;
const ATOMIC: u8 = 0xc3;
const FROM_REGISTER: u8 = 0x08;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The atomic operation gives back what was there.
const FETCH: i32 = 1;

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Code {
    bytes: Vec<u8>,
    /// Index of the instruction that each label stands before.
    labels: Vec<Option<usize>>,
    /// Jumps whose distance is still to be written.
    jumps: Vec<(usize, Label)>,
    /// Instructions that name a map.
    maps: Vec<(usize, &'static str)>,
}

impl Code {
    /// Nothing yet.
    pub fn new() -> Code {
        Code::default()
    }

    /// `dst op= operand`.
    pub fn alu(&mut self, op: Op, dst: Reg, operand: impl Into<Operand>) {
        let (from, src, imm) = split(operand.into());
        self.emit(CLASS_ALU | op as u8 | from, dst, src, 0, imm);
    }

    /// `dst = operand`.
    pub fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu(Op::Move, dst, operand);
    }

    /// `dst = value`, all 64 bits.
    pub fn imm64(&mut self, dst: Reg, value: u64) {
        self.emit(CLASS_LOAD_IMM, dst, Reg::R0, 0, value as u32 as i32);
        self.emit(0, Reg::R0, Reg::R0, 0, (value >> 32) as i32);
    }

    /// `dst = ` the map of this name.
    pub fn map(&mut self, dst: Reg, name: &'static str) {
        self.maps.push((self.here(), name));
        self.imm64(dst, 0);
    }

    /// `dst = *(base + offset)`, filled with zeros above.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        self.emit(CLASS_LOAD | size as u8, dst, base, offset, 0);
    }

    /// `*(base + offset) = operand`.
    pub fn store(&mut self, size: Size, base: Reg, offset: i16, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Reg(src) => self.emit(CLASS_STORE | size as u8, base, src, offset, 0),
            Operand::Imm(imm) => self.emit(CLASS_STORE_IMM | size as u8, base, Reg::R0, offset, imm),
        }
    }

    /// `*(u64 *)(base + offset) += value`, at once for all CPUs.
    pub fn atomic_add(&mut self, base: Reg, offset: i16, value: Reg) {
        self.emit(ATOMIC | Size::Double as u8, base, value, offset, Op::Add as i32);
    }

    /// `*(u64 *)(base + offset) op= value` at once for all CPUs; `value` becomes what was there before.
    pub fn atomic_fetch(&mut self, op: Op, base: Reg, offset: i16, value: Reg) {
        self.emit(ATOMIC | Size::Double as u8, base, value, offset, op as i32 | FETCH);
    }

    /// Calls the kernel: arguments in `R1` to `R5`, the result in `R0`.
    pub fn call(&mut self, helper: Helper) {
        self.emit(CALL, Reg::R0, Reg::R0, 0, helper as i32);
    }

    /// Ends the program with what `R0` holds.
    pub fn exit(&mut self) {
        self.emit(EXIT, Reg::R0, Reg::R0, 0, 0);
    }

    /// A label that is bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label stands here.
    pub fn bind(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "a label stands in one place");
        self.labels[label.0] = Some(self.here());
    }

    /// Jumps there.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.here(), to));
        self.emit(CLASS_JUMP, Reg::R0, Reg::R0, 0, 0);
    }

    /// Jumps there if `reg` compares so with the operand, in 64 bits.
    pub fn jump_if(&mut self, when: If, reg: Reg, operand: impl Into<Operand>, to: Label) {
        let (from, src, imm) = split(operand.into());
        self.jumps.push((self.here(), to));
        self.emit(CLASS_JUMP | when as u8 | from, reg, src, 0, imm);
    }

    /// The program, with all distances known.
    ///
    /// # Panics
    /// If a label is bound nowhere, or a jump is longer than 32,767 instructions: mistakes of the code's author.
    pub fn finish(mut self, name: &'static str, section: &'static str) -> Program {
        for (at, label) in &self.jumps {
            let target = self.labels[label.0].expect("every label is bound");
            let distance = i16::try_from(target as isize - *at as isize - 1).expect("jumps are short");
            self.bytes[at * 8 + 2..at * 8 + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let maps = self.maps.iter().map(|(at, map)| (*at as u64 * 8, *map)).collect();
        Program { name, section, bytes: self.bytes, maps }
    }

    fn here(&self) -> usize {
        self.bytes.len() / 8
    }

    fn emit(&mut self, opcode: u8, dst: Reg, src: Reg, offset: i16, imm: i32) {
        self.bytes.extend([opcode, dst as u8 | (src as u8) << 4]);
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend(imm.to_le_bytes());
    }
}

fn split(operand: Operand) -> (u8, Reg, i32) {
    match operand {
        Operand::Reg(reg) => (FROM_REGISTER, reg, 0),
        Operand::Imm(imm) => (0, Reg::R0, imm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_bytes(write: impl FnOnce(&mut Code), expected: &[[u8; 8]]) {
        let mut code = Code::new();
        write(&mut code);
        assert_eq!(code.finish("p", "s").bytes, expected.concat());
    }

    #[test]
    fn instructions_are_encoded_as_the_kernel_documents_them() {
        check_bytes(|c| c.mov(Reg::R6, Reg::R1), &[[0xbf, 0x16, 0, 0, 0, 0, 0, 0]]);
        check_bytes(|c| c.mov(Reg::R0, -1), &[[0xb7, 0, 0, 0, 255, 255, 255, 255]]);
        check_bytes(|c| c.load(Size::Double, Reg::R7, Reg::R6, 8), &[[0x79, 0x67, 8, 0, 0, 0, 0, 0]]);
        check_bytes(|c| c.store(Size::Word, Reg::R10, -4, Reg::R0), &[[0x63, 0x0a, 0xfc, 0xff, 0, 0, 0, 0]]);
        check_bytes(|c| c.store(Size::Double, Reg::R10, -8, 5), &[[0x7a, 0x0a, 0xf8, 0xff, 5, 0, 0, 0]]);
        check_bytes(|c| c.call(Helper::KtimeGetNs), &[[0x85, 0, 0, 0, 5, 0, 0, 0]]);
        check_bytes(|c| c.atomic_add(Reg::R1, 0, Reg::R2), &[[0xdb, 0x21, 0, 0, 0, 0, 0, 0]]);
        check_bytes(|c| c.atomic_fetch(Op::Or, Reg::R1, 8, Reg::R2), &[[0xdb, 0x21, 8, 0, 0x41, 0, 0, 0]]);
        check_bytes(Code::exit, &[[0x95, 0, 0, 0, 0, 0, 0, 0]]);
        check_bytes(|c| c.imm64(Reg::R3, 0x1_0000_0002), &[[0x18, 3, 0, 0, 2, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0]]);
    }

    #[test]
    fn jumps_count_from_the_next_instruction() {
        let forward = |c: &mut Code| {
            let end = c.label();
            c.jump_if(If::Equal, Reg::R0, 0, end);
            c.mov(Reg::R0, 1);
            c.bind(end);
            c.exit();
        };
        check_bytes(forward, &[[0x15, 0, 1, 0, 0, 0, 0, 0], [0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
        let back = |c: &mut Code| {
            let again = c.label();
            c.bind(again);
            c.jump(again);
        };
        check_bytes(back, &[[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]]);
    }

    #[test]
    fn maps_are_known_by_the_place_that_names_them() {
        let mut code = Code::new();
        code.mov(Reg::R0, 0);
        code.map(Reg::R1, "seen");
        assert_eq!(code.finish("p", "s").maps, [(8, "seen")]);
    }

    #[test]
    #[should_panic(expected = "every label is bound")]
    fn a_label_without_a_place_is_a_mistake() {
        let mut code = Code::new();
        let nowhere = code.label();
        code.jump(nowhere);
        code.finish("p", "s");
    }
}
