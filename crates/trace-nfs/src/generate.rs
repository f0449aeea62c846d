//! A seeded generator of trace text with the statistics of *lair62*, a trace of home directories at Harvard in 2001,
//! which the SNIA archive keeps. It has 188 users, files with a median of 3.7 KB and a mean of 249 KB, and the
//! ratios of its operations. Packets get lost and handles are used again, as there.
//!
//! The archive tells no more than these figures. A study of a trace of the same department tells how long blocks live:
//! more than half of them are written again within a second, and few live for more than a day. (Ellard, Ledlie,
//! Malkani and Seltzer, *Passive NFS Tracing of Email and Research Workloads*, FAST 2003, trace EECS.) Here each second
//! write repeats the one before it. The logarithm of a file's lifetime is uniform up to a day. The share of files that
//! stay is that of lair62.
//!
//! Files are written whole and without a pause: three quarters of all files were open for less than a quarter of a
//! second (Baker, Hartman, Kupfer, Shirriff and Ousterhout, SOSP 1991).
//!
//! Four things are assumed: users differ in activity by Zipf's law, sizes are log-normal, a few directories get most of
//! the work, and a rename onto another file replaces it by the newest one.

mod homes;
mod lines;

use std::collections::BTreeMap;
use std::io::{self, Read};

use esker_base::{Nanos, Stream};

use homes::Homes;
use lines::{Dialect, LineWriter};

/// First second of the trace: 2001-09-01 04:00 UTC.
const BEGIN_SECONDS: u64 = 999_316_800;
const MICROS: u64 = 1_000_000;
/// A server's answer takes so long at least, and so much more on average, in microseconds.
const LATENCY: u64 = 200;
const LATENCY_MORE: f64 = 800.0;
/// Bytes of a write in version 3, and in version 2.
const WRITE_LONG: u64 = 32 << 10;
const WRITE_SHORT: u64 = 8 << 10;
/// Share of operations that a replay leaves out or that change no bytes, and of lookups that find nothing.
const OTHERS: f64 = 0.15;
const NOT_FOUND: f64 = 0.03;
/// Share of creates that make a directory, of lookups that ask for one, and of renames that replace a file.
const DIRECTORIES: f64 = 0.03;
const LOOKUPS_OF_DIRECTORIES: f64 = 0.25;
const REPLACING: f64 = 0.5;
/// Share of new writes that go on with the file that is being written. A client of 2001 sends 320 writes of 32 KiB a
/// second over a network of 100 Mbit/s. All others together send five.
const CONTINUED: f64 = 0.984;
/// Share of writes that write the bytes of the write before them: those blocks die within a second (FAST 2003).
const REPEATED: f64 = 0.5;
/// Lines at most that are not due yet.
const DUE_MAX: usize = 1 << 16;

/// The operations of lair62 that are replayed, with their numbers.
const OPERATIONS: [(Operation, u64); 6] = [
    (Operation::Lookup, 138_545_846),
    (Operation::Write, 80_006_160),
    (Operation::Remove, 5_090_646),
    (Operation::Create, 4_446_401),
    (Operation::Rename, 452_322),
    (Operation::Link, 450_681),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Lookup,
    Write,
    Remove,
    Create,
    Rename,
    Link,
}

/// What a generated trace is like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NfsShape {
    /// Decides everything.
    pub seed: u64,
    /// Users, each with a home directory.
    pub users: u32,
    /// Files of a home, as a share of what lair62's had.
    pub scale: f64,
    /// Replayed operations in an hour of the trace, on average.
    pub operations_per_hour: f64,
    /// Share of the directories that get most of the work.
    pub hot_dirs: f64,
    /// Share of the work that they get.
    pub hot_work: f64,
    /// Share of the packets that the recorder lost.
    pub loss: f64,
    /// Share of new files that get the handle of a removed one.
    pub reuse: f64,
    /// Length in time of the trace.
    pub length: Option<Nanos>,
    /// Length in replayed operations.
    pub operations: Option<u64>,
}

impl NfsShape {
    /// That of lair62, without an end.
    pub fn lair62(seed: u64) -> NfsShape {
        NfsShape {
            seed,
            users: 188,
            scale: 1.0,
            operations_per_hour: 106_000.0,
            hot_dirs: 0.05,
            hot_work: 0.9,
            loss: 0.01,
            reuse: 0.3,
            length: None,
            operations: None,
        }
    }

    /// A few users with few files, for tests.
    pub fn tiny(seed: u64) -> NfsShape {
        NfsShape { users: 5, scale: 0.02, operations: Some(2_000), ..NfsShape::lair62(seed) }
    }
}

/// What was generated.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NfsGenerated {
    /// Lines that were written.
    pub lines: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Replayed operations.
    pub operations: u64,
}

/// The text of a trace, as a stream that is made while it is read.
pub struct NfsGenerator {
    shape: NfsShape,
    homes: Homes,
    draws: Stream,
    losses: Stream,
    /// Microseconds since 1970.
    now: u64,
    /// When the last answer to each user comes.
    ready: Vec<u64>,
    /// Lines that are not due yet, by time and number.
    due: BTreeMap<(u64, u64), String>,
    next_line: u64,
    next_xid: u32,
    weight: u64,
    /// The user of whom a file is written in part.
    writer: Option<usize>,
    /// The last write, if its file is there: user, handle, offset, bytes.
    written: Option<(usize, String, u64, u64)>,
    text: Vec<u8>,
    read: usize,
    generated: NfsGenerated,
}

impl NfsGenerator {
    /// A trace of this shape.
    pub fn new(shape: NfsShape) -> NfsGenerator {
        let homes = Homes::new(&shape);
        NfsGenerator {
            shape,
            ready: vec![0; homes.users()],
            homes,
            draws: Stream::named(shape.seed, "nfs operations"),
            losses: Stream::named(shape.seed, "nfs losses"),
            now: BEGIN_SECONDS * MICROS,
            due: BTreeMap::new(),
            next_line: 0,
            next_xid: 0x1000_0000,
            weight: OPERATIONS.iter().map(|(_, weight)| weight).sum(),
            writer: None,
            written: None,
            text: Vec::new(),
            read: 0,
            generated: NfsGenerated::default(),
        }
    }

    /// What was generated so far.
    pub fn generated(&self) -> NfsGenerated {
        self.generated
    }

    fn has_ended(&self) -> bool {
        let length = self.shape.length.map(|length| length.0 / 1_000);
        let is_late = length.is_some_and(|length| self.now >= BEGIN_SECONDS * MICROS + length);
        is_late || self.shape.operations.is_some_and(|most| self.generated.operations >= most)
    }

    /// Makes the next operation, and the text of all lines that are due before it.
    fn step(&mut self) {
        let gap = self.draws.exponential() * 3_600.0 * MICROS as f64 / self.shape.operations_per_hour;
        self.now += gap as u64;
        if self.due.len() > DUE_MAX {
            // Users ask faster than the server answers, so they wait.
            let middle = self.due.keys().nth(DUE_MAX / 2).map(|(time, _)| *time);
            self.now = self.now.max(middle.unwrap_or_default());
            self.hand_out(self.now);
        }
        match self.draws.unit() {
            draw if draw < OTHERS => self.other(),
            draw if draw < OTHERS + NOT_FOUND => self.not_found(),
            _ => self.replayed(),
        }
        self.hand_out(self.now);
    }

    fn replayed(&mut self) {
        let mut draw = self.draws.below(self.weight);
        let chosen = OPERATIONS.iter().find(|(_, weight)| {
            let is_it = draw < *weight;
            draw = draw.wrapping_sub(*weight);
            is_it
        });
        let Some((operation, _)) = chosen else { return };
        self.generated.operations += 1;
        match operation {
            Operation::Lookup => self.lookup(),
            Operation::Write => self.write(),
            Operation::Remove => self.remove(),
            Operation::Create => self.create(),
            Operation::Rename => self.rename(),
            Operation::Link => self.link(),
        }
    }

    /// Writes lines that are due.
    fn hand_out(&mut self, until: u64) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= until) {
            if self.losses.chance(self.shape.loss) {
                self.generated.lost += 1;
                entry.remove();
                continue;
            }
            self.generated.lines += 1;
            self.text.extend_from_slice(entry.remove().as_bytes());
            self.text.push(b'\n');
        }
    }

    /// A call and its reply, of which the two texts are what follows their fixed fields.
    fn exchange(&mut self, user: usize, operation: &str, call: &str, reply: &str) {
        let asked = self.now.max(self.ready[user]);
        let answered = asked + LATENCY + (self.draws.exponential() * LATENCY_MORE) as u64;
        self.ready[user] = answered + 1;
        self.next_xid = self.next_xid.wrapping_add(0x11);
        let writer = LineWriter { user, xid: self.next_xid, operation };
        let lines = [(asked, writer.call(asked, call)), (answered, writer.reply(answered, reply))];
        for (time, line) in lines {
            self.due.insert((time, self.next_line), line);
            self.next_line += 1;
        }
    }

    fn lookup(&mut self) {
        let user = self.homes.active();
        let place = self.homes.file(user);
        match place.filter(|_| !self.draws.chance(LOOKUPS_OF_DIRECTORIES)) {
            Some(place) => {
                let (dir, file) = self.homes.at(place);
                let call = format!("fh {} name \"{}\"", dir.handle(), file.name());
                let reply = format!("OK fh {} ftype 1 mode 1a4 nlink 1 size {:x}", file.handle(), file.size);
                self.exchange(user, "lookup", &call, &reply);
            }
            None => {
                let (above, name, dir) = self.homes.directory(user);
                let (call, reply) = (format!("fh {above} name \"{name}\""), format!("OK fh {dir} ftype 2 mode 1ed"));
                self.exchange(user, "lookup", &call, &reply);
            }
        }
    }

    fn create(&mut self) {
        let user = self.homes.active();
        if self.draws.chance(DIRECTORIES) {
            let (above, name, dir) = self.homes.make_dir(user);
            let (call, reply) =
                (format!("fh {above} name \"{name}\" mode 1ed"), format!("OK fh {dir} ftype 2 mode 1ed"));
            return self.exchange(user, "mkdir", &call, &reply);
        }
        let place = self.homes.make_file(user, self.now);
        let (dir, file) = self.homes.at(place);
        let call = format!("fh {} name \"{}\" mode 1a4 size 0", dir.handle(), file.name());
        let reply = format!("OK fh {} ftype 1 mode 1a4 size 0", file.handle());
        self.exchange(user, "create", &call, &reply);
    }

    fn write(&mut self) {
        let again = self.written.take_if(|_| self.draws.chance(REPEATED));
        let Some((user, handle, offset, count)) = again.or_else(|| self.new_write()) else { return self.lookup() };
        let call = format!("fh {handle} off {offset:x} count {count:x} stable U");
        let reply = format!("OK ftype 1 mode 1a4 size {:x} count {count:x}", offset + count);
        self.exchange(user, "write", &call, &reply);
        self.written = Some((user, handle, offset, count));
    }

    /// The next part of the file that is being written, or the first one of another file.
    fn new_write(&mut self) -> Option<(usize, String, u64, u64)> {
        let writer = self.writer.filter(|_| self.draws.chance(CONTINUED));
        let user = writer.unwrap_or_else(|| self.homes.active());
        let longest = if Dialect::of(user) == Dialect::Three { WRITE_LONG } else { WRITE_SHORT };
        let (handle, offset, count, is_last) = self.homes.next_write(user, longest)?;
        match is_last {
            true => drop(self.writer.take_if(|writer| *writer == user)),
            false => drop(self.writer.get_or_insert(user)),
        }
        Some((user, handle, offset, count))
    }

    /// Removes a file whose time is over, or else one that was there before the trace.
    fn remove(&mut self) {
        let dead = self.homes.dead(self.now);
        let user = dead.map_or_else(|| self.homes.active(), |(user, _)| user);
        let (dir, name) = match dead {
            Some((_, place)) => self.homes.take(place),
            None => self.homes.unknown(user),
        };
        self.written = None;
        self.exchange(user, "remove", &format!("fh {dir} name \"{name}\""), "OK");
    }

    fn rename(&mut self) {
        let Some((user, place)) = self.homes.any_file() else { return self.create() };
        let is_replacing = self.draws.chance(REPLACING);
        let newest = self.homes.newest_beside(place).filter(|_| is_replacing);
        let from = newest.unwrap_or(place);
        let call = {
            let (dir, file) = self.homes.at(from);
            format!("fh {} name \"{}\"", dir.handle(), file.name())
        };
        let file = self.homes.detach(from);
        let to = match newest {
            Some(_) => self.homes.replace(place, file),
            None => self.homes.attach(user, file),
        };
        self.written = None;
        let (dir, file) = self.homes.at(to);
        let call = format!("{call} fh2 {} name2 \"{}\"", dir.handle(), file.name());
        self.exchange(user, "rename", &call, "OK");
    }

    fn link(&mut self) {
        let Some((user, place)) = self.homes.any_file() else { return self.create() };
        let old = self.homes.at(place).1.handle();
        let (dir, file) = {
            let new = self.homes.link(user, place, self.now);
            self.homes.at(new)
        };
        let call = format!("fh {old} fh2 {} name \"{}\"", dir.handle(), file.name());
        self.exchange(user, "link", &call, "OK");
    }

    /// An operation that changes no bytes.
    fn other(&mut self) {
        let Some((user, place)) = self.homes.any_file() else { return };
        let (_, file) = self.homes.at(place);
        let (handle, size) = (file.handle(), file.size);
        let seconds = self.now / MICROS;
        match self.draws.below(4) {
            0 => self.exchange(user, "getattr", &format!("fh {handle}"), &format!("OK ftype 1 size {size:x}")),
            1 => self.exchange(user, "access", &format!("fh {handle} amode 1"), "OK access 1"),
            2 => self.exchange(user, "read", &format!("fh {handle} off 0 count 2000"), "OK ftype 1 count 2000"),
            _ => {
                let call = format!("fh {handle} mode 1a4 atime {seconds}.000000 mtime {seconds}.000000");
                self.exchange(user, "setattr", &call, "OK ftype 1 mode 1a4");
            }
        }
    }

    fn not_found(&mut self) {
        let user = self.homes.active();
        let (above, ..) = self.homes.directory(user);
        self.exchange(user, "lookup", &format!("fh {above} name \"no such file\""), "2");
    }
}

impl Read for NfsGenerator {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.text.len() {
            self.text.clear();
            self.read = 0;
            while self.text.is_empty() && !self.has_ended() {
                self.step();
            }
            if self.has_ended() {
                self.hand_out(u64::MAX);
            }
        }
        let text = &self.text[self.read..];
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text[..len]);
        self.read += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_ask_too_fast_wait() {
        let shape = NfsShape { users: 1, operations_per_hour: 1e12, operations: Some(100_000), ..NfsShape::tiny(1) };
        let (mut trace, mut bytes, mut most) = (NfsGenerator::new(shape), [0; 1 << 16], 0);
        while trace.read(&mut bytes).expect("it is made in memory") > 0 {
            most = most.max(trace.due.len());
        }
        assert!(most > DUE_MAX / 2 && most < DUE_MAX + 8, "{most}");
        let made = trace.generated();
        assert_eq!(made.operations, 100_000);
        assert!(made.lines + made.lost > 200_000);
    }
}
