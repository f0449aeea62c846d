//! Sockets that a service manager passes (the protocol of systemd's sd_listen_fds), and what each is for.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf, absolute};

use esker_rt::Rt;
use esker_rt::net::{Address, Listener};
use esker_serve::Inherited;
use esker_stack::text::address;
use esker_stack::{ExportSpec, Spec};
use listenfd::ListenFd;

/// Name of the socket that takes commands.
const CONTROL: &str = "control";
/// Name of the socket that hands out metrics.
const METRICS: &str = "metrics";

/// Sockets with their names.
pub struct Passed(Vec<(String, OwnedFd)>);

/// What the sockets of a server are.
pub struct Doors<'a> {
    /// Its exports.
    pub spec: &'a mut Spec,
    /// Its control socket.
    pub control: &'a mut Address,
    /// Where it hands out metrics.
    pub metrics: &'a mut Option<Address>,
}

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// It is none.
    #[error("descriptor {number} \"{name}\" of the service manager is no socket that listens: {source}")]
    NoListener {
        /// Of the descriptor.
        number: usize,
        /// That the manager gave it.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Commands come over a local socket.
    #[error("the service manager passes {0} as the control socket\ntip: ListenStream= of its unit takes a path")]
    NoControl(String),
    /// Another socket took its place.
    #[error(
        "the service manager passes two sockets for one purpose, and {0} is the first\ntip: an export, the control socket and \
         the metrics have one address each; remove one ListenStream= of their unit"
    )]
    Second(String),
    /// It has the name and the address of nothing.
    #[error(
        "the service manager passes the socket \"{name}\" at {at}, which belongs to no export\ntip: give its unit the name \
         of one: FileDescriptorName=EXPORT, control or metrics"
    )]
    Homeless {
        /// That the manager gave it.
        name: String,
        /// Its address.
        at: String,
    },
}

/// First descriptor that a service manager passes.
const FIRST: usize = 3;

impl Passed {
    /// Takes the sockets that were passed to this process; none without a service manager.
    ///
    /// # Errors
    /// A descriptor that is no listening socket.
    pub fn take() -> Result<Passed, PassedError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        // Without it, they are another process's.
        let is_ours = std::env::var("LISTEN_PID").is_ok();
        let mut passed = if is_ours { ListenFd::from_env() } else { ListenFd::empty() };
        let mut names = names.split(':');
        let sockets = (0..passed.len()).map(|at| {
            let name = names.next().unwrap_or_default().to_string();
            let taken = socket(&mut passed, at).and_then(|fd| fd.ok_or_else(|| io::ErrorKind::NotFound.into()));
            match taken {
                Ok(fd) => Ok((name, fd)),
                Err(source) => Err(PassedError::NoListener { number: FIRST + at, name, source }),
            }
        });
        Ok(Passed(sockets.collect::<Result<_, _>>()?))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives each socket to the control socket, the metrics or an export of its name, else of its address. The rest
    /// go to exports without an address.
    ///
    /// # Errors
    /// A socket that cannot be used, is for nothing, or is the first of two for one purpose.
    pub fn give(self, rt: &Rt, doors: &mut Doors<'_>) -> Result<Inherited, PassedError> {
        let mut listeners = Vec::new();
        for (at, (name, fd)) in self.0.into_iter().enumerate() {
            let adopted = Listener::adopt(rt, fd);
            let number = FIRST + at;
            let listener = adopted.map_err(|source| PassedError::NoListener { number, name: name.clone(), source })?;
            doors.open(name, listener.address())?;
            listeners.push(listener);
        }
        match listeners.iter().find(|listener| !doors.are_at(listener.address())) {
            Some(unused) => Err(PassedError::Second(address::text(unused.address()))),
            None => Ok(Inherited::new(listeners)),
        }
    }
}

/// One of the sockets, of either family.
fn socket(passed: &mut ListenFd, at: usize) -> io::Result<Option<OwnedFd>> {
    match passed.take_unix_listener(at) {
        Ok(found) => Ok(found.map(OwnedFd::from)),
        Err(_) => Ok(passed.take_tcp_listener(at)?.map(OwnedFd::from)),
    }
}

/// The address of an export, where it has one.
fn address_of(export: &ExportSpec) -> Option<Address> {
    export.nbd.as_deref().and_then(|text| address::parse(text).ok())
}

impl Doors<'_> {
    /// Whether one of them is at this address.
    fn are_at(&self, at: &Address) -> bool {
        let mut own = self.metrics.iter().chain([&*self.control]);
        own.any(|own| is_same(at, own)) || self.spec.exports.iter().filter_map(address_of).any(|nbd| is_same(at, &nbd))
    }

    fn open(&mut self, name: String, at: &Address) -> Result<(), PassedError> {
        let is_control = name == CONTROL || is_same(at, self.control);
        if is_control {
            if let Address::Tcp(host) = at {
                return Err(PassedError::NoControl(host.clone()));
            }
            *self.control = at.clone();
            return Ok(());
        }
        if name == METRICS || self.metrics.as_ref().is_some_and(|metrics| is_same(at, metrics)) {
            *self.metrics = Some(at.clone());
            return Ok(());
        }
        let is_named = self.spec.exports.iter().any(|export| export.name == name);
        let is_addressed = self.spec.exports.iter().filter_map(address_of).any(|nbd| is_same(at, &nbd));
        let mut given = false;
        for export in &mut self.spec.exports {
            let nbd = address_of(export);
            let is_its = match (is_named, is_addressed) {
                (true, _) => export.name == name,
                (false, true) => nbd.is_some_and(|nbd| is_same(at, &nbd)),
                (false, false) => export.nbd.is_none(),
            };
            if is_its {
                export.nbd = Some(address::text(at));
                given = true;
            }
        }
        match given {
            true => Ok(()),
            false => Err(PassedError::Homeless { name, at: address::text(at) }),
        }
    }
}

/// Whether two addresses are one: a path may be relative.
fn is_same(a: &Address, b: &Address) -> bool {
    let whole = |path: &Path| -> PathBuf { absolute(path).unwrap_or_else(|_| path.to_path_buf()) };
    match (a, b) {
        (Address::Unix(a), Address::Unix(b)) => whole(a) == whole(b),
        (Address::Tcp(_), Address::Tcp(_))
        | (Address::Unix(_), Address::Tcp(_))
        | (Address::Tcp(_), Address::Unix(_)) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the exports of a text, the control socket and the metrics are after a socket was passed.
    fn opened(text: &str, name: &str, at: &str) -> Result<Vec<String>, String> {
        let mut spec = Spec::parse("text", text).unwrap();
        let (mut control, mut metrics) = (Address::Unix("/run/esker.ctl".into()), None);
        let mut doors = Doors { spec: &mut spec, control: &mut control, metrics: &mut metrics };
        let at = address::parse(at).unwrap();
        doors.open(name.to_string(), &at).map_err(|error| error.to_string())?;
        let exports = spec.exports.iter().map(|export| export.nbd.clone().unwrap_or_default());
        let exports: Vec<String> = exports.collect();
        Ok(exports
            .into_iter()
            .chain([address::text(&control), metrics.as_ref().map(address::text).unwrap_or_default()])
            .collect())
    }

    const TEXT: &str = "m = memory size=1MiB; export a = m nbd=unix:/run/a; export b = m; export c = m nbd=tcp:[::1]:9";

    #[test]
    fn a_socket_goes_to_what_has_its_name_or_its_address() {
        let check = |name: &str, at: &str, expected: [&str; 5]| assert_eq!(opened(TEXT, name, at).unwrap(), expected);
        let [a, c, ctl] = ["unix:/run/a", "tcp:[::1]:9", "unix:/run/esker.ctl"];
        check("a", "unix:/x", ["unix:/x", "", c, ctl, ""]);
        check("esker@x.socket", "unix:/x", [a, "unix:/x", c, ctl, ""]);
        check("unknown", "unix:/run/a", [a, "", c, ctl, ""]);
        check("", "tcp:[::1]:9", [a, "", c, ctl, ""]);
        check("control", "unix:/x", [a, "", c, "unix:/x", ""]);
        check("", "unix:/run/esker.ctl", [a, "", c, ctl, ""]);
        check("metrics", "tcp:127.0.0.1:1", [a, "", c, ctl, "tcp:127.0.0.1:1"]);
    }

    #[test]
    fn a_socket_of_nothing_is_refused_with_advice() {
        let error = opened("m = memory size=1MiB; export a = m nbd=unix:/run/a", "other", "unix:/x").unwrap_err();
        assert!(error.contains("\"other\" at unix:/x") && error.contains("FileDescriptorName="), "{error}");
        assert!(opened(TEXT, "control", "tcp:[::1]:7").unwrap_err().contains("takes a path"));
    }
}
