//! Sequences of instructions that most programs need: a look-up, a read of the kernel's memory, a record for a ring.
//! Each uses `R0` to `R5`, and no other register.

use crate::asm::{Code, Helper, If, Label, Op, Reg, Size};

/// `BPF_RB_NO_WAKEUP`: the reader looks by itself; waking it would cost more than the record.
const NO_WAKEUP: i32 = 1;

/// Where a program counts: an array of numbers of 64 bits, and a word of its stack for the index.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// The map.
    pub map: &'static str,
    /// The word, below the frame.
    pub key: i16,
}

impl Code {
    /// `R0 = map[*(frame + key)]`, or away if there is nothing.
    pub fn look_up(&mut self, map: &'static str, key: i16, otherwise: Label) {
        self.map(Reg::R1, map);
        self.mov(Reg::R2, Reg::R10);
        self.alu(Op::Add, Reg::R2, i32::from(key));
        self.call(Helper::MapLookup);
        self.jump_if(If::Equal, Reg::R0, 0, otherwise);
    }

    /// `*(frame + to) =` at most eight bytes of the kernel at `base + offset`. What cannot be read is 0, and so is what
    /// follows up to the eighth byte.
    pub fn fetch(&mut self, to: i16, bytes: i32, base: Reg, offset: i32) {
        self.store(Size::Double, Reg::R10, to, 0);
        self.fetch_many(to, bytes, base, offset);
    }

    /// `*(frame + to) =` so many bytes of the kernel at `base + offset`; zeroes if they cannot be read.
    pub fn fetch_many(&mut self, to: i16, bytes: i32, base: Reg, offset: i32) {
        self.mov(Reg::R3, base);
        self.alu(Op::Add, Reg::R3, offset);
        self.mov(Reg::R1, Reg::R10);
        self.alu(Op::Add, Reg::R1, i32::from(to));
        self.mov(Reg::R2, bytes);
        self.call(Helper::ProbeReadKernel);
    }

    /// Counts one more, if the counter is there.
    pub fn count(&mut self, counters: Counters, index: i32) {
        let out = self.label();
        self.store(Size::Word, Reg::R10, counters.key, index);
        self.look_up(counters.map, counters.key, out);
        self.mov(Reg::R1, 1);
        self.atomic_add(Reg::R0, 0, Reg::R1);
        self.bind(out);
    }

    /// Puts `R3` bytes at `R2` into a ring, without waking its reader. Without room, the first of `lost` counts.
    pub fn put_out(&mut self, ring: &'static str, lost: Counters) {
        let fits = self.label();
        self.map(Reg::R1, ring);
        self.mov(Reg::R4, NO_WAKEUP);
        self.call(Helper::RingOutput);
        self.jump_if(If::Equal, Reg::R0, 0, fits);
        self.count(lost, 0);
        self.bind(fits);
    }

    /// The program ends at this label, with 0.
    pub fn end_at(&mut self, out: Label) {
        self.bind(out);
        self.mov(Reg::R0, 0);
        self.exit();
    }
}
