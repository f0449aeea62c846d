//! Reads of the kernel's own memory, a page or a word at a time. A program on a socket of this process runs within the
//! call that sends it an address. It reads there (`bpf_probe_read_kernel`, which fails where nothing is mapped instead
//! of faulting), and leaves the result in a map.
//!
//! What is read may change at the same time and may be freed memory: a caller must check it against
//! something else. It takes root, and a kernel that is not locked down to confidentiality.

#![allow(clippy::disallowed_types, reason = "its socket leads nowhere: what is sent runs the program and is dropped")]

use std::os::unix::net::UnixDatagram;

use crate::asm::{Code, Helper, If, Op, Reg, Size};
use crate::load::{ArrayMap, BpfError, Loaded};
use crate::object::{Map, MapKind, Program};

const FOUND: &str = "found";
/// Words of a page.
pub const WORDS: usize = 512;
const PAGE: u64 = WORDS as u64 * 8;

/// The program, and how it is asked.
pub struct Peek {
    _loaded: Loaded,
    asker: UnixDatagram,
    _asked: UnixDatagram,
    found: ArrayMap<[u64; WORDS]>,
}

impl std::fmt::Debug for Peek {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peek").finish_non_exhaustive()
    }
}

impl Peek {
    /// Gives the program to the kernel.
    ///
    /// # Errors
    /// [`BpfError`].
    pub fn start() -> Result<Peek, BpfError> {
        let map = Map { name: FOUND, kind: MapKind::Array, key: 4, value: PAGE as u32, entries: 1 };
        let mut loaded = Loaded::new(&[program()], &[map])?;
        let found = loaded.array(FOUND)?;
        let (asker, asked) = UnixDatagram::pair()
            .map_err(|error| BpfError::Refused { what: "socket".into(), why: error.to_string() })?;
        loaded.attach_socket("peek", &asked)?;
        Ok(Peek { _loaded: loaded, asker, _asked: asked, found })
    }

    /// The task of the calling thread: an address.
    pub fn own_task(&mut self) -> u64 {
        self.read(0).map_or(0, |found| found[0])
    }

    /// The word at an address; 0 where there is nothing.
    pub fn word(&mut self, address: u64) -> u64 {
        // What lies at the beginning of a page is read with all of it.
        self.read(address).map_or(0, |found| found[0])
    }

    /// The words of a page, zeroes if there is none. Nothing for what is no address of a page.
    pub fn page(&mut self, address: u64) -> Option<[u64; WORDS]> {
        (address != 0 && address.is_multiple_of(PAGE)).then(|| self.read(address))?
    }

    fn read(&mut self, address: u64) -> Option<[u64; WORDS]> {
        self.asker.send(&address.to_le_bytes()).ok()?;
        self.found.get(0)
    }
}

// The stack, below the frame.
const ADDRESS: i16 = -8;
const INDEX: i16 = -16;

fn program() -> Program {
    let mut code = Code::new();
    let (out, word, read) = (code.label(), code.label(), code.label());
    let elsewhere = code.label();
    code.store(Size::Double, Reg::R10, ADDRESS, 0);
    code.mov(Reg::R2, 0);
    code.mov(Reg::R3, Reg::R10);
    code.alu(Op::Add, Reg::R3, i32::from(ADDRESS));
    code.mov(Reg::R4, 8);
    code.call(Helper::SkbLoadBytes);
    code.store(Size::Word, Reg::R10, INDEX, 0);
    code.map(Reg::R1, FOUND);
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, i32::from(INDEX));
    code.call(Helper::MapLookup);
    code.jump_if(If::Equal, Reg::R0, 0, out);
    code.mov(Reg::R7, Reg::R0);
    code.load(Size::Double, Reg::R3, Reg::R10, ADDRESS);
    code.jump_if(If::Differ, Reg::R3, 0, elsewhere);
    code.call(Helper::CurrentTask);
    code.store(Size::Double, Reg::R7, 0, Reg::R0);
    code.jump(out);
    code.bind(elsewhere);
    code.mov(Reg::R1, Reg::R3);
    code.alu(Op::And, Reg::R1, PAGE as i32 - 1);
    code.jump_if(If::Differ, Reg::R1, 0, word);
    code.mov(Reg::R2, PAGE as i32);
    code.jump(read);
    code.bind(word);
    code.mov(Reg::R2, 8);
    code.bind(read);
    code.mov(Reg::R1, Reg::R7);
    code.call(Helper::ProbeReadKernel);
    code.bind(out);
    // The message goes no further.
    code.mov(Reg::R0, 0);
    code.exit();
    code.finish("peek", "socket")
}
