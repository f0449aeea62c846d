//! TCP peers whose machine goes without a word.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use esker_base::Nanos;

use super::{Reactor, RealConfig};
use crate::mem::Slice;
use crate::net::{Address, KeepAlive, Listener};
use crate::sync::{Either, race};

/// Runs words that are divided by blanks.
fn run_words(words: &str) -> bool {
    let mut words = words.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).stdin(Stdio::null()).output();
    done.is_ok_and(|done| done.status.success())
}

/// A program that is killed when this is dropped, also by a test that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Another machine: a network namespace at the other end of a cable, until it is dropped.
struct Machine(Killed);

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
        let machine = Machine(Killed(child));
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
        let unshare = self.0.0.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
        children.trim().to_string()
    }

    fn within(&self, words: &str) -> String {
        format!("nsenter --net=/proc/{}/ns/net {words}", self.pid())
    }

    /// A program there that connects to a port here and stays.
    fn connects(&self, port: &str) -> Killed {
        let stays = format!("exec 3<>/dev/tcp/{}/{port}; exec sleep 1000", Machine::HERE);
        let enters = self.within("bash -c");
        let mut words = enters.split(' ');
        let mut command = Command::new(words.next().unwrap());
        // Its streams are its own: the test's end is seen at the end of the test.
        command.args(words).arg(stays).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Killed(command.spawn().unwrap())
    }

    /// From now on, nothing comes from it.
    fn vanish(&self) {
        assert!(run_words(&self.within("ip link set end down")));
    }
}

/// Plays its own child in a network namespace.
#[test]
fn connections_of_a_machine_that_vanishes_end() {
    const CHILD: &str = "ESKER_TEST_CHILD_OF_NETWORK";
    let name = "real::vanished::connections_of_a_machine_that_vanishes_end";
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
        let _clients: Vec<_> = (0..2).map(|_| machine.connects(port)).collect();
        let (quiet, told) = (listener.accept().await.unwrap(), listener.accept().await.unwrap());
        machine.vanish();
        // To one, a reply is on its way. The other is idle.
        told.write_all(vec![Slice::heap(vec![7; 4096])]).await.unwrap();
        for (name, stream) in [("quiet", quiet), ("told", told)] {
            let read = stream.read(vec![Slice::heap(vec![0; 1])]);
            // Far more than the kernel needs, and far less than it takes without being asked.
            let Either::Left((_, end)) = race(read, rt.sleep(Nanos::secs(20))).await else {
                panic!("the {name} connection is still there");
            };
            assert_eq!(end.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut), "{name}");
        }
    });
}
