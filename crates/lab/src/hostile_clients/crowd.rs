//! Clients that take places and give them back only when the server ends them.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

/// A server that has not taken a step of an attack by then has ended the connection, or soon will.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Sent, and how many bytes of an answer are taken after it.
type Step = (&'static [u8], usize);

/// Length of the server's greeting, and of an answer to an option that carries nothing.
const GREETING: usize = 18;
const REPLY: usize = 20;
const FLAGS: Step = (b"\0\0\0\x03", 0);
const CHOICE: Step = (b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vol\0\0", REPLY);
const HALF_HEADER: Step = (b"\x25\x60", 0);
const START_TLS: Step = (b"IHAVEOPT\0\0\0\x05\0\0\0\0", REPLY);
const HALF_HELLO: Step = (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", 0);

/// What each client of a crowd does before it falls silent.
pub(crate) struct Attack {
    /// For the reader.
    pub name: &'static str,
    /// Whether the server demands TLS.
    pub is_secured: bool,
    /// Whether it is about the control socket and not about NBD.
    pub is_at_control: bool,
    peers: usize,
    steps: &'static [Step],
}

impl Attack {
    const fn on_nbd(name: &'static str, peers: usize, steps: &'static [Step]) -> Attack {
        Attack { name, is_secured: false, is_at_control: false, peers, steps }
    }

    const fn on_tls(name: &'static str, peers: usize, steps: &'static [Step]) -> Attack {
        Attack { is_secured: true, ..Attack::on_nbd(name, peers, steps) }
    }
}

/// All of them. A server has 128 places for those that shake hands, 16 for those that use an export, 8 at its control
/// socket.
pub(crate) const ATTACKS: &[Attack] = &[
    Attack::on_nbd("200 clients that say nothing", 200, &[]),
    Attack::on_nbd("200 clients that stop within the handshake", 200, &[(b"", GREETING), FLAGS]),
    Attack::on_nbd("16 clients that choose the export and fall silent", 16, &[(b"", GREETING), FLAGS, CHOICE]),
    Attack::on_nbd("16 clients that send half a request", 16, &[(b"", GREETING), FLAGS, CHOICE, HALF_HEADER]),
    Attack::on_tls("200 clients that say nothing before TLS", 200, &[]),
    Attack::on_tls(
        "200 clients that stop within the handshake of TLS",
        200,
        &[(b"", GREETING), FLAGS, START_TLS, HALF_HELLO],
    ),
    Attack { is_at_control: true, ..Attack::on_nbd("20 clients that say nothing at the control socket", 20, &[]) },
];

/// Where a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// NBD over TCP, as `host:port`.
    Nbd(String),
    /// The control socket.
    Control(PathBuf),
}

/// The clients of an attack.
pub(crate) struct Crowd<'a> {
    attack: &'a Attack,
    target: Target,
    peers: Vec<OwnedFd>,
}

impl Crowd<'_> {
    /// None yet.
    pub(crate) fn new(attack: &Attack, target: Target) -> Crowd<'_> {
        Crowd { attack, target, peers: Vec::new() }
    }

    /// Sends a new client in the place of each that the server has ended.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        self.peers.retain(is_held);
        while self.peers.len() < self.attack.peers {
            // What follows is the same for both kinds of sockets.
            let stream = match &self.target {
                Target::Nbd(address) => OwnedFd::from(TcpStream::connect(address)?).into(),
                Target::Control(path) => UnixStream::connect(path)?,
            };
            self.peers.push(prepared(stream, self.attack.steps));
        }
        Ok(())
    }
}

/// A connection after its steps. If the server ends it before, that is its right.
fn prepared(mut stream: UnixStream, steps: &[Step]) -> OwnedFd {
    let limited = stream.set_read_timeout(Some(STEP_MAX));
    drop(limited.and_then(|()| steps.iter().try_for_each(|step| take(&mut stream, *step))));
    stream.into()
}

fn take(stream: &mut UnixStream, (said, answer): Step) -> io::Result<()> {
    stream.write_all(said)?;
    stream.read_exact(&mut vec![0; answer])
}

/// Whether the server still holds the connection. Reads the bytes that the server has sent.
fn is_held(peer: &OwnedFd) -> bool {
    let mut bytes = [0u8; 256];
    loop {
        match recv(peer, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => {}
            Err(rustix::io::Errno::AGAIN) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_crowd_fills_up_again_where_the_server_has_ended_clients() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctl");
        let listener = UnixListener::bind(&path).unwrap();
        let attack = Attack { is_at_control: true, ..Attack::on_nbd("test", 3, &[FLAGS]) };
        let mut crowd = Crowd::new(&attack, Target::Control(path));
        crowd.fill().unwrap();
        let mut held: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        let mut said = [0; 4];
        held[0].read_exact(&mut said).unwrap();
        assert_eq!(said, *FLAGS.0);
        drop(held.pop());
        held[1].write_all(b"an answer without a question").unwrap();
        crowd.fill().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok() && listener.accept().is_err(), "one more, and no more");
    }
}
