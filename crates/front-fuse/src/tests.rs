//! A session with a kernel that is played by the test, over a socket that keeps messages apart.

#![allow(clippy::disallowed_methods, reason = "the kernel's side runs on a thread of its own")]

mod files;
#[allow(unreachable_pub, reason = "shared with the tests of mounts")]
#[path = "../tests/mounts/late.rs"]
mod late;

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::thread;

use esker_block::{Bio, Device, Done, Limits, Op, OpKind, Step, Support};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::{Backend, Reactor, RealConfig};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::exports::Exports;
use crate::mounted::transfer_limit;
use crate::proto::abi::*;
use crate::serve::{CacheMode, ServeConfig, Session};
use crate::volume::Volume;
use crate::wire::{Channel, SMALL};

const SIZE: u64 = 4 << 20;

/// The other end of a session.
struct Kernel {
    socket: OwnedFd,
    unique: u64,
}

impl Kernel {
    /// Sends a request, and returns the error number and the body of its answer.
    fn ask(&mut self, opcode: u32, node: u64, body: &[u8], payload: &[u8]) -> (i32, Vec<u8>) {
        let asked = self.tell(opcode, node, &[body, payload].concat());
        let (head, body) = self.next();
        assert_eq!(head.unique, asked);
        (head.error, body)
    }

    /// Sends a request and returns its number.
    fn tell(&mut self, opcode: u32, node: u64, body: &[u8]) -> u64 {
        self.unique += 1;
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let head = InHeader { len, opcode, unique: self.unique, node, pid: 42, ..InHeader::zero() };
        rustix::io::write(&self.socket, &[head.as_bytes(), body].concat()).unwrap();
        self.unique
    }

    /// The next answer or notice.
    fn next(&mut self) -> (OutHeader, Vec<u8>) {
        let mut answer = vec![0; SIZE as usize];
        let len = rustix::io::read(&self.socket, &mut answer).unwrap();
        answer.truncate(len);
        let (head, body) = OutHeader::read_from_prefix(&answer).unwrap();
        assert_eq!(head.len as usize, len);
        (head, body.to_vec())
    }

    /// Sends a request, and takes the answers that are there.
    fn tell_and_drop(&mut self, opcode: u32, node: u64, body: &[u8]) {
        self.tell(opcode, node, body);
        let mut answer = [0; 64];
        while rustix::net::recv(&self.socket, &mut answer, RecvFlags::DONTWAIT).is_ok() {}
    }

    /// Takes all answers: that to a last request is the last one.
    fn drain(&mut self) {
        let last = self.tell(99, ROOT, &[]);
        while self.next().0.unique != last {}
    }

    fn ask_for<T: FromBytes>(&mut self, opcode: u32, node: u64, body: &(impl IntoBytes + Immutable)) -> T {
        let (error, answer) = self.ask(opcode, node, body.as_bytes(), &[]);
        assert_eq!(error, 0, "opcode {opcode}");
        T::read_from_bytes(&answer).unwrap_or_else(|_| panic!("opcode {opcode}: {} bytes", answer.len()))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> (i32, Vec<u8>) {
        let body = WriteIn { offset, size: bytes.len() as u32, ..WriteIn::zero() };
        self.ask(opcode::WRITE, 2, body.as_bytes(), bytes)
    }

    fn read(&mut self, offset: u64, size: u32) -> (i32, Vec<u8>) {
        self.ask(opcode::READ, 2, ReadIn { offset, size, ..ReadIn::zero() }.as_bytes(), &[])
    }

    fn allocate(&mut self, offset: u64, length: u64, mode: u32) -> i32 {
        self.ask(opcode::FALLOCATE, 2, FallocateIn { offset, length, mode, ..FallocateIn::zero() }.as_bytes(), &[]).0
    }
}

/// Plays `scenario` against a session with one file of 4 MiB in blocks of 4 KiB, with both backends.
fn with_session(scenario: fn(&mut Kernel)) {
    with_device(scenario, |device| Rc::new(device));
}

/// The same over what `over` makes of the device.
fn with_device(scenario: fn(&mut Kernel), over: fn(MemoryDevice) -> Rc<dyn Device>) {
    play(scenario, async move |rt, fd| serve(rt, fd, over).await);
}

/// Plays `scenario` against what `serve` does with the other end, with both backends.
fn play(scenario: fn(&mut Kernel), serve: impl AsyncFn(Rt, OwnedFd) + Copy + 'static) {
    for backend in [Backend::Auto, Backend::Threads] {
        let kind = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, kind, None).unwrap();
        for end in [&ours, &theirs] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, 4 << 20).unwrap();
        }
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let play = thread::spawn(move || scenario(&mut Kernel { socket: theirs, unique: 0 }));
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move { serve(rt, ours).await });
        play.join().unwrap();
    }
}

async fn serve(rt: Rt, fd: OwnedFd, over: fn(MemoryDevice) -> Rc<dyn Device>) {
    let pool = Pool::default();
    let device = over(MemoryDevice::over(&rt, Media::new(SIZE), 4096, Defer::Never));
    let volume = Rc::new(Volume::new(&rt, &pool, "vol", device));
    let channel = Channel::new(&rt, fd).unwrap();
    let config = ServeConfig { cache: CacheMode::Devices, transfer_max: transfer_limit(None), issuer: 0, ring: None };
    let exports = Rc::new(Exports::new(&rt, vec![volume]));
    Rc::new(Session::new(&rt, &pool, channel, exports, config)).serve().await;
    assert_eq!(pool.bounced(), 0, "no payload was copied");
}

fn greet(kernel: &mut Kernel, minor: u32) -> (i32, Vec<u8>) {
    let hello = InitIn { major: 7, minor, flags: u32::MAX, max_readahead: 1 << 17 };
    // Newer kernels say more than we read.
    kernel.ask(opcode::INIT, 0, &[hello.as_bytes(), &[0; 48]].concat(), &[])
}

#[test]
fn the_kernel_is_greeted_and_finds_the_file() {
    with_session(|kernel| {
        let (error, answer) = greet(kernel, 45);
        let told = InitOut::read_from_bytes(&answer).unwrap();
        assert_eq!((error, told.max_write, told.max_pages), (0, 1 << 20, 256));
        assert_eq!(u64::from(told.flags) & init::ASYNC_DIO, init::ASYNC_DIO);
        let (error, answer) = kernel.ask(opcode::LOOKUP, ROOT, b"vol\0", &[]);
        let found = EntryOut::read_from_bytes(&answer).unwrap();
        assert_eq!((error, found.node, found.attr.size), (0, 2, SIZE));
        assert_eq!(kernel.ask(opcode::LOOKUP, ROOT, b"other\0", &[]).0, -2);
        let open: OpenOut = kernel.ask_for(opcode::OPEN, 2, &OpenIn { flags: 2, open_flags: 0 });
        assert_eq!(open.open_flags & FOPEN_DIRECT_IO, FOPEN_DIRECT_IO);
        let statfs: Statfs = kernel.ask_for(opcode::STATFS, ROOT, &[0u8; 0]);
        assert_eq!((statfs.bsize, statfs.blocks), (4096, SIZE / 4096));
        assert_eq!(kernel.ask(99, ROOT, &[], &[]).0, -38, "what is not known is refused");
    });
}

#[test]
fn an_old_kernel_is_told_what_is_needed() {
    with_session(|kernel| assert_eq!(greet(kernel, 20).0, -71));
}

#[test]
fn payloads_of_all_sizes_arrive_and_come_back() {
    with_session(|kernel| {
        let sizes = [4096, SMALL, SMALL + 4096, 1 << 20, 4096];
        for (n, size) in sizes.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..size).map(|i| (i / 512 * 7 + n) as u8 ^ i as u8).collect();
            let (error, answer) = kernel.write(8192, &bytes);
            assert_eq!((error, WriteOut::read_from_bytes(&answer).unwrap().size as usize), (0, size));
            assert_eq!(kernel.read(8192, size as u32), (0, bytes), "{size} bytes");
        }
        assert_eq!(kernel.ask(opcode::FSYNC, 2, &[0; 16], &[]).0, 0);
    });
}

#[test]
fn reads_need_no_whole_blocks_but_writes_do_and_both_end_with_the_file() {
    with_session(|kernel| {
        let bytes: Vec<u8> = (0..8192).map(|i| (i % 251) as u8).collect();
        kernel.write(SIZE - 8192, &bytes);
        assert_eq!(kernel.read(SIZE - 5000, 100), (0, bytes[3192..3292].to_vec()));
        assert_eq!(kernel.read(SIZE - 10, 100), (0, bytes[8182..].to_vec()));
        assert_eq!(kernel.read(SIZE, 100), (0, Vec::new()));
        assert_eq!(kernel.read(u64::MAX - 50, 100), (0, Vec::new()));
        assert_eq!(kernel.write(512, &[1; 512]).0, -22);
        assert_eq!(kernel.write(SIZE, &[1; 4096]).0, -22);
    });
}

#[test]
fn holes_and_zeroes_read_as_zeroes_and_what_cannot_be_done_is_said() {
    with_session(|kernel| {
        kernel.write(0, &[7; 16384]);
        assert_eq!(kernel.allocate(4096, 4096, PUNCH_HOLE | KEEP_SIZE), 0);
        assert_eq!(kernel.allocate(12288, 4096, ZERO_RANGE), 0);
        let bytes = kernel.read(0, 16384).1;
        let firsts: Vec<u8> = bytes.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(firsts, [7, 0, 7, 0]);
        assert_eq!(kernel.allocate(0, 4096, 0), -95, "space cannot be reserved");
        assert_eq!(kernel.allocate(SIZE, 4096, PUNCH_HOLE | KEEP_SIZE), -22);
        let copy = CopyIn { node_out: 2, offset_out: 4096, length: 4096, ..CopyIn::zero() };
        assert_eq!(kernel.ask(opcode::COPY_FILE_RANGE, 2, copy.as_bytes(), &[]).0, -95, "memory clones no ranges");
    });
}

/// A device that claims to clone, in units of two blocks.
struct Cloner {
    inner: MemoryDevice,
    limits: Limits,
}

impl Device for Cloner {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        match bio.op {
            Op::Ranges(_) => Step::Now(bio.ok()),
            _ => self.inner.submit(bio),
        }
    }
}

#[test]
fn ranges_that_the_device_cannot_clone_are_left_to_the_kernel() {
    let cloner = |inner: MemoryDevice| -> Rc<dyn Device> {
        let limits =
            Limits { remap: 8192, ranges_max: 1, ..inner.limits().clone() }.with(OpKind::Clone, Support::Native);
        Rc::new(Cloner { inner, limits })
    };
    let scenario = |kernel: &mut Kernel| {
        let mut ask = |from, to, length| {
            let copy = CopyIn { node_out: 2, offset_in: from, offset_out: to, length, ..CopyIn::zero() };
            kernel.ask(opcode::COPY_FILE_RANGE, 2, copy.as_bytes(), &[]).0
        };
        assert_eq!(ask(0, 16384, 8192), 0);
        for (from, to, length) in [(4096, 16384, 8192), (0, 20480, 8192), (0, 16384, 4096)] {
            assert_eq!(ask(from, to, length), -95, "{from} to {to}, {length} bytes: the kernel copies them");
        }
    };
    with_device(scenario, cloner);
}
