//! `esker fs stat`: what a file system is, can and promises, and its room.

use esker_base::units::size_human;
use esker_vfs::{Abilities, About as FsAbout, Call, Promise, Space, Stamp};
use serde_json::json;

use crate::failure::Failure;
use crate::fs_kinds;
use crate::lfs_image::{self, LfsImage};
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};
use crate::virtual_files::plain;

/// The record.
pub const VERB: Verb = Verb::of::<StatArgs>(About {
    words: &["fs", "stat"],
    summary: "Tell what a file system is, can and promises",
    details: "Opens a new file system of the kind and tells its units, limits, abilities and room, and what is \
              there after a crash. A kind that lies on a device is named before --on, which then names the stack.",
    examples: &[
        Example { line: "esker fs stat --on ram", does: "tells all of a file system in memory" },
        Example { line: "esker fs stat --on ram --json", does: "for programs" },
        Example { line: "esker fs stat lfs --on lfs.toml", does: "tells of the one on the export of a stack" },
    ],
});

#[derive(clap::Args)]
struct StatArgs {
    /// Kind of a file system that lies on a device: lfs
    #[arg(value_name = "KIND", value_parser = [lfs_image::KIND])]
    kind: Option<String>,
    /// Kind of a file system in memory, or with KIND the stack on whose one export it lies
    #[arg(long, value_name = "KIND|STACK")]
    on: String,
    /// Checkpoint that is opened (with KIND) [default: the latest]
    #[arg(long, value_name = "NUMBER", requires = "kind")]
    checkpoint: Option<u64>,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("{kind}: its room cannot be asked for: {errno}")]
struct NoRoom {
    kind: &'static str,
    errno: esker_base::Errno,
}

impl Run for StatArgs {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.kind.is_some() {
            let (about, space) = LfsImage::on(Some(&self.on))?.about(self.checkpoint, terminal)?;
            let text = if self.json {
                as_json(&about, space)
            } else {
                as_text(fs_kinds::find(lfs_image::KIND)?.summary, &about, space)
            };
            return terminal.say(&text);
        }
        let kind = fs_kinds::find(&self.on)?;
        let simulation = plain(kind, 1)?;
        let call = Call::at(Stamp(simulation.sim.rt().wall()));
        let files = simulation.files.clone();
        let space = simulation.sim.try_block_on(async move { files.space(call).await })?;
        let space = space.map_err(|errno| NoRoom { kind: kind.name, errno })?;
        let about = simulation.files.about();
        terminal.say(&if self.json { as_json(about, space) } else { as_text(kind.summary, about, space) })
    }
}

fn promise(promise: Promise) -> &'static str {
    match promise {
        Promise::None => "nothing: the medium is memory",
        Promise::Weak => "each object on its own",
        Promise::Prefix => "a prefix of the calls that holds all durable ones",
        Promise::Linear => "every completed call",
    }
}

fn abilities(can: &Abilities) -> [(&'static str, bool); 12] {
    let Abilities {
        xattrs,
        hard_links,
        symlinks,
        nodes,
        access_times,
        exchange,
        reserve,
        punch,
        holes,
        share,
        locks,
        flags,
    } = *can;
    [
        ("extended attributes", xattrs),
        ("hard links", hard_links),
        ("symbolic links", symlinks),
        ("devices and pipes", nodes),
        ("access times", access_times),
        ("exchange of names", exchange),
        ("reserved room", reserve),
        ("punched holes", punch),
        ("holes told", holes),
        ("shared bytes", share),
        ("locks of its own", locks),
        ("flags of inodes", flags),
    ]
}

fn as_text(summary: &str, about: &FsAbout, space: Space) -> String {
    let list = |wanted: bool| {
        let names = abilities(&about.can).into_iter().filter(|(_, can)| *can == wanted).map(|(name, _)| name);
        let names: Vec<&str> = names.collect();
        if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
    };
    let rows = [
        ("kind", format!("{}: {summary}", about.kind)),
        ("after a crash", promise(about.promise).to_string()),
        ("unit", size_human(u64::from(about.block))),
        ("times", format!("to {}", about.grain)),
        ("limits", format!("{} names of a file, {} bytes of a file", about.links_max, about.size_max)),
        ("room", format!("{} of {} free", size_human(space.bytes_free), size_human(space.bytes))),
        ("inodes", format!("{} of {} free", space.inodes_free, space.inodes)),
        ("can", list(true)),
        ("cannot", list(false)),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_string(), value]);
    table(&[], &rows)
}

fn as_json(about: &FsAbout, space: Space) -> String {
    let can: serde_json::Map<_, _> =
        abilities(&about.can).into_iter().map(|(name, can)| (name.replace(' ', "_"), json!(can))).collect();
    json!({
        "kind": about.kind,
        "after_a_crash": promise(about.promise),
        "block": about.block,
        "grain_ns": about.grain.0,
        "links_max": about.links_max,
        "size_max": about.size_max,
        "bytes": space.bytes,
        "bytes_free": space.bytes_free,
        "inodes": space.inodes,
        "inodes_free": space.inodes_free,
        "can": can,
    })
    .to_string()
}
