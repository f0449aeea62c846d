//! Traces of NFS servers: no text brings a replay down, makes it exceed its memory, or leads out of its directory.

use std::io::Read;
use std::rc::Rc;

use esker_fs_posix::script::at_once;
use esker_fs_posix::{Settings, World};
use esker_rt::mem::Pool;
use esker_trace_nfs::player::NfsPayload;
use esker_trace_nfs::replay::NfsRun;
use esker_trace_nfs::{NfsGenerator, NfsReplayOptions, NfsShape, ProcessTarget};
use esker_vfs::{Cred, Ram, RamConfig, Stamp};

/// Memory of the tables, and room of the file system, in bytes: hostile traces reach both.
const MEMORY: u64 = 256 << 10;
const ROOM: u64 = 1 << 20;
/// Memory that requests without replies leave to the image.
const IMAGE: u64 = MEMORY - MEMORY / 8;
/// Largest node beside the limit: one operation adds a few of them, before the next one collects.
const SLACK: u64 = 16 << 10;
/// The one directory of the root that a replay must not touch.
const KEPT: &str = "kept";

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let text = |seed, operations| {
        let mut text = Vec::new();
        let shape = NfsShape { users: 3, scale: 0.01, operations: Some(operations), loss: 0.1, ..NfsShape::tiny(seed) };
        NfsGenerator::new(shape).read_to_end(&mut text).expect("it is made in memory");
        text
    };
    (1..8).map(|seed| text(seed, seed * 8)).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let files = Ram::new(RamConfig::sized(ROOM), Pool::new(0));
    let world = World::new(Rc::new(files), Settings::usual(), || Stamp(0));
    let process = world.process(Cred::root());
    at_once(process.mkdir(KEPT, 0o755)).map_err(|error| error.to_string())?;
    let target = ProcessTarget::new(process.clone(), |_| std::future::ready(()));
    let options =
        NfsReplayOptions { memory: MEMORY, sync_every: None, payload: NfsPayload::Zeroes, begin: None, end: None };
    let mut run = NfsRun::new(target, options);
    for line in input.split(|byte| *byte == b'\n') {
        at_once(run.line(line, false));
        let bytes = run.player().tree().bytes();
        if bytes > IMAGE + SLACK {
            return Err(format!("the image takes {bytes} bytes of {IMAGE}"));
        }
    }
    let report = at_once(run.finish());
    let told = report.pairs() + report.refused + report.orphans;
    if told != report.responses {
        return Err(format!("{} replies become {told}", report.responses));
    }
    at_once(process.rmdir(KEPT)).map_err(|error| format!("a directory of others: {error}"))?;
    Ok(report.pairs() > 0)
}
