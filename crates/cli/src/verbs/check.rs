//! `esker check`: whether what layers keep on files and devices is sound.

use std::io;
use std::rc::Rc;

use esker_base::Progress;
use esker_block::{Fact, MediaCheck, ReadMedium};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::media::{self, ReadFile};
use crate::progress::{Pace, Watcher};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Check>(About {
    words: &["check"],
    summary: "Check what layers keep on files and devices",
    details: "Reads media that no stack uses. Members of a mirror are named together: their superblocks must fit \
              together, and their data must be equal where no superblock says that it may differ. For an \
              off-loading log, the checker reads all records and their checksums. For a deduplicated volume, it \
              compares the tables with each other and all bytes with their fingerprints. For a log-structured \
              volume, it reads what opening reads: superblock, map, log, and names of volumes. Nothing is written. \
              The exit status is 1 if anything is wrong.",
    examples: &[
        Example { line: "esker check a.img b.img", does: "compares the members of a mirror" },
        Example { line: "esker check log.img", does: "reads a log of off-loaded writes" },
        Example { line: "esker check dedup.img --json", does: "checks a deduplicated volume and prints JSON" },
        Example { line: "esker check disk.img", does: "does all that opening a volume would do, without a write" },
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

/// A file that no layer has marked.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: holds nothing that is known here ({1} are); name the file or device on which the layer stands, not its volume"
)]
struct Unknown(String, String);

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
struct Unreadable(String, io::Error);

/// Something is wrong; it was told.
#[derive(Debug, thiserror::Error)]
#[error("not everything is sound")]
struct Unsound;

/// A file whose reads show how far the check is.
struct Watched {
    path: String,
    file: ReadFile,
    watcher: Watcher,
}

impl ReadMedium for Watched {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, out)?;
        self.watcher.tell(Progress::bytes(&self.path, at + out.len() as u64, self.size()));
        Ok(())
    }
}

/// Files that are checked together.
struct Job<'a> {
    by: MediaCheck,
    paths: Vec<&'a str>,
    media: Vec<Rc<dyn ReadMedium>>,
}

impl Run for Check {
    const PACE: Option<Pace> = Some(Pace::Shows("the place in each file"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for path in &self.files {
            let unreadable = |error| Unreadable(path.clone(), error);
            let file = ReadFile::open(path).map_err(unreadable)?;
            let by = media::checker(&file).map_err(unreadable)?.ok_or_else(|| Unknown(path.clone(), known()))?;
            let medium: Rc<dyn ReadMedium> = Rc::new(Watched { path: path.clone(), file, watcher: terminal.watcher() });
            match jobs.iter_mut().find(|job| by.is_set && job.by.holds == by.holds) {
                Some(job) => {
                    job.paths.push(path);
                    job.media.push(medium);
                }
                None => jobs.push(Job { by, paths: vec![path], media: vec![medium] }),
            }
        }
        let mut is_sound = true;
        for job in &jobs {
            is_sound &= job.run(self.json, terminal)?;
        }
        if is_sound { Ok(()) } else { Err(Unsound.into()) }
    }
}

fn known() -> String {
    media::checkers().map(|check| check.media).collect::<Vec<_>>().join(", ")
}

impl Job<'_> {
    /// Whether all is sound; tells it.
    fn run(&self, as_json: bool, terminal: &mut Terminal) -> Result<bool, Failure> {
        let (holds, paths) = (self.by.holds, self.paths.join(", "));
        let mut fields = Map::new();
        let (is_sound, text) = match (self.by.check)(&self.media) {
            Ok(found) => {
                fields.extend(found.facts.into_iter().map(|(name, fact)| (name.to_string(), value(fact))));
                (found.is_sound, format!("{paths}: {}", found.text))
            }
            Err(error) => {
                fields.insert("error".to_string(), error.to_string().into());
                (false, format!("{paths}: {holds}: {error}"))
            }
        };
        fields.extend([
            ("files".to_string(), json!(self.paths)),
            ("holds".to_string(), holds.into()),
            ("sound".to_string(), is_sound.into()),
        ]);
        let line = if as_json { Value::Object(fields).to_string() } else { text };
        terminal.say(&line)?;
        Ok(is_sound)
    }
}

fn value(fact: Fact) -> Value {
    match fact {
        Fact::Count(count) => count.into(),
        Fact::Texts(texts) => texts.into(),
    }
}
