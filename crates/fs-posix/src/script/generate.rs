//! Random scripts from a seed, and all scripts of a length.

use esker_base::Stream;
use esker_vfs::{FileType, Rename, Stamp, XattrSet};

use super::parse::SECOND;
use super::{Durable, Held, Object, ROOMS, Room, ScriptOp, WHENCES, Word, XATTR_SETS, XattrOp};
use crate::attrs::SetTime;
use crate::bytes::Whence;
use crate::flags::{Access, OpenFlags};
use crate::paths::Follow;

/// Names at which random scripts meet: of files, directories and symbolic links, as long as no rename mixes them up.
const FILES: [&str; 8] = ["foo", "bar", "A/foo", "B/foo", "A/bar", "B/bar", "A/C/foo", "/A/foo"];
const DIRECTORIES: [&str; 5] = ["A", "B", "A/C", "B/C", "/A"];
const LINKS: [&str; 2] = ["link", "A/link"];
/// Words that paths may be and rarely are.
const ODD: [&str; 22] = [
    "", "/", ".", "..", "A/.", "A/..", "foo/", "A/", "link/", "foo/bar", "foo/..", "A/C/", "A/../foo", "//A//foo",
    "none", "none/foo", "link/foo", "./bar", "../bar", "A/link/", "B/./foo", "A/C/..",
];
const TARGETS: [&str; 12] =
    ["foo", "A", "../foo", "A/foo", "link", "A/link", "none", "/B", ".", "..", "foo/", "A/C/foo"];
const XATTRS: [&str; 7] = ["user.a", "user.b", "trusted.a", "security.a", "user.", "odd.a", "system.odd"];
const MODES: [u16; 16] = [
    0o644, 0o755, 0o777, 0o777, 0o755, 0o755, 0o777, 0o700, 0o600, 0o000, 0o4755, 0o2755, 0o2770, 0o1777, 0o444, 0o6711,
];
const USERS: [u32; 4] = [0, 0, 1000, 1001];
/// Offsets and lengths: around the unit of allocation, and odd ones.
const SIZES: [u32; 9] = [0, 1, 100, 4095, 4096, 4097, 8192, 10_000, 65_536];
/// Bytes of a path component that is too long.
const TOO_LONG: usize = 256;

/// Calls from a seed, without an end, and the user that makes them. One seed gives the same calls for ever.
pub struct Random(Stream, u32);

impl Random {
    /// Calls of this seed.
    pub fn new(seed: u64) -> Random {
        Random(Stream::named(seed, "random scripts"), 0)
    }
}

impl Iterator for Random {
    type Item = ScriptOp;

    fn next(&mut self) -> Option<ScriptOp> {
        // Users without privileges see little: they do not stay long.
        if self.1 != 0 && self.0.chance(0.08) {
            self.1 = 0;
            return Some(ScriptOp::Become(0));
        }
        Some(match self.0.below(100) {
            0..40 => self.on_bytes(),
            40..78 => self.on_names(),
            _ => self.on_attributes(),
        })
    }
}

impl Random {
    fn on_bytes(&mut self) -> ScriptOp {
        match self.0.below(40) {
            0..14 => {
                let flags = self.flags();
                let names = if flags.contains(OpenFlags::DIRECTORY) { &DIRECTORIES[..] } else { &FILES };
                ScriptOp::Open(self.held(), self.near(names), flags, self.mode())
            }
            14 => ScriptOp::Close(self.held()),
            15 => ScriptOp::Dup(self.held(), self.held()),
            16..19 => ScriptOp::Read(self.held(), self.size(), self.at()),
            19..24 => ScriptOp::Write(self.held(), self.size(), self.0.below(1 << 16), self.at()),
            24..28 => self.seek(),
            28..31 => ScriptOp::Truncate(self.object(), i64::from(self.size()) - i64::from(self.0.chance(0.05))),
            31..34 => {
                let (room, _) = self.one_of(&ROOMS);
                ScriptOp::Allocate(self.held(), room, i64::from(self.size()), i64::from(self.size()))
            }
            34..37 => ScriptOp::Copy((self.held(), self.at()), (self.held(), self.at()), u64::from(self.size())),
            37 => ScriptOp::Clone(self.held(), self.held()),
            38 if self.0.chance(0.5) => ScriptOp::Sync(Durable::Data(self.held())),
            38 => ScriptOp::Sync(Durable::File(self.held())),
            _ if self.0.chance(0.05) => ScriptOp::Sync(Durable::All),
            _ => ScriptOp::List(self.object()),
        }
    }

    fn seek(&mut self) -> ScriptOp {
        let (whence, _) = self.one_of(&WHENCES);
        let by = i64::from(self.size());
        let back = matches!(whence, Whence::Set | Whence::Current | Whence::End) && self.0.chance(0.2);
        ScriptOp::Seek(self.held(), whence, if back { -by } else { by })
    }

    fn on_names(&mut self) -> ScriptOp {
        match self.0.below(40) {
            0..3 => ScriptOp::Mkdir(self.near(&DIRECTORIES), 0o755),
            3..6 => ScriptOp::Mkdir(self.near(&DIRECTORIES), self.mode()),
            6..8 => {
                let (kind, device) = self.one_of(&[
                    (FileType::File, 0),
                    (FileType::Fifo, 0),
                    (FileType::Socket, 0),
                    (FileType::CharDevice, 1000),
                    (FileType::BlockDevice, 1000),
                    (FileType::Directory, 0),
                ]);
                ScriptOp::Mknod(self.near(&FILES), kind, self.mode(), device)
            }
            8..13 => ScriptOp::Link(self.object(), self.near(&FILES), self.follow()),
            13..16 => ScriptOp::Symlink(self.one_of(&TARGETS).into(), self.near(&LINKS)),
            16..18 => ScriptOp::Readlink(self.near(&LINKS)),
            18..22 => ScriptOp::Unlink(self.near(&FILES)),
            22 => ScriptOp::Unlink(self.near(&LINKS)),
            23..26 => ScriptOp::Rmdir(self.near(&DIRECTORIES)),
            26..34 => {
                let how = self.one_of(&[Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange]);
                let names = self.one_of(&[&FILES[..], &FILES, &DIRECTORIES]);
                ScriptOp::Rename(self.near(names), self.near(names), how)
            }
            34..37 => ScriptOp::List(Object::Path(self.near(&DIRECTORIES))),
            // Relative paths find most where they were made.
            _ if self.0.chance(0.7) => ScriptOp::Chdir(Object::Path("/".into())),
            _ => ScriptOp::Chdir(Object::Path(self.near(&DIRECTORIES))),
        }
    }

    fn on_attributes(&mut self) -> ScriptOp {
        match self.0.below(30) {
            0..8 => ScriptOp::Stat(self.object(), self.follow()),
            8..10 => ScriptOp::Access(self.path(), Access::from_bits_truncate(self.0.below(8) as u16)),
            10..14 => ScriptOp::Chmod(self.object(), self.mode()),
            14..18 => {
                let (uid, gid) = (self.owner(), self.owner());
                ScriptOp::Chown(self.object(), uid, gid, self.follow())
            }
            18..21 => ScriptOp::Times(self.object(), self.time(), self.time(), self.follow()),
            21..26 => {
                let name = Word::from(self.one_of(&XATTRS));
                let op = match self.0.below(8) {
                    0..4 => {
                        let (how, _) = self.one_of(&XATTR_SETS);
                        XattrOp::Set(name, self.0.below(64) as u32, self.0.below(1 << 16), how)
                    }
                    4..6 => XattrOp::Get(name),
                    6 => XattrOp::List,
                    _ => XattrOp::Remove(name),
                };
                ScriptOp::Xattr(self.object(), op, self.follow())
            }
            26 => ScriptOp::Umask(self.one_of(&[0o022, 0o000, 0o077, 0o002])),
            _ => {
                self.1 = self.one_of(&USERS);
                ScriptOp::Become(self.1)
            }
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }

    /// Few places, so that most hold a file; the last one is the audit's.
    fn held(&mut self) -> Held {
        Held(self.0.below(3) as u8)
    }

    fn path(&mut self) -> Word {
        match self.0.below(200) {
            0 => Word(vec![b'n'; TOO_LONG]),
            1 => Word([b"A/".repeat(3000), b"foo".to_vec()].concat()),
            2..20 => self.one_of(&ODD).into(),
            20..120 => self.one_of(&FILES).into(),
            120..180 => self.one_of(&DIRECTORIES).into(),
            _ => self.one_of(&LINKS).into(),
        }
    }

    /// Mostly one of these names.
    fn near(&mut self, names: &[&str]) -> Word {
        if self.0.chance(0.85) { self.one_of(names).into() } else { self.path() }
    }

    fn object(&mut self) -> Object {
        if self.0.chance(0.3) { Object::Held(self.held()) } else { Object::Path(self.path()) }
    }

    fn follow(&mut self) -> Follow {
        self.one_of(&[Follow::Links, Follow::Nothing])
    }

    fn mode(&mut self) -> u16 {
        self.one_of(&MODES)
    }

    fn size(&mut self) -> u32 {
        self.one_of(&SIZES)
    }

    fn at(&mut self) -> Option<i64> {
        self.0.chance(0.5).then(|| i64::from(self.size()) - i64::from(self.0.chance(0.03)))
    }

    fn owner(&mut self) -> Option<u32> {
        self.one_of(&[None, Some(0), Some(1000), Some(1001)])
    }

    fn time(&mut self) -> SetTime {
        match self.0.below(4) {
            0 => SetTime::Keep,
            1 => SetTime::Now,
            _ => SetTime::To(Stamp(self.0.below(1_000_000_000) as i64 * SECOND)),
        }
    }

    fn flags(&mut self) -> OpenFlags {
        let access = [OpenFlags::RDONLY, OpenFlags::WRONLY, OpenFlags::RDWR, OpenFlags::RDWR];
        let mut flags = self.one_of(&access);
        let chances = [
            (OpenFlags::CREAT, 0.75),
            (OpenFlags::EXCL, 0.1),
            (OpenFlags::TRUNC, 0.15),
            (OpenFlags::APPEND, 0.15),
            (OpenFlags::NOFOLLOW, 0.1),
            (OpenFlags::NOATIME, 0.05),
            (OpenFlags::PATH, 0.07),
            (OpenFlags::DSYNC, 0.02),
        ];
        for (flag, chance) in chances {
            flags.set(flag, flags.contains(flag) || self.0.chance(chance));
        }
        match self.0.below(100) {
            0..6 => (flags - OpenFlags::CREAT) | OpenFlags::TMPFILE,
            6..16 => (flags - OpenFlags::CREAT - OpenFlags::ACCESS - OpenFlags::TRUNC) | OpenFlags::DIRECTORY,
            16..18 => flags | OpenFlags::DIRECTORY,
            _ => flags,
        }
    }
}

/// All scripts of a number of steps. A step is a change and what is made durable after it, as CrashMonkey (Mohan and
/// others, OSDI 2018) bounds them: few names, one call, one barrier.
pub struct Bounded {
    steps: Vec<Vec<ScriptOp>>,
    length: u32,
}

const BOUNDED_FILES: [&str; 6] = ["foo", "bar", "A/foo", "A/bar", "B/foo", "B/bar"];
const BOUNDED_DIRECTORIES: [&str; 2] = ["A", "B"];
/// See [`Bounded::before`].
const BEFORE: &str = "mkdir A 0755\nmkdir B 0755\nopen #0 foo rdwr,creat 0644\nwrite #0 8192 x1\nclose #0\n\
                      open #0 A/bar rdwr,creat 0644\nwrite #0 5000 x2\nclose #0\nsync all\n";

impl Bounded {
    /// All scripts of `length` steps.
    pub fn new(length: u32) -> Bounded {
        let changes = Bounded::changes();
        let with = |change: &Vec<ScriptOp>, barrier: Option<Vec<ScriptOp>>| {
            change.iter().cloned().chain(barrier.into_iter().flatten()).collect::<Vec<_>>()
        };
        let steps = changes
            .iter()
            .flat_map(|(change, at)| Bounded::barriers(at).into_iter().map(move |barrier| with(change, barrier)));
        Bounded { steps: steps.collect(), length }
    }

    /// How many scripts there are.
    pub fn count(&self) -> u64 {
        (self.steps.len() as u64).pow(self.length)
    }

    /// The script of a number below the count.
    pub fn script(&self, number: u64) -> Vec<ScriptOp> {
        [Bounded::before(), self.steps(number)].concat()
    }

    /// The calls that every script begins with, so that changes find something. The last one makes all durable.
    pub fn before() -> Vec<ScriptOp> {
        ScriptOp::script(BEFORE).expect("a constant of calls")
    }

    /// The script of a number below the count, without what every script begins with.
    pub fn steps(&self, number: u64) -> Vec<ScriptOp> {
        let (count, mut rest, mut steps) = (self.steps.len() as u64, number, Vec::new());
        for _ in 0..self.length {
            steps.extend(self.steps[(rest % count) as usize].iter().cloned());
            rest /= count;
        }
        steps
    }

    /// Nothing, or the bytes, the file, its directory or everything.
    fn barriers(at: &str) -> [Option<Vec<ScriptOp>>; 5] {
        let dir = at.rsplit_once('/').map_or(".", |(dir, _)| dir);
        let held = Held(1);
        let of = |path: &str, flags, durable| {
            Some(vec![ScriptOp::Open(held, path.into(), flags, 0), ScriptOp::Sync(durable), ScriptOp::Close(held)])
        };
        [
            None,
            of(at, OpenFlags::RDONLY, Durable::Data(held)),
            of(at, OpenFlags::RDONLY, Durable::File(held)),
            of(dir, OpenFlags::DIRECTORY, Durable::File(held)),
            Some(vec![ScriptOp::Sync(Durable::All)]),
        ]
    }

    /// Changes, each with the path that it is about.
    fn changes() -> Vec<(Vec<ScriptOp>, &'static str)> {
        let mut all = Vec::new();
        for path in BOUNDED_DIRECTORIES {
            all.push((vec![ScriptOp::Rmdir(path.into())], path));
            all.push((vec![ScriptOp::Mkdir(path.into(), 0o755)], path));
        }
        for (from, to) in [("A", "B"), ("B", "A/C"), ("foo", "A")] {
            all.push((vec![ScriptOp::Rename(from.into(), to.into(), Rename::Replace)], to));
            all.push((vec![ScriptOp::Rename(from.into(), to.into(), Rename::Exchange)], to));
        }
        for path in BOUNDED_FILES {
            all.extend(Bounded::of_names(path).into_iter().map(|change| (change, path)));
            all.extend(Bounded::of_bytes(path).into_iter().map(|change| (change, path)));
        }
        all
    }

    fn of_names(path: &str) -> Vec<Vec<ScriptOp>> {
        let held = Held(0);
        let make = |how| vec![ScriptOp::Open(held, path.into(), OpenFlags::RDWR | how, 0o644), ScriptOp::Close(held)];
        let mut all = vec![
            make(OpenFlags::CREAT),
            vec![ScriptOp::Mkdir(path.into(), 0o755)],
            vec![ScriptOp::Symlink("foo".into(), path.into())],
            vec![ScriptOp::Mknod(path.into(), FileType::Fifo, 0o644, 0)],
            vec![ScriptOp::Unlink(path.into())],
            vec![
                ScriptOp::Open(held, ".".into(), OpenFlags::RDWR | OpenFlags::TMPFILE, 0o644),
                ScriptOp::Write(held, 4096, 3, None),
                ScriptOp::Link(Object::Held(held), path.into(), Follow::Links),
                ScriptOp::Close(held),
            ],
        ];
        for from in BOUNDED_FILES.into_iter().filter(|from| *from != path) {
            all.push(vec![ScriptOp::Link(Object::Path(from.into()), path.into(), Follow::Nothing)]);
            for how in [Rename::Replace, Rename::NoReplace, Rename::Exchange] {
                all.push(vec![ScriptOp::Rename(from.into(), path.into(), how)]);
            }
        }
        all
    }

    fn of_bytes(path: &str) -> Vec<Vec<ScriptOp>> {
        let (held, other) = (Held(0), Held(2));
        let on = |flags: OpenFlags, ops: &[ScriptOp]| {
            let open = ScriptOp::Open(held, path.into(), OpenFlags::RDWR | OpenFlags::CREAT | flags, 0o644);
            [vec![open], ops.to_vec(), vec![ScriptOp::Close(held)]].concat()
        };
        let none = OpenFlags::empty();
        let room = |room, at, len| on(none, &[ScriptOp::Allocate(held, room, at, len)]);
        vec![
            on(OpenFlags::APPEND, &[ScriptOp::Write(held, 4096, 4, None)]),
            on(none, &[ScriptOp::Write(held, 4096, 5, Some(2048))]),
            on(none, &[ScriptOp::Write(held, 4096, 6, Some(65_536))]),
            on(none, &[ScriptOp::Write(held, 777, 7, Some(4000))]),
            on(none, &[ScriptOp::Truncate(Object::Held(held), 1000)]),
            on(none, &[ScriptOp::Truncate(Object::Held(held), 20_000)]),
            room(Room::Reserve, 4096, 16_384),
            room(Room::Punch, 1024, 4096),
            room(Room::ZeroKeep, 1024, 16_384),
            on(
                none,
                &[
                    ScriptOp::Open(other, "foo".into(), OpenFlags::RDONLY, 0),
                    ScriptOp::Copy((other, Some(0)), (held, Some(4096)), 8192),
                    ScriptOp::Close(other),
                ],
            ),
            vec![ScriptOp::Chmod(Object::Path(path.into()), 0o600)],
            vec![ScriptOp::Times(Object::Path(path.into()), SetTime::Keep, SetTime::To(Stamp(SECOND)), Follow::Links)],
            vec![ScriptOp::Xattr(
                Object::Path(path.into()),
                XattrOp::Set("user.a".into(), 20, 8, XattrSet::Any),
                Follow::Links,
            )],
        ]
    }
}
