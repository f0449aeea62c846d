//! `esker media check`: whether what layers keep on files and devices is sound.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use esker_layer_dedup::check as dedup;
use esker_layer_dedup::layout::SUPERBLOCKS;
use esker_layer_dedup::superblock::Superblock as DedupSuperblock;
use esker_layer_mirror::assemble::Start;
use esker_layer_mirror::check as mirror;
use esker_layer_mirror::superblock::{DATA_START, Superblock};
use esker_layer_offload::check as offload;
use esker_layer_offload::format::AREA_START;
use esker_layer_offload::superblock::Superblock as LogSuperblock;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volume_media;

/// The record.
pub const VERB: Verb = Verb::of::<Check>(About {
    words: &["media", "check"],
    summary: "Check what layers keep on files and devices",
    details: "Looks at media that no stack uses now. Halves of a mirror are named together: their superblocks must fit together, \
              and their data must be equal wherever no superblock says that it may differ. Of a log of off-loaded writes all \
              records are read and their checksums compared; of a deduplicated volume the tables against each other, and \
              all bytes against their fingerprints; of a log-structured volume everything that opening it would read: superblock, \
              map, log and the names in it. Nothing is written. The exit status is 1 if anything is wrong.",
    examples: &[
        Example { line: "esker media check a.img b.img", does: "compares the halves of a mirror" },
        Example { line: "esker media check log.img", does: "reads a log of off-loaded writes" },
        Example { line: "esker media check dedup.img --json", does: "checks a deduplicated volume and prints JSON" },
        Example {
            line: "esker media check disk.img",
            does: "does all that opening a volume would do, without a write",
        },
    ],
});

#[derive(clap::Args)]
struct Check {
    /// Files or devices
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// One JSON object for each mirror, log and volume
    #[arg(long)]
    json: bool,
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Half,
    Log,
    Dedup,
    Volume,
}

/// A file that no layer has marked.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: holds nothing that is known here (halves of mirrors, logs of off-loaded writes, deduplicated and log-structured volumes \
     are); name the file or device on which the layer stands, not its volume"
)]
struct Unknown(String);

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
struct Unreadable(String, io::Error);

/// Something is wrong; it was told.
#[derive(Debug, thiserror::Error)]
#[error("not everything is sound")]
struct Unsound;

impl Run for Check {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut opened = Vec::new();
        for path in &self.files {
            let unreadable = |error| Unreadable(path.clone(), error);
            let file = File::open(path).map_err(unreadable)?;
            let holds = what(&file).map_err(unreadable)?.ok_or_else(|| Unknown(path.clone()))?;
            opened.push((path.as_str(), file, holds));
        }
        let of = |what: Holds| opened.iter().filter(move |(_, _, holds)| *holds == what);
        let mut verdicts: Vec<Verdict> = of(Holds::Log).map(|(path, file, _)| check_log(path, file)).collect();
        verdicts.extend(of(Holds::Dedup).map(|(path, file, _)| check_dedup(path, file)));
        verdicts.extend(of(Holds::Volume).map(|(path, file, _)| check_log_structured(path, file)));
        let halves: Vec<(&str, &File)> = of(Holds::Half).map(|(path, file, _)| (*path, file)).collect();
        if !halves.is_empty() {
            verdicts.push(check_mirror(&halves));
        }
        for verdict in &verdicts {
            let text = if self.json { verdict.json.to_string() } else { verdict.text.clone() };
            terminal.say(&text)?;
        }
        if verdicts.iter().all(|verdict| verdict.is_sound) { Ok(()) } else { Err(Unsound.into()) }
    }
}

/// What there is to tell of one mirror, log or volume.
struct Verdict {
    is_sound: bool,
    text: String,
    json: Value,
}

/// Reads the marks; none if there is none.
fn what(file: &File) -> io::Result<Option<Holds>> {
    let mut start = vec![0; DATA_START.max(AREA_START).max(SUPERBLOCKS) as usize];
    match file.read_exact_at(&mut start, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let is_half = !Superblock::newest(&start).is_err_and(|error| error.is_unmarked());
    let is_log = !LogSuperblock::newest(&start).is_err_and(|error| error.is_unmarked());
    let is_dedup = !DedupSuperblock::newest(&start).is_err_and(|error| error.is_unmarked());
    let is_volume = volume_media::is_volume(file)?;
    let marks = [(is_half, Holds::Half), (is_log, Holds::Log), (is_dedup, Holds::Dedup), (is_volume, Holds::Volume)];
    Ok(marks.into_iter().find_map(|(is_marked, holds)| is_marked.then_some(holds)))
}

fn check_log_structured(path: &str, file: &File) -> Verdict {
    match volume_media::check_volume(file) {
        Ok(found) => {
            let [free, log, map] = found.segments;
            let names = found.volumes.map_or(String::new(), |volumes| format!("{volumes} named volumes, "));
            Verdict {
                is_sound: true,
                text: format!(
                    "{path}: log-structured volume, checkpoint {}: {names}{} blocks in {} extents, {} records to replay, {} batches \
                     that never arrived; {free} segments free, {log} of the log, {map} of the map; sound",
                    found.generation, found.blocks, found.mappings, found.replayed, found.dropped,
                ),
                json: json!({
                    "files": [path], "holds": "volume", "sound": true, "generation": found.generation,
                    "named_volumes": found.volumes, "mapped_blocks": found.blocks, "extents": found.mappings,
                    "records": found.replayed, "dropped_batches": found.dropped, "segments_free": free,
                    "segments_of_log": log, "segments_of_map": map,
                }),
            }
        }
        Err(error) => failed(&[path], "volume", &error.to_string()),
    }
}

fn check_dedup(path: &str, file: &File) -> Verdict {
    match dedup::check(&mut |at, out| file.read_exact_at(out, at), true) {
        Ok(found) => {
            let is_sound = found.wrong == 0;
            let findings: Vec<String> = found.findings.iter().map(ToString::to_string).collect();
            let end = match findings.first() {
                Some(first) => format!("{} things WRONG, the first of them: {first}", found.wrong),
                None => "sound".to_string(),
            };
            Verdict {
                is_sound,
                text: format!(
                    "{path}: deduplicated volume: {} blocks in {} data blocks, {} records in the journal; {end}",
                    found.mapped, found.used, found.records,
                ),
                json: json!({
                    "files": [path], "holds": "dedup", "sound": is_sound, "mapped_blocks": found.mapped,
                    "data_blocks": found.used, "unindexed_blocks": found.unindexed, "records": found.records,
                    "wrong": found.wrong, "findings": findings,
                }),
            }
        }
        Err(error) => failed(&[path], "dedup", &error.to_string()),
    }
}

fn check_log(path: &str, file: &File) -> Verdict {
    match offload::check(&mut |at, out| file.read_exact_at(out, at)) {
        Ok(found) => {
            let (records, newest, size) = (found.records.len(), found.newest, found.superblock.home);
            Verdict {
                is_sound: true,
                text: format!(
                    "{path}: log of off-loaded writes for a volume of {size} bytes: {records} records, {newest} bytes not at \
                     home; sound"
                ),
                json: json!({
                    "files": [path], "holds": "offload", "sound": true, "records": records, "newest_bytes": newest,
                    "compared_bytes": found.compared, "volume_bytes": size,
                }),
            }
        }
        Err(error) => failed(&[path], "offload", &error.to_string()),
    }
}

fn check_mirror(halves: &[(&str, &File)]) -> Verdict {
    let paths: Vec<&str> = halves.iter().map(|(path, _)| *path).collect();
    match mirror::check(halves.len(), &mut |half, at, out| halves[half].1.read_exact_at(out, at)) {
        Ok(found) => {
            let is_sound = found.differing.is_empty();
            let superblock = &found.assembly.superblock;
            let (open, regions) = (superblock.dirty.count(), superblock.dirty.len());
            let differing: Vec<String> = found.differing.iter().map(ToString::to_string).collect();
            let end = match found.differing.first() {
                Some(first) => {
                    let count = differing.len();
                    format!("DIFFER although no superblock says so, in {count} places, the first of them bytes {first}")
                }
                None => "sound".to_string(),
            };
            let starts: Vec<&str> = found.assembly.halves.iter().map(|half| word(half.start)).collect();
            Verdict {
                is_sound,
                text: format!(
                    "{}: mirror of {} halves and {} bytes, generation {} ({}): {} bytes compared, {open} of {regions} regions \
                     may differ; {end}",
                    paths.join(", "),
                    superblock.members,
                    superblock.data,
                    superblock.generation,
                    starts.join(", "),
                    found.compared,
                ),
                json: json!({
                    "files": paths, "holds": "mirror", "sound": is_sound, "members": superblock.members, "volume_bytes": superblock.data,
                    "generation": superblock.generation, "halves": starts, "compared_bytes": found.compared,
                    "regions_that_may_differ": open, "differing": differing,
                }),
            }
        }
        Err(error) => failed(&paths, "mirror", &error.to_string()),
    }
}

fn word(start: Start) -> &'static str {
    match start {
        Start::InSync => "in sync",
        Start::Partial => "lacks the dirty regions",
        Start::Full => "lacks everything",
        Start::Out => "cannot be used",
    }
}

fn failed(paths: &[&str], holds: &str, error: &str) -> Verdict {
    Verdict {
        is_sound: false,
        text: format!("{}: {holds}: {error}", paths.join(", ")),
        json: json!({ "files": paths, "holds": holds, "sound": false, "error": error }),
    }
}
