//! `esker lfs`: checkpoints, snapshots and segments of a log-structured file system, mounted by a server or not.

use esker_serve::Command;

use crate::control::Control;
use crate::failure::Failure;
use crate::lfs_image::LfsImage;
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record of `esker lfs snapshot`.
pub const SNAPSHOT: Verb = Verb::of::<SnapshotArgs>(About {
    words: &["lfs", "snapshot"],
    summary: "Keep a checkpoint for good",
    details: "A checkpoint is the state of the whole file system at one instant. The cleaner deletes old ones when it \
              needs their room. A snapshot is one that stays, until --undo makes it a checkpoint again. Nothing is \
              copied. `esker mount lfs DIR -o checkpoint=NUMBER` shows it.",
    examples: &[
        Example {
            line: "esker lfs snapshot --mount home",
            does: "keeps the state as it is now, and prints its number",
        },
        Example {
            line: "esker lfs snapshot 7 --undo --on 'disk = file path=lfs.img @'",
            does: "lets the cleaner delete checkpoint 7 of a file system that is not mounted",
        },
    ],
});

/// The record of `esker lfs checkpoints`.
pub const CHECKPOINTS: Verb = Verb::of::<CheckpointsArgs>(About {
    words: &["lfs", "checkpoints"],
    summary: "List checkpoints and snapshots",
    details: "Prints a line for each: number, `cp` for a checkpoint or `ss` for a snapshot, seconds since 1970 at which \
              it was made, and inodes in use.",
    examples: &[Example { line: "esker lfs checkpoints --mount home", does: "lists those of a mount of the server" }],
});

/// The record of `esker lfs segments`.
pub const SEGMENTS: Verb = Verb::of::<SegmentsArgs>(About {
    words: &["lfs", "segments"],
    summary: "Show how full segments are",
    details: "Prints a line for each segment in use. Flags are `a` for one where the log goes on, `d` for dirty and `e` \
              for one that must not be written. The counters are advice for the cleaner: live blocks, and blocks that \
              snapshots protected when the cleaner last looked. `-` stands for a counter that the image does not have. \
              `esker fs check lfs` compares them with a count.",
    examples: &[
        Example { line: "esker lfs segments --mount home", does: "shows those of a mount of the server" },
        Example { line: "esker lfs segments --on 'disk = file path=lfs.img @' --json", does: "tells programs" },
    ],
});

/// The record of `esker lfs clean`.
pub const CLEAN: Verb = Verb::of::<CleanArgs>(About {
    words: &["lfs", "clean"],
    summary: "Give back the room of what no longer lives",
    details: "Runs the cleaner once over all segments. Blocks that live or that a snapshot has move together; all \
              checkpoints that lose blocks are deleted. Without this, the cleaner of the mount begins when few segments are clean.",
    examples: &[Example { line: "esker lfs clean --mount home", does: "cleans that of a mount of the server" }],
});

/// Which file system.
#[derive(clap::Args)]
struct Target {
    #[command(flatten)]
    control: Control,
    /// Name of a mount of the server
    #[arg(long, value_name = "NAME", required_unless_present = "on")]
    mount: Option<String>,
    /// Stack on whose one export the file system lies, if no program uses it
    #[arg(long, value_name = "STACK", conflicts_with = "mount")]
    on: Option<String>,
}

#[derive(clap::Args)]
struct SnapshotArgs {
    #[command(flatten)]
    target: Target,
    /// Number of the checkpoint [default: the state as it is now]
    #[arg(value_name = "NUMBER")]
    number: Option<u64>,
    /// Makes a snapshot a checkpoint again
    #[arg(long, requires = "number")]
    undo: bool,
}

#[derive(clap::Args)]
struct CheckpointsArgs {
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
struct SegmentsArgs {
    #[command(flatten)]
    target: Target,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct CleanArgs {
    #[command(flatten)]
    target: Target,
}

impl Target {
    fn ask(self, terminal: &mut Terminal, words: &[&str]) -> Result<(), Failure> {
        let answer = self.answer(terminal, words)?;
        terminal.say(answer.trim_end())
    }

    fn answer(self, terminal: &mut Terminal, words: &[&str]) -> Result<String, Failure> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        match self.mount {
            Some(device) => {
                let answer = self.control.ask(&Command::Order { device, words })?;
                Ok(answer.as_str().map_or_else(|| answer.to_string(), str::to_string))
            }
            None => LfsImage::on(self.on.as_deref())?.ask(words, terminal),
        }
    }
}

impl Run for SnapshotArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let word = if self.undo { "checkpoint" } else { "snapshot" };
        match self.number {
            None => self.target.ask(terminal, &[word]),
            Some(number) => self.target.ask(terminal, &[word, &number.to_string()]),
        }
    }
}

impl Run for CheckpointsArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.target.ask(terminal, &["checkpoints"])
    }
}

impl Run for CleanArgs {
    const PACE: Option<Pace> = Some(Pace::Shows("segments"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.target.ask(terminal, &["clean"])
    }
}

/// What a line tells of a segment.
const COLUMNS: [&str; 7] = ["segment", "flags", "blocks", "live", "protected", "written", "counted"];

impl Run for SegmentsArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let answer = self.target.answer(terminal, &["segments"])?;
        let rows: Vec<Vec<&str>> = answer.lines().map(|line| line.split(' ').collect()).collect();
        if self.json {
            let rows: Vec<_> = rows.iter().map(|row| segment_json(row)).collect();
            return terminal.say(&serde_json::Value::from(rows).to_string());
        }
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        terminal.say(&table(&COLUMNS, &rows))
    }
}

/// A line of a segment as an object: counters that are not there are null.
fn segment_json(row: &[&str]) -> serde_json::Value {
    let cells = COLUMNS.iter().zip(row).map(|(column, cell)| {
        let value = match (*column, cell.parse::<u64>()) {
            ("flags", _) => (*cell).into(),
            (_, Ok(number)) => number.into(),
            (_, Err(_)) => serde_json::Value::Null,
        };
        (column.to_string(), value)
    });
    serde_json::Value::Object(cells.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_segment_is_an_object() {
        let line = ["7", "ad-", "120", "-", "-", "1800000000", "-"];
        let told = segment_json(&line).to_string();
        assert!(told.contains("\"segment\":7") && told.contains("\"flags\":\"ad-\""), "{told}");
        assert!(told.contains("\"live\":null") && told.contains("\"written\":1800000000"), "{told}");
    }
}
