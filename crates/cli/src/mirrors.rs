//! What the verbs of mirrors share: which mirror is meant, what it answers, and the wait for its work.

use std::thread::sleep;
use std::time::Duration;

use esker_base::Progress;
use esker_base::units::size_human;
use esker_serve::Command;
use esker_stack::Spec;
use serde_json::Value;

use crate::control::Control;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The kind that understands the orders of these verbs.
const KIND: &str = "mirror";
/// How long requests in flight may hold a change up, in milliseconds.
pub const PATIENCE_MS: u64 = 10_000;
/// Time between two looks at work in the background.
const LOOK: Duration = Duration::from_millis(200);

/// The mirror that is meant.
#[derive(clap::Args)]
pub struct Mirror {
    #[command(flatten)]
    pub control: Control,
    /// The mirror, by its name in the stack
    #[arg(value_name = "MIRROR")]
    pub name: String,
}

/// Why it cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error("there is no mirror \"{0}\" in the stack; `esker stack dump` shows its names")]
    None(String),
    #[error("\"{member}\" is no member of \"{mirror}\"; its members are {known}")]
    NoMember { mirror: String, member: String, known: String },
    #[error("\"{0}\" {1}")]
    NotBack(String, String),
}

impl Mirror {
    /// The names of its members.
    ///
    /// # Errors
    /// There is no such mirror, or no server.
    pub fn members(&self) -> Result<Vec<String>, Failure> {
        let spec = self.control.spec()?;
        let found = spec.device(&self.name).filter(|device| device.kind == KIND);
        Ok(found.ok_or_else(|| MirrorError::None(self.name.clone()))?.on.clone())
    }

    /// The number of a member.
    ///
    /// # Errors
    /// It is none, or the mirror cannot be asked.
    pub fn number(&self, member: &str) -> Result<usize, Failure> {
        let members = self.members()?;
        let found = members.iter().position(|name| name == member);
        let (mirror, known) = (self.name.clone(), members.join(", "));
        Ok(found.ok_or_else(|| MirrorError::NoMember { mirror, member: member.to_string(), known })?)
    }

    /// What the stack file must say of the mirror, and of the device that has come.
    ///
    /// # Errors
    /// There is no such mirror, or no server.
    pub fn text(&self, new: Option<&str>) -> Result<String, Failure> {
        let spec = self.control.spec()?;
        let of = |name: &str| spec.device(name).cloned();
        let devices = new.and_then(of).into_iter().chain(of(&self.name)).collect();
        let text = Spec { devices, ..Spec::default() }.to_toml();
        Ok(format!("\nIn the stack file:\n\n{}", text.trim_end()))
    }

    /// Gives it an order.
    ///
    /// # Errors
    /// The mirror or the server refuses.
    pub fn order(&self, words: &[&str]) -> Result<Value, Failure> {
        let words = words.iter().map(ToString::to_string).collect();
        self.control.ask(&Command::Order { device: self.name.clone(), words })
    }

    /// Shows progress until `done` finds that work is over in what the mirror tells. `part` names the work.
    ///
    /// # Errors
    /// The mirror cannot be asked, or what `done` answers.
    pub fn wait(
        &self,
        terminal: &Terminal,
        part: &str,
        mut done: impl FnMut(&Value) -> Result<bool, Failure>,
    ) -> Result<Value, Failure> {
        let watcher = terminal.watcher();
        loop {
            let told = self.order(&["members"])?;
            if let (Some(at), Some(all)) = (told[part]["done_bytes"].as_u64(), told[part]["bytes"].as_u64()) {
                watcher.tell(Progress::bytes(part, at, all));
            }
            if done(&told)? {
                return Ok(told);
            }
            sleep(LOOK);
        }
    }
}

/// Whether a member is in sync.
///
/// # Errors
/// It does not come.
pub fn is_in_sync(name: &str, member: &Value) -> Result<bool, Failure> {
    match (member["state"].as_str(), member["trouble"].as_str()) {
        (Some("in sync"), _) => Ok(true),
        (Some("offline"), Some(why)) => Err(MirrorError::NotBack(name.to_string(), why.to_string()).into()),
        _ => Ok(false),
    }
}

/// The members in rows, and the work that goes on.
pub fn shown(names: &[String], told: &Value) -> String {
    let row = |(name, member): (&String, &Value)| {
        let trouble = member["trouble"].as_str().map_or(String::new(), |why| format!(" ({why})"));
        format!("{name}: {}{trouble}", member["state"].as_str().unwrap_or("?"))
    };
    let members = told["members"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = names.iter().zip(members).map(row).collect();
    if told["resync"].is_object() {
        let resync = &told["resync"];
        lines.push(format!("resync: {} of {}", size(&resync["done_bytes"]), size(&resync["bytes"])));
    }
    if told["scrub"].is_object() {
        lines.push(scrubbed(&told["scrub"]));
    }
    lines.join("\n")
}

/// How far a scrub is, and what it found.
pub fn scrubbed(scrub: &Value) -> String {
    format!(
        "scrub: {} of {}; {} differed, {} could not be read",
        size(&scrub["done_bytes"]),
        size(&scrub["bytes"]),
        size(&scrub["differing_bytes"]),
        size(&scrub["unreadable_bytes"])
    )
}

/// A number of bytes for people.
fn size(bytes: &Value) -> String {
    bytes.as_u64().map_or_else(|| "?".to_string(), size_human)
}
