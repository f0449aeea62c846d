//! Filling and emptying, and listing what changes meanwhile.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Errno, Stream};
use esker_dev::Media;
use esker_fs_posix::OpenFlags;
use esker_fs_posix::script::{Actor, Durable, Held, Object, Outcome, Player, ScriptOp, XattrOp};
use esker_vfs::{Cookie, FileSystem, FileType, Ino, Listing, Name, Space, XattrSet, tree_digest};

use super::breach::{Breach, actor};
use super::stage::{Stage, in_world, memory, own_call};
use super::subject::Subject;

/// Calls that find no room before a file system counts as full.
const FULL_AFTER: u32 = 6;
/// Cycles between two restarts.
const RESTART_EVERY: u64 = 8;
/// Entries of the directory that is listed while it changes.
const ENTRIES: u64 = 64;

/// What cycles of filling and emptying did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cycled {
    /// Cycles.
    pub cycles: u64,
    /// Calls that found no room.
    pub refused: u64,
    /// Files, directories and links that were made.
    pub made: u64,
}

impl Stage {
    /// Fills an empty file system to its end and empties it, `cycles` times: emptying always succeeds, and gives all
    /// room back.
    ///
    /// # Errors
    /// The first cycle behind which room is missing, or a call that fails.
    pub fn cycle(subject: &Rc<dyn Subject>, cycles: u64, seed: u64) -> Result<Cycled, Breach> {
        let stage = Stage::new(subject.clone(), &[])?;
        let (mut store, mut done) = (stage.store.clone(), Cycled::default());
        while done.cycles < cycles {
            let media = Media::of(subject.size(), store);
            let count = (cycles - done.cycles).min(RESTART_EVERY);
            let part = in_world({
                let (subject, media) = (subject.clone(), media.clone());
                let rng = Stream::named(seed, &format!("cycles from {} on", done.cycles));
                move |rt| async move {
                    let files = subject.open(rt.clone(), memory(&rt, &media)).await?;
                    fill_and_empty(&files, count, rng).await
                }
            });
            let told = |why| stage.breach(&[], format!("cycle {} and those behind it", done.cycles + 1), vec![why]);
            let part = part.and_then(|part| part).map_err(told)?;
            done.cycles += part.cycles;
            done.refused += part.refused;
            done.made += part.made;
            store = media.image();
        }
        Ok(done)
    }

    /// Lists a directory in small pieces that changes meanwhile, over restarts where it survives them. Each entry that
    /// is there throughout is given exactly once.
    ///
    /// # Errors
    /// An entry that is given twice or never.
    pub fn list_under_change(&self, seed: u64) -> Result<(), Breach> {
        let rng = Stream::named(seed, "listing");
        let mut walk = Listed { rng, from: None, given: BTreeMap::new(), made: 0 };
        let mut store = self.store.clone();
        loop {
            let media = Media::of(self.subject.size(), store);
            let part = in_world({
                let (subject, media, survives) = (self.subject.clone(), media.clone(), self.survives());
                move |rt| async move {
                    let files = subject.open(rt.clone(), memory(&rt, &media)).await?;
                    walk.go(&files, if survives { 4 } else { u64::MAX }).await.map(|is_done| (walk, is_done))
                }
            });
            let told = |why| self.breach(&[], "listing a directory that changes", vec![why]);
            let (further, is_done) = part.and_then(|part| part).map_err(told)?;
            if is_done {
                return further.judged().map_err(told);
            }
            (walk, store) = (further, media.image());
        }
    }

    /// What is closed is whole: the tree is there without a crash, and the closed file system answers nothing more.
    ///
    /// # Errors
    /// What is missing, or answers.
    pub fn close(&self) -> Result<(), Breach> {
        let media = Media::of(self.subject.size(), self.store.clone());
        let closed = in_world({
            let (subject, media) = (self.subject.clone(), media.clone());
            move |rt| async move {
                let files = subject.open(rt.clone(), memory(&rt, &media)).await?;
                let mut player = actor(files.clone());
                done(player.call(&ScriptOp::Mkdir("closed".into(), 0o700)).await, "mkdir")?;
                let digest = tree_digest(&*files, own_call()).await.map_err(|errno| format!("{errno:?}"))?;
                files.close().await.map_err(|errno| format!("closing fails: {errno:?}"))?;
                match files.attr(own_call(), files.root()).await {
                    Err(Errno::EIO) => Ok(digest),
                    other => Err(format!("a closed file system answers {other:?}")),
                }
            }
        });
        let told = |why| self.breach(&[], "closing", vec![why]);
        let digest = closed.and_then(|closed| closed).map_err(told)?;
        match self.survives().then(|| self.shown(media.image())) {
            Some(shown) if shown != Ok(digest) => Err(told(format!("it shows another tree when it opens: {shown:?}"))),
            _ => Ok(()),
        }
    }
}

fn done(outcome: Outcome, what: &str) -> Result<(), String> {
    if let Outcome::Failed(errno) = outcome { Err(format!("{what} fails: {errno:?}")) } else { Ok(()) }
}

async fn space(files: &dyn FileSystem) -> Result<Space, String> {
    files.space(own_call()).await.map_err(|errno| format!("room is not told: {errno:?}"))
}

async fn fill_and_empty(files: &Rc<dyn FileSystem>, cycles: u64, mut rng: Stream) -> Result<Cycled, String> {
    let (empty, mut all) = (space(&**files).await?, Cycled::default());
    for _ in 0..cycles {
        let mut player = actor(files.clone());
        let (made, refused) = fill(&mut player, &mut rng).await?;
        if rng.chance(0.5) {
            done(player.call(&ScriptOp::Sync(Durable::All)).await, "sync")?;
        }
        remove_below(&mut player, "").await?;
        done(player.call(&ScriptOp::Sync(Durable::All)).await, "sync")?;
        drop(player);
        let left = space(&**files).await?;
        if left != empty {
            return Err(format!("the empty file system has {left:?}, and had {empty:?}"));
        }
        all = Cycled { cycles: all.cycles + 1, refused: all.refused + refused, made: all.made + made };
    }
    Ok(all)
}

/// Makes things until several calls find no room. Answers how many were made, and how many found none.
async fn fill(player: &mut Actor, rng: &mut Stream) -> Result<(u64, u64), String> {
    let (mut made, mut refused, mut in_a_row) = (0, 0, 0);
    for number in 0..10_000u64 {
        let path =
            if number > 3 && rng.chance(0.3) { format!("d{}/f{number}", rng.below(3)) } else { format!("f{number}") };
        let held = Held(0);
        let ops: Vec<ScriptOp> = match rng.below(8) {
            _ if number < 3 => vec![ScriptOp::Mkdir(format!("d{number}").as_str().into(), 0o755)],
            0 => vec![ScriptOp::Mkdir(path.as_str().into(), 0o755)],
            1 => vec![ScriptOp::Symlink("t".repeat(100).as_str().into(), path.as_str().into())],
            2 => vec![ScriptOp::Xattr(
                Object::Path("d0".into()),
                XattrOp::Set(format!("user.{number}").as_str().into(), 300, number, XattrSet::Any),
                esker_fs_posix::Follow::Links,
            )],
            _ => vec![
                ScriptOp::Open(held, path.as_str().into(), OpenFlags::WRONLY | OpenFlags::CREAT, 0o644),
                ScriptOp::Write(held, 1 + rng.below(20_000) as u32, number, None),
                ScriptOp::Close(held),
            ],
        };
        for op in &ops {
            match player.call(op).await {
                Outcome::Failed(Errno::ENOSPC) => (refused, in_a_row) = (refused + 1, in_a_row + 1),
                // Without its file a write or close has nothing to do; a directory may not have found room.
                Outcome::Failed(Errno::EBADF | Errno::ENOENT) => {}
                Outcome::Failed(errno) => {
                    return Err(format!("\"{op}\" fails in another way than for room: {errno:?}"));
                }
                _ => made += 1,
            }
        }
        if in_a_row >= FULL_AFTER {
            return Ok((made, refused));
        }
    }
    Err("it has no end".to_string())
}

/// Removes everything below a directory.
async fn remove_below(player: &mut Actor, dir: &str) -> Result<(), String> {
    let mut left = vec![(dir.to_string(), false)];
    while let Some((path, is_empty)) = left.pop() {
        if is_empty {
            done(player.call(&ScriptOp::Rmdir(path.as_str().into())).await, "rmdir")?;
            continue;
        }
        if !path.is_empty() {
            left.push((path.clone(), true));
        }
        let listed = if path.is_empty() { "/" } else { path.as_str() };
        let Outcome::Entries(entries) = player.call(&ScriptOp::List(Object::Path(listed.into()))).await else {
            return Err(format!("{listed} cannot be listed"));
        };
        for (name, kind) in entries.iter().filter(|(name, _)| !matches!(&name[..], b"." | b"..")) {
            let below = format!("{path}/{}", String::from_utf8_lossy(name));
            if *kind == FileType::Directory {
                left.push((below, false));
            } else {
                done(player.call(&ScriptOp::Unlink(below.as_str().into())).await, "unlink")?;
            }
        }
    }
    Ok(())
}

/// A listing that goes on over restarts.
struct Listed {
    rng: Stream,
    from: Option<(Ino, Cookie)>,
    /// How often each name was given.
    given: BTreeMap<String, u64>,
    made: u64,
}

impl Listed {
    /// Goes on for so many pieces. Answers whether the end was reached.
    async fn go(&mut self, files: &Rc<dyn FileSystem>, pieces: u64) -> Result<bool, String> {
        let mut player = actor(files.clone());
        if self.from.is_none() {
            done(player.call(&ScriptOp::Mkdir("listed".into(), 0o755)).await, "mkdir")?;
            for number in 0..ENTRIES {
                self.create(&mut player, &format!("listed/e{number:02}")).await?;
            }
        }
        let name = Name::new(b"listed").expect("a name");
        let entry = files.lookup(own_call(), files.root(), name).await.map_err(|errno| format!("{errno:?}"))?;
        let (ino, mut from) = self.from.unwrap_or((entry.ino, Cookie::BEGINNING));
        if ino != entry.ino {
            return Err(format!("the directory was number {} and is number {} behind a restart", ino.0, entry.ino.0));
        }
        for _ in 0..pieces {
            let room = Listing::new(96, 24, 8);
            let rows = files.list(own_call(), ino, from, room).await.map_err(|errno| format!("listing: {errno:?}"))?;
            if rows.is_empty() {
                files.forget(ino, 1);
                return Ok(true);
            }
            for row in rows.rows() {
                *self.given.entry(String::from_utf8_lossy(row.name.bytes()).into_owned()).or_default() += 1;
                from = row.next;
            }
            self.disturb(&mut player).await?;
        }
        files.forget(ino, 1);
        self.from = Some((ino, from));
        done(player.call(&ScriptOp::Sync(Durable::All)).await, "sync").map(|()| false)
    }

    async fn create(&mut self, player: &mut Actor, path: &str) -> Result<(), String> {
        let how = OpenFlags::WRONLY | OpenFlags::CREAT;
        done(player.call(&ScriptOp::Open(Held(0), path.into(), how, 0o644)).await, "open")?;
        done(player.call(&ScriptOp::Close(Held(0))).await, "close")
    }

    /// Creates, removes and renames names with odd numbers. Those with even ones stay.
    async fn disturb(&mut self, player: &mut Actor) -> Result<(), String> {
        for _ in 0..3 {
            let odd = format!("listed/e{:02}", 2 * self.rng.below(ENTRIES / 2) + 1);
            let made = format!("listed/{}{}", if self.rng.chance(0.5) { "a" } else { "z" }, self.made);
            self.made += 1;
            match self.rng.below(4) {
                0 if self.made < ENTRIES => self.create(player, &made).await?,
                1 => {
                    let how = esker_vfs::Rename::Replace;
                    player.call(&ScriptOp::Rename(odd.as_str().into(), made.as_str().into(), how)).await;
                }
                _ => {
                    player.call(&ScriptOp::Unlink(odd.as_str().into())).await;
                }
            }
        }
        Ok(())
    }

    fn judged(&self) -> Result<(), String> {
        let times = |name: &String| self.given.get(name).copied().unwrap_or(0);
        let wrong = (0..ENTRIES).step_by(2).map(|number| format!("e{number:02}")).find(|name| times(name) != 1);
        let twice = self.given.iter().find(|(_, times)| **times > 1).map(|(name, _)| name.clone());
        match wrong.or(twice) {
            None => Ok(()),
            Some(name) => Err(format!("{name} was given {} times", times(&name))),
        }
    }
}
