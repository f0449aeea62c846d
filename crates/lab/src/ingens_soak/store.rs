//! A real server of values and a client that knows what each must be: Redis or memcached, over a socket of this
//! machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use esker_base::Stream;
use tempfile::TempDir;

use crate::ingens::redis;
use esker_lab_kit::bound::{BEGUN_WITHIN, Bound};
use esker_lab_kit::{LabError, peer, scratch};

const KEYS: usize = 60_000;
/// Bytes of a value.
const VALUE: usize = 6 << 10;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Keeps everything.
    Redis,
    /// May forget values.
    Memcached,
}

impl Kind {
    /// The program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Kind::Redis => redis::PROGRAM,
            Kind::Memcached => "memcached",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Kind::Redis => &redis::ARGUMENTS,
            Kind::Memcached => &["-u", "root", "-m", "512", "-s"],
        }
    }
}

/// Requests and what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Answered.
    pub requests: u64,
    /// Bytes of values that were compared with what they must be.
    pub checked: u64,
    /// Values that were something else, or there although deleted, or gone where none may be.
    pub wrong: u64,
}

/// A server with its client.
pub(crate) struct Store {
    kind: Kind,
    server: Bound,
    stream: BufReader<UnixStream>,
    /// The version of each key's value; 0: deleted.
    versions: Vec<u64>,
    rng: Stream,
    content: Vec<u8>,
    room: Vec<u8>,
    /// What it has seen.
    pub counts: Counts,
    _folder: TempDir,
}

impl Store {
    /// Starts an empty server.
    ///
    /// # Errors
    /// If it does not begin.
    pub(crate) fn start(kind: Kind, parent: &Path, seed: u64) -> Result<Store, LabError> {
        let folder = scratch::folder(parent)?;
        let socket = folder.path().join("socket");
        let mut server = Bound::start(kind.program(), |command| {
            command.args(kind.arguments()).arg(&socket).current_dir(folder.path()).stdout(Stdio::null())
        })?;
        let stream = server.connect(&socket, BEGUN_WITHIN)?;
        Ok(Store {
            kind,
            server,
            stream: BufReader::with_capacity(1 << 16, stream),
            versions: vec![0; KEYS],
            rng: Stream::named(seed, kind.program()),
            content: Vec::new(),
            room: Vec::new(),
            counts: Counts::default(),
            _folder: folder,
        })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// One request for a random key: half of them read, of the others so many in a hundred delete.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn work(&mut self, deletes: u64) -> Result<(), LabError> {
        let key = self.rng.below(KEYS as u64) as usize;
        let done = match (self.rng.chance(0.5), self.rng.below(100) < deletes) {
            (true, _) => self.get(key),
            (false, true) => self.delete(key),
            (false, false) => self.set(key),
        };
        self.counts.requests += 1;
        done.map_err(|error| peer::fault(self.kind.program(), error))
    }

    fn set(&mut self, key: usize) -> std::io::Result<()> {
        self.versions[key] += 1 + self.rng.below(1 << 20);
        fill(&mut self.content, key, self.versions[key]);
        let name = name(key);
        let head = match self.kind {
            Kind::Redis => format!("*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${VALUE}\r\n", name.len()),
            Kind::Memcached => format!("set {name} 0 0 {VALUE}\r\n"),
        };
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.content)?;
        stream.write_all(b"\r\n")?;
        match self.line()?.as_str() {
            "+OK" | "STORED" => Ok(()),
            other => Err(std::io::Error::other(format!("{other:?} to a SET"))),
        }
    }

    fn delete(&mut self, key: usize) -> std::io::Result<()> {
        self.versions[key] = 0;
        match self.ask(["DEL", "delete"], key)?.as_str() {
            ":0" | ":1" | "DELETED" | "NOT_FOUND" => Ok(()),
            other => Err(std::io::Error::other(format!("{other:?} to a DEL"))),
        }
    }

    fn get(&mut self, key: usize) -> std::io::Result<()> {
        let head = self.ask(["GET", "get"], key)?;
        let version = self.versions[key];
        // `$LENGTH`, or `VALUE NAME FLAGS LENGTH`.
        let length = head.rsplit([' ', '$']).next().and_then(|length| length.parse::<usize>().ok());
        let Some(length) = length.filter(|_| head != "END") else {
            self.counts.wrong += u64::from(version != 0 && self.kind == Kind::Redis);
            return if ["$-1", "END"].contains(&head.as_str()) { Ok(()) } else { Err(std::io::Error::other(head)) };
        };
        self.room.resize(length + 2, 0);
        self.stream.read_exact(&mut self.room)?;
        if self.kind == Kind::Memcached {
            self.line()?;
        }
        fill(&mut self.content, key, version);
        self.counts.checked += length as u64;
        self.counts.wrong += u64::from(version == 0 || self.room[..length] != self.content);
        Ok(())
    }

    /// Says a verb of three letters, or memcached's, about a key; returns the first line of the answer.
    fn ask(&mut self, [redis, memcached]: [&str; 2], key: usize) -> std::io::Result<String> {
        let name = name(key);
        let words = match self.kind {
            Kind::Redis => format!("*2\r\n$3\r\n{redis}\r\n${}\r\n{name}\r\n", name.len()),
            Kind::Memcached => format!("{memcached} {name}\r\n"),
        };
        self.stream.get_mut().write_all(words.as_bytes())?;
        self.line()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }
}

fn name(key: usize) -> String {
    format!("key:{key:06}")
}

/// The value of a key: no two versions of any keys have much in common.
fn fill(content: &mut Vec<u8>, key: usize, version: u64) {
    content.clear();
    let mut word = (version << 20 | key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while content.len() < VALUE {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        content.extend_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_lab_kit::LabError;

    /// A server, or nothing where it is not installed.
    fn store(kind: Kind, folder: &Path) -> Option<Store> {
        match Store::start(kind, folder, 1) {
            Ok(store) => Some(store),
            Err(LabError::Rival { program, what }) => {
                println!("SKIPPED: {program}: {what}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_is_read_is_what_was_written_and_a_wrong_value_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [Kind::Redis, Kind::Memcached] {
            let Some(mut store) = store(kind, folder.path()) else { continue };
            let seen = |store: &mut Store, key| {
                let before = store.counts.wrong;
                store.get(key).unwrap();
                store.counts.wrong - before
            };
            store.set(7).unwrap();
            assert_eq!((seen(&mut store, 7), seen(&mut store, 8)), (0, 0), "{kind:?}");
            assert_eq!(store.counts.checked, VALUE as u64);
            store.versions[7] += 1;
            assert_eq!(seen(&mut store, 7), 1, "{kind:?}: another version");
            store.versions[7] = 0;
            assert_eq!(seen(&mut store, 7), 1, "{kind:?}: it was not deleted");
            store.delete(7).unwrap();
            assert_eq!(seen(&mut store, 7), 0);
            store.versions[7] = 5;
            assert_eq!(seen(&mut store, 7), u64::from(kind == Kind::Redis), "{kind:?} may forget");
            store.versions[7] = 0;
            (0..500).for_each(|at| store.work(at % 100).unwrap());
            assert_eq!(store.counts.requests, 500);
        }
    }

    #[test]
    fn values_differ_by_key_and_version() {
        let value = |key, version| {
            let mut content = Vec::new();
            fill(&mut content, key, version);
            content
        };
        assert_eq!((value(1, 1).len(), value(1, 1) == value(1, 1)), (VALUE, true));
        assert!(value(1, 1) != value(1, 2) && value(1, 1) != value(2, 1));
    }
}
