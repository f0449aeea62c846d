//! The programs that see requests of an io_uring: taken from the ring, refused, ended.
//!
//! The tracepoint of a request has no argument for what the program wrote into the submission queue. That is read from
//! the queue itself, at the place that the kernel has just gone past. Texts and arrays that the entry points to are
//! read as the kernel has read them a moment before. The thread that reads them has the process' memory: it is its own,
//! or the one by which the kernel polls the ring. A request may end in any thread of the machine, so ends are known by
//! the rings of traced threads.

use esker_bpf::asm::Label;
use esker_bpf::{Code, Helper, If, Op, Program, Reg, Size, Types};

use super::RINGS;
use super::programs::RECORD;
use super::programs::{COUNTERS, enter_if_traced, put_out, put_out_bytes, put_out_small, take_scratch};
use crate::calls::requests::{self, ENTRY_BYTES};
use crate::calls::{ARRAY_MAX, TEXT_MAX};
use crate::wire::{self, Kind};

/// The program of each tracepoint, by its name, and how many arguments it has.
const TRACEPOINTS: [(&str, usize); 5] = [
    ("io_uring_submit_req", 1),
    ("io_uring_req_failed", 3),
    ("io_uring_complete", 3),
    ("io_uring_create", 5),
    ("io_uring_register", 5),
];

/// `IORING_SETUP_SQE128`: entries are twice as long.
const LONG_ENTRIES: i32 = 1 << 10;
/// `IORING_SETUP_NO_SQARRAY`: entries are taken in their order.
const NO_ARRAY: i32 = 1 << 16;
/// Opcodes are looked up in words of so many bits.
const OPCODES: i32 = 64;

// The stack, below the frame.
const KEY_RING: i16 = -88;
const WORD: i16 = -96;
const ARRAY: i16 = -104;
const QUEUE: i16 = -112;
const FLAGS: i16 = -120;
const COMPLETION: i16 = -168;

/// Where the running kernel keeps what the programs read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    ring: i32,
    opcode: i32,
    queue: i32,
    array: i32,
    head: i32,
    entries: i32,
    flags: i32,
    result: i32,
}

impl Places {
    /// Nothing if this kernel tells of requests otherwise, or not at all.
    pub(super) fn of(types: &Types) -> Option<Places> {
        let is_known = |(name, arguments): &(&str, usize)| types.tracepoint_arguments(name) == Some(*arguments);
        let of = |structure, member| types.offset(structure, member).ok();
        TRACEPOINTS.iter().all(is_known).then_some(())?;
        Some(Places {
            ring: of("io_kiocb", "ctx")?,
            opcode: of("io_kiocb", "opcode")?,
            queue: of("io_ring_ctx", "sq_sqes")?,
            array: of("io_ring_ctx", "sq_array")?,
            head: of("io_ring_ctx", "cached_sq_head")?,
            entries: of("io_ring_ctx", "sq_entries")?,
            flags: of("io_ring_ctx", "flags")?,
            result: of("io_uring_cqe", "res")?,
        })
    }
}

/// Names of the tracepoints, by which the programs are called too.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TRACEPOINTS.iter().map(|(name, _)| *name)
}

/// All of them.
pub(super) fn programs(places: Places) -> [Program; 5] {
    [
        submitted(places),
        refused(),
        completed(places),
        ring("io_uring_create", "raw_tp/io_uring_create", 1),
        ring("io_uring_register", "raw_tp/io_uring_register", 0),
    ]
}

/// A request, the only argument, was taken from its ring by this thread.
fn submitted(places: Places) -> Program {
    let mut code = Code::new();
    let [out, known] = [(); 2].map(|()| code.label());
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R6, Reg::R9, 0);
    code.fetch(KEY_RING, 8, Reg::R6, places.ring);
    code.load(Size::Double, Reg::R7, Reg::R10, KEY_RING);
    note_ring(&mut code, known);
    take_scratch(&mut code, out);
    code.store(Size::Double, Reg::R9, RECORD + wire::THREAD, Reg::R8);
    code.store(Size::Word, Reg::R9, RECORD + wire::KIND, Kind::Request as i32);
    code.store(Size::Double, Reg::R9, RECORD + wire::REQUEST, Reg::R6);
    code.store(Size::Double, Reg::R9, RECORD + wire::REQUEST_RING, Reg::R7);
    code.fetch(WORD, 1, Reg::R6, places.opcode);
    code.load(Size::Double, Reg::R6, Reg::R10, WORD);
    code.store(Size::Word, Reg::R9, RECORD + wire::NUMBER, Reg::R6);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R9, RECORD + wire::TIME, Reg::R0);
    read_entry(&mut code, places);
    read_memory(&mut code);
    put_out(&mut code, wire::REQUEST_DATA);
    code.end_at(out);
    code.finish("io_uring_submit_req", "raw_tp/io_uring_submit_req")
}

/// From now on ends of this ring's requests are told.
fn note_ring(code: &mut Code, known: Label) {
    let absent = code.label();
    code.look_up(RINGS, KEY_RING, absent);
    code.jump(known);
    code.bind(absent);
    code.store(Size::Double, Reg::R10, WORD, 1);
    code.map(Reg::R1, RINGS);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(KEY_RING));
    code.mov(Reg::R3, Reg::R10);
    code.alu(Op::Add, Reg::R3, i32::from(WORD));
    code.mov(Reg::R4, 0);
    code.call(Helper::MapUpdate);
    code.jump_if(If::Equal, Reg::R0, 0, known);
    code.count(COUNTERS, 0);
    code.bind(known);
}

/// The entry of the queue that the ring in `R7` has gone past. Zeroes if it cannot be read.
fn read_entry(code: &mut Code, places: Places) {
    let [in_order, short] = [(); 2].map(|()| code.label());
    code.fetch(WORD, 4, Reg::R7, places.head);
    code.load(Size::Double, Reg::R8, Reg::R10, WORD);
    code.alu(Op::Sub, Reg::R8, 1);
    code.fetch(WORD, 4, Reg::R7, places.entries);
    code.load(Size::Double, Reg::R1, Reg::R10, WORD);
    code.alu(Op::Sub, Reg::R1, 1);
    code.alu(Op::And, Reg::R8, Reg::R1);
    code.fetch(FLAGS, 4, Reg::R7, places.flags);
    code.fetch(ARRAY, 8, Reg::R7, places.array);
    code.fetch(QUEUE, 8, Reg::R7, places.queue);
    code.load(Size::Double, Reg::R1, Reg::R10, FLAGS);
    code.jump_if(If::AnyBit, Reg::R1, NO_ARRAY, in_order);
    code.load(Size::Double, Reg::R1, Reg::R10, ARRAY);
    code.jump_if(If::Equal, Reg::R1, 0, in_order);
    code.alu(Op::ShiftLeft, Reg::R8, 2);
    code.alu(Op::Add, Reg::R1, Reg::R8);
    code.fetch(WORD, 4, Reg::R1, 0);
    code.load(Size::Double, Reg::R8, Reg::R10, WORD);
    code.bind(in_order);
    code.alu(Op::ShiftLeft, Reg::R8, 6);
    code.load(Size::Double, Reg::R1, Reg::R10, FLAGS);
    code.alu(Op::And, Reg::R1, LONG_ENTRIES);
    code.jump_if(If::Equal, Reg::R1, 0, short);
    code.alu(Op::ShiftLeft, Reg::R8, 1);
    code.bind(short);
    code.load(Size::Double, Reg::R3, Reg::R10, QUEUE);
    code.alu(Op::Add, Reg::R3, Reg::R8);
    code.mov(Reg::R1, Reg::R9);
    code.alu(Op::Add, Reg::R1, i32::from(RECORD + wire::ENTRY));
    code.mov(Reg::R2, ENTRY_BYTES as i32);
    code.call(Helper::ProbeReadKernel);
}

/// Reads what the entry of the opcode in `R6` points to; `R8` = how many bytes.
fn read_memory(code: &mut Code) {
    let none = code.label();
    code.mov(Reg::R8, 0);
    for length in [wire::REQUEST_LENGTHS, wire::REQUEST_LENGTHS + 4] {
        code.store(Size::Word, Reg::R9, RECORD + length, wire::NOTHING);
    }
    code.jump_if(If::Above, Reg::R6, OPCODES - 1, none);
    let (first, second) = (wire::REQUEST_LENGTHS, wire::REQUEST_LENGTHS + 4);
    read_text(code, requests::TEXTS, requests::ADDRESS, first);
    read_array(code, requests::VECTORS, (requests::ADDRESS, first), Bytes::Entries(4));
    read_array(code, requests::DESCRIPTORS, (requests::ADDRESS, first), Bytes::Entries(2));
    read_text(code, requests::SECOND_TEXTS, requests::SECOND_ADDRESS, second);
    read_array(code, requests::WAYS, (requests::SECOND_ADDRESS, second), Bytes::Exactly(requests::WAY_BYTES));
    code.bind(none);
}

/// Away unless the opcode in `R6` is among `opcodes`.
fn unless_among(code: &mut Code, opcodes: u64, away: Label) {
    code.imm64(Reg::R1, opcodes);
    code.alu(Op::ShiftRight, Reg::R1, Reg::R6);
    code.alu(Op::And, Reg::R1, 1);
    code.jump_if(If::Equal, Reg::R1, 0, away);
}

/// `R1` = where the next bytes go, `R3` = the address in the entry, for what has this length in the record.
fn from_entry(code: &mut Code, address: i16, length: i16) {
    code.store(Size::Word, Reg::R9, RECORD + length, wire::UNREAD);
    code.load(Size::Double, Reg::R3, Reg::R9, RECORD + wire::ENTRY + address);
    code.mov(Reg::R1, Reg::R9);
    code.alu(Op::Add, Reg::R1, i32::from(RECORD + wire::REQUEST_DATA));
    code.alu(Op::Add, Reg::R1, Reg::R8);
}

fn read_text(code: &mut Code, opcodes: u64, address: i16, length: i16) {
    let done = code.label();
    unless_among(code, opcodes, done);
    from_entry(code, address, length);
    code.mov(Reg::R2, TEXT_MAX as i32);
    code.call(Helper::ProbeReadUserStr);
    code.jump_if(If::Less, Reg::R0, 1, done);
    code.jump_if(If::Above, Reg::R0, TEXT_MAX as i32, done);
    code.store(Size::Word, Reg::R9, RECORD + length, Reg::R0);
    code.alu(Op::Add, Reg::R8, Reg::R0);
    code.bind(done);
}

#[derive(Clone, Copy)]
enum Bytes {
    Exactly(i32),
    /// As many as the entry's length says, times two to this power.
    Entries(i32),
}

fn read_array(code: &mut Code, opcodes: u64, (address, length): (i16, i16), bytes: Bytes) {
    let done = code.label();
    unless_among(code, opcodes, done);
    from_entry(code, address, length);
    match bytes {
        Bytes::Exactly(bytes) => code.mov(Reg::R2, bytes),
        Bytes::Entries(power) => {
            code.load(Size::Word, Reg::R2, Reg::R9, RECORD + wire::ENTRY + requests::LEN);
            code.alu(Op::ShiftLeft, Reg::R2, power);
        }
    }
    code.jump_if(If::Above, Reg::R2, ARRAY_MAX as i32, done);
    code.store(Size::Double, Reg::R10, WORD, Reg::R2);
    code.call(Helper::ProbeReadUser);
    code.jump_if(If::Differ, Reg::R0, 0, done);
    code.load(Size::Double, Reg::R0, Reg::R10, WORD);
    code.jump_if(If::Above, Reg::R0, ARRAY_MAX as i32, done);
    code.store(Size::Word, Reg::R9, RECORD + length, Reg::R0);
    code.alu(Op::Add, Reg::R8, Reg::R0);
    code.bind(done);
}

/// A request, the second argument, does nothing: what the program asked for cannot be.
fn refused() -> Program {
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R9, Reg::R9, 8);
    code.mov(Reg::R6, 0);
    put_out_small(&mut code, Kind::Refused);
    code.end_at(out);
    code.finish("io_uring_req_failed", "raw_tp/io_uring_req_failed")
}

/// A request ended: the ring, the request, and what the program is told of its end.
fn completed(places: Places) -> Program {
    let mut code = Code::new();
    let out = code.label();
    code.mov(Reg::R9, Reg::R1);
    code.load(Size::Double, Reg::R1, Reg::R9, 0);
    code.store(Size::Double, Reg::R10, KEY_RING, Reg::R1);
    code.look_up(RINGS, KEY_RING, out);
    code.load(Size::Double, Reg::R6, Reg::R9, 8);
    code.load(Size::Double, Reg::R7, Reg::R9, 16);
    code.fetch(COMPLETION + wire::REQUEST_RESULT, 4, Reg::R7, places.result);
    code.store(Size::Double, Reg::R10, COMPLETION + wire::REQUEST, Reg::R6);
    code.store(Size::Word, Reg::R10, COMPLETION + wire::NUMBER, 0);
    code.store(Size::Word, Reg::R10, COMPLETION + wire::KIND, Kind::Completion as i32);
    code.call(Helper::CurrentPidTgid);
    code.store(Size::Double, Reg::R10, COMPLETION + wire::THREAD, Reg::R0);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R10, COMPLETION + wire::TIME, Reg::R0);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(COMPLETION));
    code.mov(Reg::R3, i32::from(wire::COMPLETION_BYTES));
    put_out_bytes(&mut code);
    code.end_at(out);
    code.finish("io_uring_complete", "raw_tp/io_uring_complete")
}

/// The thread makes or changes the ring that is this argument.
fn ring(name: &'static str, section: &'static str, argument: i16) -> Program {
    const { assert!(wire::REQUEST == wire::SMALL_RESULT) };
    let mut code = Code::new();
    let out = code.label();
    enter_if_traced(&mut code, out);
    code.load(Size::Double, Reg::R9, Reg::R9, argument * 8);
    code.mov(Reg::R6, 0);
    put_out_small(&mut code, Kind::Ring);
    code.end_at(out);
    code.finish(name, section)
}
