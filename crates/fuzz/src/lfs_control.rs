//! The calls of cleaners on a mounted log-structured file system: a call that is refused or only asks changes nothing,
//! and no call loses a byte.
//!
//! An input is lines. A line has the number of a cleaner and a call, as the words of a mount carry them. A line that
//! begins with `!` is an order to clean a segment, made of what its logs tell and then changed by the bytes behind:
//! blind changes would never come upon one.

use std::rc::Rc;
use std::sync::LazyLock;

use esker_base::{ByteRange, Errno};
use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fs_lfs::control::{
    CheckpointInfo, Checkpoints, CleaningOrder, DatBlock, LfsTotals, MovedVirtual, SegmentInfo, segment_flag, wire,
};
use esker_fs_lfs::format::Payload;
use esker_fs_lfs::write::CleanerSession;
use esker_fs_lfs::{Lfs, LfsControl, LfsReader, MkfsConfig, check, mkfs};
use esker_fs_posix::script::{Outcome, Player, ScriptOp};
use esker_rt::{Rt, Sim, SimConfig};
use esker_testkit::files::breach::actor;
use esker_testkit::files::listing;
use esker_vfs::{Call, FileSystem, Stamp};

const SIZE: u64 = 6 << 20;
const PIECE: usize = 4096;
/// Lines of an input that are tried.
const LINES_MAX: usize = 12;
const NOW: Stamp = Stamp(1_700_000_000_000_000_000);
/// What is there when the snapshot is made, and what is done behind it.
const BEFORE: &str = "open #0 file rdwr,creat 0644\nwrite #0 600000 x1\nmkdir dir 0755\nopen #1 dir/gone rdwr,creat 0644\n\
    write #1 300000 x2\nsync all\nclose #1\n";
const BEHIND: &str = "write #0 200000 x3 @100000\nsync all\nunlink dir/gone\nwrite #0 100000 x4 @400000\nsync all\n\
    close #0\nsymlink file dir/link\nsync all\n";
/// Calls that only ask.
const ASKS: [&str; 6] = ["totals", "segments", "virtual_blocks", "dat_blocks", "checkpoints", "logs"];
const LINES: &str = r#"1 "claim"
2 "claim"
1 "release"
1 "totals"
1 "sync"
1 {"segments":0}
1 {"segments":18446744073709551615}
1 {"set_segments":[{"segment":3,"fields":5,"changed":1700000009,"blocks":0,"flags":2,"live":{"live":0,"snapshot":0,"changed":0}}]}
1 {"set_segments":[{"segment":9,"fields":56,"changed":0,"blocks":0,"flags":0,"live":{"live":7,"snapshot":3,"changed":1700000009}},{"segment":10,"fields":4,"changed":0,"blocks":0,"flags":4,"live":{"live":0,"snapshot":0,"changed":0}}]}
1 {"virtual_blocks":[1,2,3,700,100000]}
1 {"dat_blocks":[{"index":0,"level":0,"place":0},{"index":1,"level":1,"place":7}]}
1 {"checkpoints":[1,"All"]}
1 {"checkpoints":[0,"Snapshots"]}
1 {"set_mode":[3,"Snapshot"]}
1 {"set_mode":[4,"Checkpoint"]}
1 {"delete_checkpoint":2}
1 {"logs":1}
1 {"clean":{"victims":[2],"moves":[{"p":130,"s":0,"f":1}],"dat":[{"index":0,"level":0,"place":140}],"freed":[5,6],"periods":[[1,3]]}}
2 {"clean":{"victims":[],"moves":[],"dat":[],"freed":[],"periods":[[0,18446744073709551615]]}}
1 {"include":[4,5]}
"#;

struct Base {
    /// What is not zero of the medium: where it lies, and its bytes.
    pieces: Vec<(u64, Vec<u8>)>,
    snapshot: u64,
    latest: Vec<String>,
    kept: Vec<String>,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let (media, sim) = (Media::new(SIZE), Sim::new(SimConfig::seeded(1)));
    let (rt, made) = (sim.rt(), media.clone());
    let (snapshot, latest, kept) = sim.block_on(async move {
        let config = MkfsConfig {
            block_bytes: 1024,
            segment_bytes: Some(64 << 10),
            live_counters: true,
            ..MkfsConfig::usual(NOW)
        };
        mkfs(&rt, device(&rt, &made), &config).await.expect("memory takes it");
        let fs = Rc::new(Lfs::open(&rt, device(&rt, &made), NOW).await.expect("it was just made"));
        let files: Rc<dyn FileSystem> = fs.clone();
        let mut player = actor(files);
        play(&mut player, BEFORE).await;
        let number = fs.ask(&["snapshot".to_string()]).await.expect("there is room");
        let kept = rows(&*fs).await.expect("it was just written");
        play(&mut player, BEHIND).await;
        let latest = rows(&*fs).await.expect("it was just written");
        drop(player);
        fs.close().await.expect("memory takes it");
        (number.trim().parse().expect("a number"), latest, kept)
    });
    let image = media.bytes(ByteRange::new(0, SIZE).expect("it begins at 0"));
    let pieces = (0..).step_by(PIECE).zip(image.chunks(PIECE)).filter(|(_, piece)| piece.iter().any(|byte| *byte != 0));
    Base { pieces: pieces.map(|(at, piece)| (at, piece.to_vec())).collect(), snapshot, latest, kept }
});

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<MemoryDevice> {
    Rc::new(MemoryDevice::over(rt, media.clone(), crate::world::SECTOR, Defer::Never))
}

async fn play(player: &mut impl Player, script: &str) {
    for op in ScriptOp::script(script).expect("it is one") {
        let outcome = player.call(&op).await;
        assert!(!matches!(outcome, Outcome::Failed(_)), "{op}: {outcome}");
    }
}

async fn rows(fs: &dyn FileSystem) -> Result<Vec<String>, String> {
    listing::rows(fs, Call::at(NOW)).await.map_err(|error| format!("the tree cannot be read: {error:?}"))
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let orders = (0..FLAWS.len() as u8).map(|flaw| vec![b'!', flaw.wrapping_mul(5), flaw, 3]);
    let lines = LINES.lines().map(|line| line.as_bytes().to_vec());
    let all: Vec<Vec<u8>> = orders.chain(lines).collect();
    let joined = all.chunks(7).map(|some| some.join(&b'\n'));
    joined.chain(all.iter().cloned()).collect()
}

/// Whether a call did something.
pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let mut store = SparseStore::default();
    BASE.pieces.iter().for_each(|(at, piece)| store.write(*at, piece));
    let (media, sim) = (Media::of(SIZE, store), Sim::new(SimConfig::seeded(1)));
    let (rt, lines) = (sim.rt(), input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).take(LINES_MAX));
    let lines: Vec<Vec<u8>> = lines.collect();
    sim.block_on(async move {
        let fs = Lfs::open(&rt, device(&rt, &media), NOW).await.map_err(|error| error.to_string())?;
        let control = fs.control();
        control.sync().await.map_err(|errno| format!("it cannot be made durable: {errno}"))?;
        let mut has_changed = false;
        for line in &lines {
            let before = State::of(&control).await?;
            let may_change = match line.strip_prefix(b"!") {
                Some(bytes) => try_order(&control, &before, bytes).await?,
                None => try_line(&fs, &String::from_utf8_lossy(line)).await?,
            };
            let after = State::of(&control).await?;
            if !may_change && before != after {
                let line = String::from_utf8_lossy(line);
                return Err(format!("{line}: refused or only asked, and something changed:\n{before:?}\n{after:?}"));
            }
            has_changed |= before != after;
        }
        if rows(&fs).await? != BASE.latest {
            return Err("the tree has changed".to_string());
        }
        if has_changed {
            judge(&rt, &media, fs).await?;
        }
        Ok(has_changed)
    })
}

/// Nothing is lost on the medium.
async fn judge(rt: &Rt, media: &Rc<Media>, fs: Lfs) -> Result<(), String> {
    let snapshots = fs.control().checkpoints(BASE.snapshot, Checkpoints::Snapshots).await;
    let is_kept = snapshots.is_ok_and(|all| all.iter().any(|one| one.cno == BASE.snapshot));
    fs.close().await.map_err(|errno| format!("it cannot be closed: {errno}"))?;
    let found = check(rt, device(rt, media)).await.map_err(|error| error.to_string())?;
    if let Some(finding) = found.findings.first() {
        return Err(format!("{finding}"));
    }
    let reader = LfsReader::open(rt, device(rt, media), None).await.map_err(|error| error.to_string())?;
    if rows(&reader).await? != BASE.latest {
        return Err("the tree on the medium has changed".to_string());
    }
    if is_kept {
        let old =
            LfsReader::open(rt, device(rt, media), Some(BASE.snapshot)).await.map_err(|error| error.to_string())?;
        if rows(&old).await? != BASE.kept {
            return Err("the snapshot has changed".to_string());
        }
    }
    Ok(())
}

/// What cleaners see.
#[derive(PartialEq, Debug)]
struct State {
    totals: LfsTotals,
    segments: Vec<SegmentInfo>,
    checkpoints: Vec<CheckpointInfo>,
}

impl State {
    async fn of(control: &CleanerSession) -> Result<State, String> {
        let told = |errno: Errno| format!("the state cannot be read: {errno}");
        Ok(State {
            totals: control.totals().await.map_err(told)?,
            segments: control.segments(0).await.map_err(told)?,
            checkpoints: control.checkpoints(1, Checkpoints::All).await.map_err(told)?,
        })
    }
}

/// Makes the call of a line. Whether it may have changed something.
async fn try_line(fs: &Lfs, line: &str) -> Result<bool, String> {
    let (number, call) = line.split_once(' ').unwrap_or((line, ""));
    let answer = match fs.ask(&[wire::WORD, number, call].map(str::to_string)).await {
        Ok(answer) => answer,
        Err(Errno::EINVAL) if number.parse::<u64>().is_err() => return Ok(false),
        Err(errno) => return Err(format!("{line}: no answer: {errno}")),
    };
    let told: serde_json::Value = serde_json::from_str(&answer).map_err(|_| format!("{line}: answers {answer}"))?;
    let word = word_of(call);
    match (told.get("ok"), told.get("errno").and_then(serde_json::Value::as_u64)) {
        (Some(_), None) if word.is_some() => Ok(!word.is_some_and(|word| ASKS.contains(&word.as_str()))),
        (None, Some(errno)) if word.is_some() || errno == u64::from(Errno::EINVAL.0) => Ok(false),
        _ => Err(format!("{line}: answers {answer}")),
    }
}

/// The word of a call; `None` if it is no JSON of its form.
fn word_of(call: &str) -> Option<String> {
    match serde_json::from_str(call).ok()? {
        serde_json::Value::String(word) => Some(word),
        serde_json::Value::Object(object) if object.len() == 1 => object.keys().next().cloned(),
        _ => None,
    }
}

/// How an order is wrong.
#[derive(Clone, Copy)]
enum Flaw {
    None,
    /// It leaves out one block.
    Lacking,
    /// It calls what lives dead.
    Dead,
    /// It names a block twice.
    Doubled,
    /// A place is another one.
    Displaced,
    /// It deletes checkpoints that are there, snapshots among them, and now and then some that cannot be.
    Periods,
    /// It names a victim twice.
    Victims,
    /// It names a second victim, and none of its blocks.
    Second,
}

/// By the byte that chooses one; other bytes choose none.
const FLAWS: [Flaw; 8] =
    [Flaw::None, Flaw::Lacking, Flaw::Dead, Flaw::Doubled, Flaw::Displaced, Flaw::Periods, Flaw::Victims, Flaw::Second];

/// Orders a segment to be cleaned, with a flaw. Whether something may have changed.
async fn try_order(control: &CleanerSession, state: &State, bytes: &[u8]) -> Result<bool, String> {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let dirty: Vec<u64> =
        state.segments.iter().filter(|info| info.flags == segment_flag::DIRTY).map(|info| info.segment).collect();
    let Some(victim) = dirty.get(usize::from(byte(0)) % dirty.len().max(1)) else { return Ok(false) };
    let mut order = whole_order(control, *victim).await?;
    let flaw = FLAWS.get(usize::from(byte(1))).copied().unwrap_or(Flaw::None);
    let which = usize::from(byte(2));
    let at = which % order.moves.len().max(1);
    match flaw {
        Flaw::None => {}
        _ if order.moves.is_empty() => return Ok(false),
        Flaw::Lacking => drop(order.moves.remove(at)),
        Flaw::Dead => {
            let place = order.moves.remove(at).place;
            let logs = control.logs(*victim).await.map_err(|errno| errno.to_string())?;
            let block = logs.blocks.iter().find(|block| block.place == place);
            if let Some(Payload::Data { vblock, .. } | Payload::Node { vblock }) = block.map(|block| block.what) {
                order.freed.push(vblock);
            }
        }
        Flaw::Doubled => order.moves.push(order.moves[at]),
        Flaw::Displaced => order.moves[at].place += 1 + which as u64,
        Flaw::Periods => order.periods.push((which as u64 % 4, state.totals.cno + which as u64 / 4 % 2)),
        Flaw::Victims => order.victims.push(*victim),
        Flaw::Second => order.victims.extend(dirty.iter().find(|other| *other != victim)),
    }
    match (control.clean(order).await, flaw) {
        (Ok(_), Flaw::Lacking | Flaw::Second) => Err(format!("segment {victim}: an order that lacks blocks is taken")),
        (Ok(_), _) => Ok(true),
        (Err(_), _) => Ok(false),
    }
}

/// What a careful cleaner would order.
async fn whole_order(control: &CleanerSession, victim: u64) -> Result<CleaningOrder, String> {
    let told = |errno: Errno| format!("segment {victim}: {errno}");
    let mut order = CleaningOrder { victims: vec![victim], ..CleaningOrder::default() };
    for block in control.logs(victim).await.map_err(told)?.blocks {
        match block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => {
                let life = control.virtual_blocks(vec![vblock]).await.map_err(told)?[0];
                if life.place == block.place {
                    order.moves.push(MovedVirtual { place: block.place, period_start: 0, flags: 0 });
                }
            }
            Payload::DatData { index } => order.dat.push(DatBlock { index, level: 0, place: block.place }),
            Payload::DatNode { index, level } => order.dat.push(DatBlock { index, level, place: block.place }),
        }
    }
    Ok(order)
}
