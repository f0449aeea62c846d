//! The hand of `esker hugepage run` inside a program: `LD_PRELOAD=libesker_hugepage_preload.so PROGRAM`.
//!
//! Only a process itself may say which of its memory the kernel may merge with equal pages. A thread of this
//! library connects to the manager's socket, is told ranges, calls madvise(2) with `MADV_MERGEABLE` or
//! `MADV_UNMERGEABLE` and answers. It can do nothing else.
//!
//! Invariant: the program runs as without it, whatever the manager does. The thread takes no signal, allocates nothing,
//! and has a table of descriptors of its own. The program can neither close its socket, nor find or inherit it. The
//! thread holds none of the program's descriptors open. A child of fork(2) has no such thread; a program that it
//! executes gets a new one. If the manager is absent, or goes, the thread retries with back-off. Marked memory stays
//! marked: making pages private again takes memory, which must not be missing all at once because a manager has died.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{offset_of, zeroed};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Path of the socket, if it is another one; empty for none.
const VARIABLE: &CStr = c"ESKER_HUGEPAGE_SHARE";
const SOCKET: &CStr = c"/run/esker/hugepage-share.sock";
/// What is sent first: the speaker, and the form of the words.
const HELLO: u64 = u64::from_ne_bytes(*b"eskerhp1");
/// Seconds between two attempts to connect, at first and at most.
const WAIT: (u32, u32) = (1, 64);
/// The kernel's smallest and what the program's own thread-local variables may take of it.
const STACK_BYTES: usize = 256 << 10;

static ADDRESS: OnceLock<libc::sockaddr_un> = OnceLock::new();

/// Runs before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    if let Some(address) = address()
        && ADDRESS.set(address).is_ok()
    {
        start();
    }
}

/// Where the manager is; nothing if the program is not to be helped.
fn address() -> Option<libc::sockaddr_un> {
    // SAFETY: it takes a number. A program with more rights than its caller ignores the socket.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the name ends in a zero byte. What is found stays as it is for now: no other thread is there to change
    // it.
    let named = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    // SAFETY: a variable's value is text that ends in a zero byte, and is copied before anybody can change it.
    let path = if named.is_null() { SOCKET } else { unsafe { CStr::from_ptr(named) } };
    // SAFETY: an address of zeroes is one without a path.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.to_bytes_with_nul();
    let room = address.sun_path.get_mut(..bytes.len())?;
    room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as c_char);
    (bytes.len() > 1).then_some(address)
}

/// Starts the thread with all signals blocked, or does nothing.
fn start() {
    // SAFETY: all structures are initialised by the calls that fill them before they are used, and destroyed after it;
    // the thread's function takes no argument. The mask of this thread is as before in the end.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        let mut wishes: libc::pthread_attr_t = zeroed();
        let mut thread = 0;
        libc::sigfillset(&mut all);
        if libc::pthread_attr_init(&mut wishes) != 0 {
            return;
        }
        libc::pthread_attr_setdetachstate(&mut wishes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&mut wishes, STACK_BYTES);
        if libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) == 0 {
            libc::pthread_create(&mut thread, &wishes, help, null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        }
        libc::pthread_attr_destroy(&mut wishes);
    }
}

extern "C" fn help(_: *mut c_void) -> *mut c_void {
    // SAFETY: the name ends in a zero byte. The second call gives this thread a table of descriptors of its own and
    // empties that: others keep theirs.
    let is_apart = unsafe {
        libc::prctl(libc::PR_SET_NAME, c"esker-hugepage".as_ptr());
        libc::syscall(libc::SYS_close_range, 0 as c_int, c_int::MAX, libc::CLOSE_RANGE_UNSHARE) == 0
    };
    if !is_apart {
        return null_mut();
    }
    let (mut wait, most) = WAIT;
    loop {
        if serve() {
            wait = WAIT.0;
        }
        // SAFETY: it takes a number.
        unsafe { libc::sleep(wait) };
        wait = wait.saturating_mul(2).min(most);
    }
}

/// Does what a manager says until it goes. False if there is none.
fn serve() -> bool {
    // SAFETY: it takes numbers.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return false;
    }
    let is_met = meet(socket);
    if is_met {
        while let Some(answer) = receive(socket).and_then(obey) {
            if !send(socket, answer) {
                break;
            }
        }
    }
    // SAFETY: the descriptor is this thread's own and not used any more.
    unsafe { libc::close(socket) };
    is_met
}

/// Connects to a manager that may be trusted: root's, or one of the same user.
fn meet(socket: c_int) -> bool {
    let Some(address) = ADDRESS.get() else { return false };
    // SAFETY: the address is a whole one and outlives the call.
    let connected = unsafe {
        libc::connect(socket, (&raw const *address).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t)
    };
    // SAFETY: credentials of zeroes are credentials.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `len` is the room at `peer`.
    let told =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len) };
    // SAFETY: it takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    connected == 0 && told == 0 && (peer.uid == 0 || peer.uid == own) && send(socket, HELLO)
}

/// A request: `MADV_MERGEABLE` or `MADV_UNMERGEABLE`, address, length.
#[repr(C)]
struct Request {
    advice: u64,
    start: u64,
    len: u64,
}

const _: () = assert!(size_of::<Request>() == 24 && offset_of!(Request, len) == 16);

fn receive(socket: c_int) -> Option<Request> {
    let mut request = Request { advice: 0, start: 0, len: 0 };
    // SAFETY: any bytes are a request, and its size is the room that is given.
    let got = unsafe { libc::recv(socket, (&raw mut request).cast(), size_of::<Request>(), 0) };
    (got == size_of::<Request>() as isize).then_some(request)
}

/// The answer to a request: 0, or the kernel's error. Nothing for what is no request.
fn obey(request: Request) -> Option<u64> {
    let advice = c_int::try_from(request.advice).ok()?;
    if advice != libc::MADV_MERGEABLE && advice != libc::MADV_UNMERGEABLE {
        return None;
    }
    // SAFETY: neither advice changes what any memory of this process holds, whatever the range is.
    let done = unsafe { libc::madvise(request.start as usize as *mut c_void, request.len as usize, advice) };
    // SAFETY: the place of the error is this thread's own.
    Some(if done == 0 { 0 } else { unsafe { *libc::__errno_location() as u64 } })
}

fn send(socket: c_int, word: u64) -> bool {
    // SAFETY: the word outlives the call and has the size that is given.
    let sent = unsafe { libc::send(socket, (&raw const word).cast(), size_of::<u64>(), libc::MSG_NOSIGNAL) };
    sent == size_of::<u64>() as isize
}
