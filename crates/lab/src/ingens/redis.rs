//! A real Redis server with many values, of which most were deleted, and a client that reads the others.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use esker_base::Stream;
use tempfile::TempDir;

use crate::ingens::huge_of;
use esker_lab_kit::bound::{BEGUN_WITHIN, Bound};
use esker_lab_kit::{LabError, cgroup::Group, peer, scratch};

/// The program.
pub(crate) const PROGRAM: &str = "redis-server";
/// One that keeps nothing on disk and does not refuse huge pages, as Debian's does unless it is told. The socket
/// follows.
pub(crate) const ARGUMENTS: [&str; 9] =
    ["--port", "0", "--save", "", "--appendonly", "no", "--disable-thp", "no", "--unixsocket"];
/// Bytes of a value.
const VALUE: usize = 8 << 10;
/// Requests that wait for an answer at once.
const PIPELINE: usize = 32;

/// A server, alone in a control group whose memory is counted.
pub(crate) struct Redis {
    server: Bound,
    group: Group,
    client: Client,
    deleted: BTreeSet<u64>,
    _folder: TempDir,
}

impl Redis {
    /// Starts one that does not refuse huge pages itself.
    ///
    /// # Errors
    /// If it does not begin, or this is not root.
    pub(crate) fn start(parent: &Path) -> Result<Redis, LabError> {
        let folder = scratch::folder(parent)?;
        let socket = folder.path().join("redis");
        let mut server = Bound::start(PROGRAM, |command| {
            command.args(ARGUMENTS).arg(&socket).arg("--dir").arg(folder.path()).stdout(Stdio::null())
        })?;
        let group = Group::around(server.pid())?;
        let stream = server.connect(&socket, BEGUN_WITHIN)?;
        let stream = BufReader::with_capacity(1 << 16, stream);
        let client = Client { stream, out: Vec::new(), room: Vec::new() };
        let mut redis = Redis { server, group, client, deleted: BTreeSet::new(), _folder: folder };
        redis.client.ask(&[b"PING"])?;
        Ok(redis)
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Stores a value for each key below `keys`.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn fill(&mut self, keys: u64) -> Result<(), LabError> {
        let mut value = vec![0; VALUE];
        for from in (0..keys).step_by(PIPELINE) {
            let batch: Vec<Vec<u8>> = (from..keys.min(from + PIPELINE as u64)).map(name).collect();
            for (key, name) in batch.iter().enumerate() {
                value.fill(from as u8 ^ key as u8);
                self.client.send(&[b"SET", name, &value]);
            }
            self.client.take_answers(batch.len())?;
        }
        Ok(())
    }

    /// Deletes keys, and has the allocator give back what is free.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn delete(&mut self, keys: &[u64]) -> Result<(), LabError> {
        for batch in keys.chunks(PIPELINE) {
            batch.iter().for_each(|key| self.client.send(&[b"DEL", &name(*key)]));
            self.client.take_answers(batch.len())?;
        }
        self.deleted.extend(keys);
        self.client.ask(&[b"MEMORY", b"PURGE"])
    }

    /// Reads random ones of `keys`, so many, in a pipeline of 32. Returns the server's CPU time, and what each batch
    /// took.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn read(
        &mut self,
        keys: &[u64],
        gets: usize,
        rng: &mut Stream,
    ) -> Result<(Duration, Vec<f64>), LabError> {
        let before = self.cpu()?;
        let mut took = Vec::with_capacity(gets / PIPELINE);
        for _ in 0..gets / PIPELINE {
            let mut there = 0;
            for _ in 0..PIPELINE {
                let key = keys[rng.below(keys.len() as u64) as usize];
                there += usize::from(!self.deleted.contains(&key));
                self.client.send(&[b"GET", &name(key)]);
            }
            let begun = Instant::now();
            let bytes = self.client.take_answers(PIPELINE)?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
            if bytes != there * VALUE {
                return Err(peer::fault(PROGRAM, format!("{bytes} bytes for {there} values")));
            }
        }
        Ok((self.cpu()? - before, took))
    }

    /// CPU time of its one thread that serves requests: the first number of its `schedstat`.
    fn cpu(&self) -> Result<Duration, LabError> {
        let text = fs::read_to_string(format!("/proc/{0}/task/{0}/schedstat", self.pid())).unwrap_or_default();
        let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
        first.map(Duration::from_nanos).ok_or_else(|| peer::fault(PROGRAM, "its CPU time is not told"))
    }

    /// Bytes of anonymous memory that are charged to it, also those that it has freed and that a huge page still holds.
    pub(crate) fn charged(&self) -> u64 {
        self.group.charged()
    }

    /// Bytes of it in huge pages.
    pub(crate) fn huge(&self) -> u64 {
        huge_of(self.pid())
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("key:{key:012}").into_bytes()
}

/// Speaks the protocol of Redis.
struct Client {
    stream: BufReader<UnixStream>,
    out: Vec<u8>,
    room: Vec<u8>,
}

impl Client {
    /// Adds a request to those that are sent next.
    fn send(&mut self, words: &[&[u8]]) {
        self.out.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.out.extend(format!("${}\r\n", word.len()).bytes());
            self.out.extend_from_slice(word);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<(), LabError> {
        self.send(words);
        self.take_answers(1).map(drop)
    }

    /// Sends, and takes so many answers. Returns the bytes of the values in them.
    fn take_answers(&mut self, answers: usize) -> Result<usize, LabError> {
        let failed = |error: std::io::Error| peer::fault(PROGRAM, error);
        self.stream.get_mut().write_all(&self.out).map_err(failed)?;
        self.out.clear();
        let mut bytes = 0;
        for _ in 0..answers {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(failed)?;
            if let Some(len) = line.trim_end().strip_prefix('$').and_then(|len| len.parse::<usize>().ok()) {
                self.room.resize(len + 2, 0);
                self.stream.read_exact(&mut self.room).map_err(failed)?;
                bytes += len;
            } else if !line.starts_with(['+', ':', '$']) {
                return Err(peer::fault(PROGRAM, line.trim_end()));
            }
        }
        Ok(bytes)
    }
}
