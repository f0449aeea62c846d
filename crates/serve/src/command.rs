//! What the control socket understands: one JSON object on a line, and its answer on a line.
//!
//! [`PROTOCOL`] is the version: commands, keys of commands and codes of refusals may be added within a version, and keys of
//! results too; none changes its meaning or goes.

use std::collections::BTreeMap;

use esker_base::renamed::{self, Scope};
use esker_base::{ByteRange, Nanos};
use esker_block::RangeOp;
use esker_block::kind::{Kind, NOT_SHOWN};
use esker_stack::{DeviceSpec, Measure, Spec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::refusal::Refusal;

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;

/// How long a live change waits for requests in flight, unless the command says otherwise.
const PATIENCE_MS: u64 = 10_000;
/// Longest patience of a command, and longest freeze.
const PATIENCE_MS_MAX: u64 = 600_000;
/// How long a freeze lasts at most, unless the command says otherwise.
const FREEZE_MS: u64 = 30_000;

/// Longest word of an order that a log shows.
const WORD_SHOWN_MAX: usize = 200;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Tells the version of the protocol and the commands.
    Hello {},
    /// Tells parts, statistics, connections and health.
    Status {},
    /// Writes the stack as it is now.
    Dump {},
    /// Puts a new layer directly above a device or layer.
    Insert {
        /// The layer as a stack text of one device, without what it stands on.
        device: String,
        /// On what it is to stand.
        above: String,
        /// How long to wait for requests in flight, in milliseconds.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Takes a layer out.
    Remove {
        /// Its name.
        name: String,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Puts a new device in the place of one that the layer above it does without.
    Replace {
        /// The device that goes.
        device: String,
        /// The new one as a stack text of one device.
        with: String,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Puts a new device below a layer, behind its others.
    Attach {
        /// The layer.
        device: String,
        /// The new device as a stack text of one device.
        with: String,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Takes a device out that the layer above it lets go.
    Detach {
        /// The device.
        device: String,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Gives the layers of one chain a new order.
    Reorder {
        /// Their names, top first.
        names: Vec<String>,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Changes where ranges of an export lead, all of them or none.
    Remap {
        /// The export.
        export: String,
        /// What is done, in this order.
        ops: Vec<RangeCommand>,
    },
    /// Changes the size of an export.
    Resize {
        /// The export.
        export: String,
        /// Its new size.
        bytes: u64,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Orders one layer, or the file system of one mount, to do what only its kind can do.
    Order {
        /// Its name.
        device: String,
        /// In words of its kind.
        words: Vec<String>,
    },
    /// Waits until nothing is in flight, flushes everything, and goes on.
    Sync {
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// The same, but holds new requests until a thaw.
    Freeze {
        /// How long requests are held at most, in milliseconds.
        #[serde(default = "freeze_limit")]
        limit_ms: u64,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Lets requests go on.
    Thaw {
        /// The number that the freeze answered; any if it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        freeze: Option<u64>,
    },
    /// Chooses which parts are measured.
    Meters {
        /// Which.
        what: Measured,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Gives stack, sockets and connections to the process that asks, which is to be a server of the same stack. What
    /// follows the answer is that of [`crate::hand_over`].
    HandOver {
        /// The newest version that the asker reads of the format of each kind.
        formats: BTreeMap<String, u16>,
        /// As for `Insert`.
        #[serde(default = "patience")]
        patience_ms: u64,
    },
    /// Stops the server as a signal does.
    Stop {
        /// How long that may take, in milliseconds; what the server was started with if it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience_ms: Option<u64>,
    },
}

/// The words of all commands.
pub const COMMANDS: [&str; 18] = [
    "hello",
    "status",
    "dump",
    "insert",
    "remove",
    "replace",
    "attach",
    "detach",
    "reorder",
    "remap",
    "resize",
    "order",
    "sync",
    "freeze",
    "thaw",
    "meters",
    "hand_over",
    "stop",
];

/// Which parts are measured, beside exports, which always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// None.
    Off,
    /// Devices at the bottom.
    Devices,
    /// Devices and layers.
    All,
}

impl Measured {
    /// As the stack takes it.
    pub fn measure(self) -> Measure {
        match self {
            Measured::Off => Measure::Off,
            Measured::Devices => Measure::Devices,
            Measured::All => Measure::All,
        }
    }
}

/// One range operation; offsets and lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RangeCommand {
    /// `to` reads as `from` does from then on.
    Clone {
        /// First byte of the source.
        from: u64,
        /// Bytes.
        len: u64,
        /// First byte of the destination.
        to: u64,
    },
    /// The same, and the source reads as zeroes.
    Move {
        /// First byte of the source.
        from: u64,
        /// Bytes.
        len: u64,
        /// First byte of the destination.
        to: u64,
    },
    /// The range reads as zeroes and takes no space.
    Delete {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
    },
}

impl RangeCommand {
    /// As the stack takes it. None if a range passes the last byte that can be addressed.
    pub fn op(&self) -> Option<RangeOp> {
        let op = match *self {
            RangeCommand::Clone { from, len, to } => RangeOp::Clone { src: ByteRange::new(from, len)?, dst: to },
            RangeCommand::Move { from, len, to } => RangeOp::Move { src: ByteRange::new(from, len)?, dst: to },
            RangeCommand::Delete { at, len } => RangeOp::Delete { at: ByteRange::new(at, len)? },
        };
        op.ranges().map(|_| op)
    }
}

fn patience() -> u64 {
    PATIENCE_MS
}

fn freeze_limit() -> u64 {
    FREEZE_MS
}

/// A line that is no command, or a command that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Not JSON, or not of the form.
    #[error("this is no command: {0}; write one JSON object on a line, such as {{\"do\":\"status\"}}")]
    NotACommand(String),
    /// A command before the glossary.
    #[error("there is no command `{old}`; it is called `{new}` now")]
    Renamed {
        /// Its name before.
        old: String,
        /// Its name.
        new: &'static str,
    },
    /// The text of a new layer.
    #[error("{0}")]
    Text(String),
    /// Not exactly one device.
    #[error("name one layer, such as 'st = stats'; the text has {devices} devices and {exports} exports")]
    NotOne {
        /// Devices in it.
        devices: usize,
        /// Exports in it.
        exports: usize,
    },
    /// The text says what the layer is on.
    #[error("the text says what \"{0}\" is on; leave that out and name it as what the layer goes above")]
    SaysOn(String),
}

impl Command {
    /// Reads one line.
    ///
    /// # Errors
    /// [`CommandError::NotACommand`], [`CommandError::Renamed`].
    pub fn parse(line: &[u8]) -> Result<Command, CommandError> {
        serde_json::from_slice(line).map_err(|error| {
            // A line may be any value: a number has no fields.
            let old = serde_json::from_slice(line).ok().and_then(|value: Value| value.get("do").cloned());
            let renamed = |old: &str| renamed::now(Scope::Command, old).map(|new| (old.to_string(), new));
            match old.as_ref().and_then(Value::as_str).and_then(renamed) {
                Some((old, new)) => CommandError::Renamed { old, new },
                None => CommandError::NotACommand(error.to_string()),
            }
        })
    }

    /// The line as a log may show it, without its end: of a new layer's parameters only values that cannot be a secret.
    pub(crate) fn shown(&self, kinds: &[&Kind]) -> String {
        let mut command = self.clone();
        if let Command::Insert { device: text, .. }
        | Command::Replace { with: text, .. }
        | Command::Attach { with: text, .. } = &mut command
        {
            *text = match parse_layer(text) {
                Ok(layer) => Spec { devices: vec![layer.shown(kinds)], ..Spec::default() }.to_line(),
                Err(_) => NOT_SHOWN.to_string(),
            };
        }
        if let Command::Order { words, .. } = &mut command {
            words.iter_mut().filter(|word| word.len() > WORD_SHOWN_MAX).for_each(|word| {
                *word = format!("({} bytes)", word.len());
            });
        }
        command.line().trim_end().to_string()
    }

    /// The line that [`Command::parse`] reads back, with its end.
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self).expect("a command holds only texts and numbers");
        text + "\n"
    }
}

/// A patience in bounds.
pub(crate) fn bounded(patience_ms: u64) -> Nanos {
    Nanos::millis(patience_ms.min(PATIENCE_MS_MAX))
}

/// The layer that a command's text names.
///
/// # Errors
/// [`CommandError`] if the text is not one device without lower devices.
pub fn parse_layer(text: &str) -> Result<DeviceSpec, CommandError> {
    let mut spec = Spec::parse("new layer", text).map_err(|e| CommandError::Text(e.to_string()))?;
    let (devices, exports) = (spec.devices.len(), spec.exports.len() + spec.mounts.len());
    match (spec.devices.pop(), devices, exports) {
        (Some(device), 1, 0) if device.on.is_empty() => Ok(device),
        (Some(device), 1, 0) => Err(CommandError::SaysOn(device.name)),
        _ => Err(CommandError::NotOne { devices, exports }),
    }
}

/// The line that answers a command, with its end.
pub(crate) fn answer(result: Result<Value, Refusal>) -> String {
    let value = match result {
        Ok(result) => json!({ "ok": true, "result": result }),
        Err(error) => json!({ "ok": false, "error": error }),
    };
    format!("{value}\n")
}

/// The result in an answer's line.
///
/// # Errors
/// The refusal in it, or that it is no answer.
pub fn parse_answer(line: &[u8]) -> Result<Value, Refusal> {
    let strange = || {
        let text = String::from_utf8_lossy(line);
        Refusal::new("strange", "").with_what(format!("the server answers something else: {}", text.trim_end()))
    };
    let mut value: Value = serde_json::from_slice(line).map_err(|_| strange())?;
    match value["ok"].as_bool() {
        Some(true) => Ok(value["result"].take()),
        Some(false) => Err(serde_json::from_value(value["error"].take()).unwrap_or_else(|_| strange())),
        None => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_back_as_they_were_written() {
        let all = [
            Command::Status {},
            Command::Dump {},
            Command::Insert { device: "st = stats".into(), above: "d1".into(), patience_ms: 5 },
            Command::Remove { name: "st".into(), patience_ms: PATIENCE_MS },
            Command::Replace { device: "a".into(), with: "c = null".into(), patience_ms: PATIENCE_MS },
            Command::Attach { device: "m".into(), with: "c = null".into(), patience_ms: PATIENCE_MS },
            Command::Detach { device: "c".into(), patience_ms: PATIENCE_MS },
            Command::Reorder { names: vec!["a".into(), "b".into()], patience_ms: 0 },
            Command::Remap {
                export: "vol".into(),
                ops: vec![
                    RangeCommand::Clone { from: 0, len: 4096, to: 8192 },
                    RangeCommand::Move { from: 0, len: 4096, to: 8192 },
                    RangeCommand::Delete { at: 0, len: u64::MAX },
                ],
            },
            Command::Hello {},
            Command::Resize { export: "vol".into(), bytes: 1 << 30, patience_ms: 1 },
            Command::Order { device: "vm".into(), words: vec!["list".into()] },
            Command::Sync { patience_ms: 1 },
            Command::Freeze { limit_ms: 7, patience_ms: 1 },
            Command::Thaw { freeze: None },
            Command::Thaw { freeze: Some(3) },
            Command::Meters { what: Measured::All, patience_ms: 1 },
            Command::HandOver { formats: BTreeMap::from([("mirror".into(), 2)]), patience_ms: 1 },
            Command::Stop { patience_ms: None },
            Command::Stop { patience_ms: Some(3) },
        ];
        for command in all {
            let line = command.line();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            assert_eq!(Command::parse(line.as_bytes()), Ok(command));
        }
        let names = Command::parse(br#"{"do":"?"}"#).unwrap_err().to_string();
        let listed: Vec<String> = COMMANDS.iter().map(|name| format!("`{name}`")).collect();
        assert!(names.contains(&listed.join(", ")), "{names}");
        for no_command in ["9", "[1]", "\"stop\"", "null", "{\"do\":1}", ""] {
            let refused = Command::parse(no_command.as_bytes());
            assert!(matches!(refused, Err(CommandError::NotACommand(_))), "{no_command}");
        }
        let short = Command::parse(br#"{"do":"remove","name":"st"}"#).unwrap();
        assert_eq!(short, Command::Remove { name: "st".into(), patience_ms: PATIENCE_MS });
    }

    #[test]
    fn other_lines_say_what_is_wrong() {
        for (line, why) in [
            (&b""[..], "EOF"),
            (b"status", "expected value"),
            (b"{\"do\":\"format\"}", "unknown variant `format`, expected one of `hello`, `status`, `dump`"),
            (b"{\"do\":\"remove\"}", "missing field `name`"),
            (b"{\"do\":\"remove\",\"name\":\"a\",\"nmae\":1}", "unknown field `nmae`"),
            (b"\xff\xfe", "expected value"),
        ] {
            let error = Command::parse(line).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("{\"do\":\"status\"}"), "{error}");
        }
    }

    #[test]
    fn an_old_command_is_told_its_new_name() {
        for (old, new) in [("ask", "order"), ("drain", "sync"), ("measure", "meters"), ("ranges", "remap")] {
            let error = Command::parse(format!("{{\"do\":\"{old}\"}}").as_bytes()).unwrap_err();
            assert_eq!(error, CommandError::Renamed { old: old.into(), new });
            assert!(COMMANDS.contains(&new) && !COMMANDS.contains(&old), "{error}");
        }
    }

    #[test]
    fn ranges_beyond_the_last_byte_are_none() {
        assert!(RangeCommand::Clone { from: 0, len: 4096, to: u64::MAX - 4096 }.op().is_some());
        assert_eq!(RangeCommand::Clone { from: 0, len: 4096, to: u64::MAX - 4095 }.op(), None);
        assert_eq!(RangeCommand::Delete { at: 1, len: u64::MAX }.op(), None);
    }

    #[test]
    fn a_new_layer_is_one_device_that_stands_on_nothing_yet() {
        assert_eq!(parse_layer("slow = delay read=2ms").unwrap().args["read"], "2ms");
        assert_eq!(parse_layer("[device.st]\nkind = \"stats\"").unwrap().kind, "stats");
        for (text, why) in [
            ("a = stats; b = stats", "the text has 2 devices and 0 exports"),
            ("a = stats | delay", "the text has 2 devices"),
            ("a = stats @", "1 exports"),
            ("a = stats on d", "leave that out"),
            ("a = stats read", "new layer:1: `read` stands alone"),
            ("", "0 devices"),
        ] {
            let error = parse_layer(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn answers_bring_results_or_errors() {
        assert_eq!(parse_answer(answer(Ok(json!(3))).as_bytes()), Ok(json!(3)));
        let no = Refusal::new("busy", "no; wait");
        assert_eq!(parse_answer(answer(Err(no.clone())).as_bytes()), Err(no));
        for line in [&b"220 smtp ready"[..], b"{\"ok\":false,\"error\":\"220\"}", b"[220]"] {
            let strange = parse_answer(line).unwrap_err();
            assert!(strange.code == "strange" && strange.what.contains("220"), "{strange}");
        }
    }
}
