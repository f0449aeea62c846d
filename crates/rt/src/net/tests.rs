//! Streams give parts back as they were, and TCP streams send at once.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use esker_base::Nanos;

use super::*;
use crate::real::{Backend, Reactor, RealConfig};
use crate::sim::{SimConfig, twice};
use crate::sync::{Either, race};

#[test]
fn written_parts_come_back_with_their_windows() {
    let windows = twice(SimConfig::seeded(1), |rt| async move {
        // A pipe smaller than the parts, so that they leave in pieces.
        let (near, far) = pipe(3);
        let reader = rt.spawn("reader", async move { far.read_exact(vec![Part::heap(vec![0; 9])]).await });
        let second = Part { start: 2, len: 4, ..Part::heap(b"xxabcdxx".to_vec()) };
        let parts = near.write_all(vec![Part::heap(b"12345".to_vec()), second]).await.unwrap();
        assert_eq!(reader.await.unwrap()[0].bytes(), b"12345abcd");
        parts.iter().map(|part| (part.start, part.len)).collect::<Vec<_>>()
    });
    assert_eq!(windows, [(0, 5), (2, 4)]);
}

#[test]
fn both_ends_of_a_tcp_stream_send_without_delay() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        let delays = reactor.block_on(async move {
            let listener = Listener::bind(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
            let client = Stream::connect(&rt, listener.address()).unwrap();
            let accepted = listener.accept().await.unwrap();
            [client, accepted].map(|Stream(kind)| match kind {
                Kind::Socket { fd, .. } => rustix::net::sockopt::tcp_nodelay(&*fd).unwrap(),
                Kind::Pipe { .. } => false,
            })
        });
        assert_eq!(delays, [true, true], "{backend:?}");
    }
}

/// Both ends of a local socket.
fn local_pair(rt: &Rt) -> (Stream, Stream) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    (Stream::from_socket(rt, near).unwrap(), Stream::from_socket(rt, far).unwrap())
}

#[test]
fn what_is_there_behind_the_bytes_that_are_needed_comes_with_them() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move {
            let (near, far) = local_pair(&rt);
            let empty = || vec![Part::heap(vec![0; 4]), Part::heap(vec![0; 8])];
            far.write_all(vec![Part::heap(b"12345678".to_vec())]).await.unwrap();
            assert!(far.untaken() > 0, "nobody has read it");
            let (parts, got) = near.read_at_least(empty(), 4).await.unwrap();
            assert_eq!((got, parts[0].bytes(), &parts[1].bytes()[..4]), (8, &b"1234"[..], &b"5678"[..]));
            assert_eq!(far.untaken(), 0);
            far.write_all(vec![Part::heap(b"123".to_vec())]).await.unwrap();
            far.shutdown();
            let error = near.read_at_least(empty(), 4).await.err().map(|e| e.kind());
            assert_eq!(error, Some(io::ErrorKind::UnexpectedEof), "{backend:?}");
        });
    }
}

#[test]
fn a_busy_socket_brings_every_byte_in_order_and_lets_other_tasks_run() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move {
            let (near, far) = local_pair(&rt);
            // All there at once: the reader never has to wait, and must let the other task run all the same.
            far.write_all(vec![Part::heap((0..200).collect())]).await.unwrap();
            let other = rt.spawn("other", std::future::ready(7));
            for wanted in 0..200 {
                let parts = near.read_exact(vec![Part::heap(vec![0])]).await.unwrap();
                assert_eq!(parts[0].bytes(), [wanted]);
            }
            assert!(other.is_done(), "{backend:?}: starved");
        });
    }
}

#[test]
fn the_kernel_ends_accepted_tcp_connections_whose_peer_has_vanished() {
    use rustix::net::sockopt;
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        let listener = Listener::bind(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
        let _client = Stream::connect(&rt, listener.address()).unwrap();
        let accepted = listener.accept_fd().await.unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        let times = [sockopt::tcp_keepidle(&accepted), sockopt::tcp_keepintvl(&accepted)];
        assert_eq!(times.map(|time| time.unwrap().as_secs()), [60, 10]);
        assert_eq!(sockopt::tcp_keepcnt(&accepted).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 90_000);
    });
}

/// Runs words that are divided by blanks.
fn run_words(words: &str) -> bool {
    let mut words = words.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).stdin(Stdio::null()).output();
    done.is_ok_and(|done| done.status.success())
}

/// Another machine: a network namespace at the other end of a cable, until it is dropped.
struct Machine(Child);

impl Machine {
    const HERE: &str = "10.213.0.1";

    /// Takes a network namespace of this process' own.
    fn start() -> Machine {
        let mut command = Command::new("unshare");
        command.args(["--net", "--kill-child", "--fork", "sh", "-c", "echo begun; read stay"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        let machine = Machine(child);
        let pid = machine.pid();
        let here = format!("ip addr add {}/24 dev cable", Machine::HERE);
        for words in ["ip link add cable type veth peer name end", &format!("ip link set end netns {pid}"), &here] {
            assert!(run_words(words), "{words}");
        }
        for words in ["ip addr add 10.213.0.2/24 dev end", "ip link set end up"] {
            assert!(run_words(&machine.within(words)), "{words}");
        }
        assert!(run_words("ip link set cable up"));
        machine
    }

    /// The process in the namespace: the child of unshare.
    fn pid(&self) -> String {
        let unshare = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
        children.trim().to_string()
    }

    fn within(&self, words: &str) -> String {
        format!("nsenter --net=/proc/{}/ns/net {words}", self.pid())
    }

    /// A program there that connects to a port here and stays.
    fn connects(&self, port: &str) -> Child {
        let stays = format!("exec 3<>/dev/tcp/{}/{port}; exec sleep 1000", Machine::HERE);
        let enters = self.within("bash -c");
        let mut words = enters.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(stays).stdin(Stdio::null()).spawn().unwrap()
    }

    /// From now on, nothing comes from it.
    fn vanish(&self) {
        assert!(run_words(&self.within("ip link set end down")));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Plays its own child in a network namespace.
#[test]
fn connections_of_a_machine_that_vanishes_end() {
    const CHILD: &str = "ESKER_TEST_CHILD_OF_NETWORK";
    let name = "net::tests::connections_of_a_machine_that_vanishes_end";
    if std::env::var_os(CHILD).is_none() {
        let cable = "unshare --net ip link add cable type veth peer name end";
        let tools = ["nsenter --version", "bash --version"];
        if !rustix::process::geteuid().is_root() || !run_words(cable) || !tools.into_iter().all(run_words) {
            return esker_skip::skip(esker_skip::Ability::Network, format_args!("no network namespace can be made"));
        }
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("unshare");
        let done = command.arg("--net").arg(this).args(["--exact", name]).env(CHILD, "1").output().unwrap();
        let told = [done.stdout, done.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(done.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        let machine = Machine::start();
        let address = Address::Tcp(format!("{}:0", Machine::HERE));
        let listener = Listener::bind_with(&rt, &address, KeepAlive::tiny()).unwrap();
        let Address::Tcp(bound) = listener.address() else { panic!("it is an address of TCP") };
        let port = bound.rsplit(':').next().unwrap();
        let mut clients: Vec<_> = (0..2).map(|_| machine.connects(port)).collect();
        let (quiet, told) = (listener.accept().await.unwrap(), listener.accept().await.unwrap());
        machine.vanish();
        // To one, a reply is on its way. The other is idle.
        told.write_all(vec![Part::heap(vec![7; 4096])]).await.unwrap();
        for (name, stream) in [("quiet", quiet), ("told", told)] {
            let read = stream.read(vec![Part::heap(vec![0; 1])]);
            // Far more than the kernel needs, and far less than it takes without being asked.
            let Either::Left((_, end)) = race(read, rt.sleep(Nanos::secs(60))).await else {
                panic!("the {name} connection is still there");
            };
            assert_eq!(end.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut), "{name}");
        }
        for client in &mut clients {
            client.kill().unwrap();
            client.wait().unwrap();
        }
    });
}
