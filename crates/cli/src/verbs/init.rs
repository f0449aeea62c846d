//! `esker init`: makes the media of a stack.

use std::collections::BTreeMap;
use std::path::Path;

use esker_block::{Arity, Kind};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{DeviceSpec, InitError, Making, Medium, Spec, Stack, Wanted};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::{Pace, Watcher};
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Init>(About {
    words: &["init"],
    summary: "Make the media of a stack on new files and devices",
    details: "Goes through the stack from the bottom and makes the medium of each layer that has one (mirror, logvol, \
              thin, dedup, offload, shepherd), through the layers below it. Creates missing files and keeps existing \
              media. A device that is neither blank nor a medium of its layer is refused and named, unless --force \
              says to destroy it. All checks come first; until then nothing is created or written. No server may use \
              the stack meanwhile.",
    examples: &[
        Example { line: "esker init stack.toml", does: "makes what is not there yet" },
        Example { line: "esker init stack.toml --dry-run", does: "shows what that would do, and changes nothing" },
        Example {
            line: "esker init stack.toml --device vm --force",
            does: "makes the medium of one layer again, and destroys its content",
        },
    ],
});

#[derive(clap::Args)]
struct Init {
    #[command(flatten)]
    stack: StackText,
    /// Only this layer and what is below it
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Make the medium of the named layer again, or those of all layers, and destroy their content
    #[arg(long)]
    force: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The plan as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("there is no layer \"{0}\" with a medium of its own in this stack; `esker stack dump` shows its names")]
    Unknown(String),
    #[error("no layer of this stack has a medium of its own, so nothing is to be made")]
    Nothing,
    #[error("{path}: cannot be read: {source}")]
    Unreadable { path: String, source: std::io::Error },
}

/// A file that is not there yet.
struct Created {
    device: String,
    path: String,
    bytes: String,
}

impl Run for Init {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of tables that are written"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let spec = self.stack.load_by_name()?.of_media(esker_kinds::ALL, self.device.as_deref());
        let forced = match (self.force, &self.device) {
            (false, _) => Vec::new(),
            (true, Some(name)) => vec![name.clone()],
            (true, None) => spec.devices.iter().map(|device| device.name.clone()).collect(),
        };
        let (created, holds) = survey(&spec)?;
        let wanted = Wanted { holds, forced, rehearse: true };
        let media = make(&esker_kinds::REHEARSED, &spec, &wanted)?;
        match &self.device {
            Some(name) if !media.iter().any(|medium| medium.name == *name) => {
                return Err(Refused::Unknown(name.clone()).into());
            }
            None if media.is_empty() => return Err(Refused::Nothing.into()),
            _ => {
                terminal.say(&if self.json { as_json(&created, &media).to_string() } else { told(&created, &media) })?
            }
        }
        if !self.dry_run {
            make(esker_kinds::ALL, &spec, &Wanted { rehearse: false, ..wanted })?;
        }
        Ok(())
    }
}

fn make(kinds: &'static [&'static Kind], spec: &Spec, wanted: &Wanted) -> Result<Vec<Medium>, Failure> {
    let reactor = Reactor::new(RealConfig::seeded(1))?;
    let rt = reactor.rt();
    rt.set_secrets(crate::secrets::source());
    rt.set_watch(Some(Watcher::standard().watch()));
    let (spec, wanted) = (spec.clone(), wanted.clone());
    let made: Result<Vec<Medium>, InitError> =
        reactor.block_on(async move { Stack::init(&rt, &Pool::default(), kinds, &spec, &wanted).await });
    Ok(made?)
}

/// The files that would be created, and what the others hold, by device.
fn survey(spec: &Spec) -> Result<(Vec<Created>, BTreeMap<String, String>), Refused> {
    let (mut created, mut holds) = (Vec::new(), BTreeMap::new());
    for device in &spec.devices {
        let Some(path) = path_of(device) else { continue };
        let unreadable = |source| Refused::Unreadable { path: path.to_string(), source };
        if !Path::new(path).try_exists().map_err(unreadable)? {
            let bytes = device.args.get("size").cloned().unwrap_or_default();
            created.push(Created { device: device.name.clone(), path: path.to_string(), bytes });
            continue;
        }
        let found = esker_dev::rehearsal::content(Path::new(path)).map_err(unreadable)?;
        if !found.is_empty() {
            holds.insert(device.name.clone(), format!("{path} holds {}", found.join(", ")));
        }
    }
    Ok((created, holds))
}

/// The file or block device that a device at the bottom is.
fn path_of(device: &DeviceSpec) -> Option<&str> {
    let kind = esker_kinds::ALL.iter().find(|kind| kind.name == device.kind)?;
    device.args.get("path").map(String::as_str).filter(|_| kind.lowers == Arity::None)
}

fn told(created: &[Created], media: &[Medium]) -> String {
    let files = created.iter().map(|file| format!("create {}: {}", file.path, file.bytes));
    let media = media.iter().map(|Medium { name, kind, done }| match done {
        Making::Made => format!("make {name} ({kind})"),
        Making::Kept => format!("keep {name} ({kind}): it is there already"),
        Making::Anew(lost) => format!("make {name} ({kind}) anew; DESTROYED: {}", lost.join("; ")),
    });
    files.chain(media).collect::<Vec<_>>().join("\n")
}

fn as_json(created: &[Created], media: &[Medium]) -> Value {
    let files: Vec<Value> =
        created.iter().map(|file| json!({ "device": file.device, "path": file.path, "size": file.bytes })).collect();
    let medium = |Medium { name, kind, done }: &Medium| {
        let (word, lost) = match done {
            Making::Made => ("make", Vec::new()),
            Making::Kept => ("keep", Vec::new()),
            Making::Anew(lost) => ("make", lost.clone()),
        };
        json!({ "device": name, "kind": kind, "does": word, "destroys": lost })
    };
    json!({ "create": files, "media": media.iter().map(medium).collect::<Vec<_>>() })
}
