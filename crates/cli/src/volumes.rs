//! What the verbs of named volumes share: where they ask, and how they show the answer.

use esker_base::units::size_human;
use esker_layer_thin::transfer::Ask;
use esker_serve::Command;
use esker_stack::{LayerOrderError, Spec};
use serde_json::Value;

use crate::control::Control;
use crate::failure::Failure;
use crate::opened_stack::OpenedStack;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
pub use crate::terminal::table;

/// The kind that understands the words of these verbs.
const KIND: &str = "thin";

/// The layer whose volumes are meant.
#[derive(clap::Args)]
pub struct Thin {
    #[command(flatten)]
    control: Control,
    /// File with the text of a stack that no server runs now, or the text itself: the command opens the stack itself
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,
    /// The layer of kind `thin`, if the stack has several
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Whose volumes, and how the answer is shown.
#[derive(clap::Args)]
pub struct Volumes {
    #[command(flatten)]
    thin: Thin,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

/// Why no layer could be asked.
#[derive(Debug, thiserror::Error)]
enum VolumesError {
    #[error("the stack has no layer of kind `{KIND}`")]
    None,
    #[error("the stack has several layers of kind `{KIND}`: {0}; name one with --device")]
    Several(String),
    #[error("there is no volume \"{0}\"; `esker volume list` shows them")]
    Unknown(String),
    #[error(transparent)]
    Order(#[from] LayerOrderError),
}

impl Volumes {
    /// Does what `words` say, and prints the answer as JSON, or as `render` puts it.
    ///
    /// # Errors
    /// The layer or server refuses, or cannot be reached.
    pub fn ask(
        self,
        terminal: &mut Terminal,
        words: Vec<String>,
        tell: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        let answer = self.thin.with(|manager| manager.order(words))?;
        let text = if self.json { answer.to_string() } else { tell(&answer) };
        if text.is_empty() { Ok(()) } else { terminal.say(&text) }
    }
}

impl Thin {
    /// Finds the layer, does something with it, and closes the stack if it was opened here.
    ///
    /// # Errors
    /// There is no such layer, it cannot be reached, or what `work` answers.
    pub fn with<T>(&self, work: impl FnOnce(&mut Manager<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let Some(text) = &self.stack else {
            let device = self.device_of(&self.control.spec()?)?;
            return work(&mut Manager { device, at: Place::Served(&self.control) });
        };
        let spec = StackText::of(text.clone()).load_by_name()?;
        let device = self.device_of(&spec)?;
        // A layer above it would keep its volumes from being resized.
        let mut manager = Manager { at: Place::Here(OpenedStack::open(&spec.up_to(&device))?), device };
        let done = work(&mut manager);
        if let Place::Here(opened) = manager.at {
            opened.close();
        }
        done
    }

    fn device_of(&self, spec: &Spec) -> Result<String, VolumesError> {
        let of_kind = spec.devices.iter().filter(|device| device.kind == KIND);
        let names: Vec<&str> = of_kind.map(|device| device.name.as_str()).collect();
        match (&self.device, &names[..]) {
            (Some(name), _) => Ok(name.clone()),
            (None, [name]) => Ok((*name).to_string()),
            (None, []) => Err(VolumesError::None),
            (None, several) => Err(VolumesError::Several(several.join(", "))),
        }
    }
}

/// A layer of kind `thin`.
pub struct Manager<'a> {
    device: String,
    at: Place<'a>,
}

/// Where it runs.
enum Place<'a> {
    Served(&'a Control),
    Here(OpenedStack),
}

impl Manager<'_> {
    /// The answer to an order.
    ///
    /// # Errors
    /// The layer or server refuses, or cannot be reached.
    pub fn order(&mut self, words: Vec<String>) -> Result<Value, Failure> {
        let device = self.device.clone();
        match &self.at {
            Place::Served(control) => control.ask(&Command::Order { device, words }),
            Place::Here(opened) => {
                let answer = opened.run(async move |stack| stack.order(&device, &words).await);
                let answer = answer.map_err(VolumesError::Order)?;
                Ok(serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
            }
        }
    }
}

/// An order that failed, for what a library does with a manager.
#[derive(Debug)]
pub struct OrderFailure(Failure);

impl std::fmt::Display for OrderFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.text())
    }
}

impl std::error::Error for OrderFailure {}

impl Ask for Manager<'_> {
    type Error = OrderFailure;

    fn ask(&mut self, words: Vec<String>) -> Result<Value, OrderFailure> {
        self.order(words).map_err(OrderFailure)
    }
}

/// One line for a volume that was made or changed; several for several.
pub fn told(answer: &Value) -> String {
    match answer {
        Value::Array(all) => all.iter().map(told).collect::<Vec<_>>().join("\n"),
        one => {
            let kind = if one["snapshot"] == true { "snapshot" } else { "volume" };
            let of = one["of"].as_str().map_or(String::new(), |of| format!(" of {of}"));
            format!("{kind} {}: {}{of}", name(one), bytes(one, "bytes"))
        }
    }
}

/// The volume of that name in an answer.
///
/// # Errors
/// There is none.
pub fn find<'a>(volumes: &'a Value, wanted: &str) -> Result<&'a Value, Failure> {
    let found = volumes.as_array().into_iter().flatten().find(|volume| name(volume) == wanted);
    Ok(found.ok_or_else(|| VolumesError::Unknown(wanted.to_string()))?)
}

/// The name of a volume in an answer.
pub fn name(volume: &Value) -> &str {
    volume["name"].as_str().unwrap_or("?")
}

/// A number of bytes in an answer, as people read it.
pub fn bytes(value: &Value, key: &str) -> String {
    value[key].as_u64().map_or_else(|| "?".to_string(), size_human)
}
