//! The lines of a hand-over: one JSON object for each socket, connection and dirty map. Lines of sockets and
//! connections carry the socket, in their order.

use esker_base::ByteRange;
use esker_block::ChangeMap;
use esker_front_nbd::Agreed;
use esker_front_nbd::proto::{Context, Form};
use serde::{Deserialize, Serialize};

/// Runs of a dirty map that are told one by one; a map of more counts as changed as a whole.
const RUNS_MAX: usize = 16 << 10;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum Parcel {
    /// The control socket.
    Control {
        /// Where it listens.
        address: String,
        /// Whether a service manager made the socket: its path stays.
        managers: bool,
    },
    /// Where metrics are handed out.
    Metrics {
        /// The address as the command line had it.
        text: String,
        /// Where it listens.
        address: String,
        /// Whether a service manager made the socket: its path stays.
        managers: bool,
    },
    /// An address of exports.
    Door {
        /// The address as the stack text has it.
        text: String,
        /// Where it listens.
        address: String,
        /// Whether a service manager made the socket: its path stays.
        managers: bool,
    },
    /// A connection of an NBD client.
    Client(Client),
    /// What clients have changed.
    Changes(Changes),
    /// All has come.
    End {},
}

/// A connection of an NBD client, between two requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The address at which it came, as the stack text has it.
    pub door: String,
    /// Its export.
    pub export: String,
    /// `simple`, `structured` or `extended`.
    pub form: FormWord,
    /// The contexts that it selected.
    pub contexts: Vec<String>,
    /// The flags that it was told.
    pub flags: u16,
    /// The block that its requests are multiples of, in bytes.
    pub min_block: u32,
    /// Bytes of its next request that have been read.
    pub pending: Vec<u8>,
}

/// The form of messages, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormWord {
    /// Simple replies.
    Simple,
    /// Structured replies.
    Structured,
    /// Extended headers.
    Extended,
}

/// What clients have changed of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Its name.
    pub export: String,
    /// First byte and length of each part; none if all counts as changed.
    pub runs: Option<Vec<(u64, u64)>>,
}

impl Parcel {
    /// Reads one line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Parcel, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// The line, with its end.
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self).expect("a parcel holds only texts and numbers");
        text + "\n"
    }

    /// Whether a socket comes with it.
    pub fn has_socket(&self) -> bool {
        match self {
            Parcel::Control { .. } | Parcel::Metrics { .. } | Parcel::Door { .. } | Parcel::Client(_) => true,
            Parcel::Changes(_) | Parcel::End {} => false,
        }
    }
}

impl Client {
    pub(super) fn new(door: &str, agreed: &Agreed) -> Client {
        Client {
            door: door.to_string(),
            export: agreed.export.clone(),
            form: match agreed.form {
                Form::Simple => FormWord::Simple,
                Form::Structured => FormWord::Structured,
                Form::Extended => FormWord::Extended,
            },
            contexts: agreed.contexts.iter().map(|context| context.name().to_string()).collect(),
            flags: agreed.flags,
            min_block: agreed.min_block,
            pending: agreed.pending.clone(),
        }
    }

    /// What the connection goes on with.
    ///
    /// # Errors
    /// A context that this program does not know.
    pub fn agreed(self) -> Result<Agreed, String> {
        let context = |name: &String| Context::named(name).ok_or_else(|| format!("{name:?} is no context"));
        Ok(Agreed {
            contexts: self.contexts.iter().map(context).collect::<Result<_, _>>()?,
            export: self.export,
            form: match self.form {
                FormWord::Simple => Form::Simple,
                FormWord::Structured => Form::Structured,
                FormWord::Extended => Form::Extended,
            },
            flags: self.flags,
            min_block: self.min_block,
            pending: self.pending,
        })
    }
}

impl Changes {
    /// From the runs of a whole map: bytes, and whether they were changed.
    pub(super) fn new(export: &str, runs: &[(u64, bool)]) -> Changes {
        let mut at = 0;
        let starts = runs.iter().map(|(len, is_changed)| {
            let start = at;
            at += len;
            (start, *len, *is_changed)
        });
        let changed: Vec<(u64, u64)> = starts.filter(|run| run.2).map(|(start, len, _)| (start, len)).collect();
        let is_whole = matches!(runs, [(_, true)]);
        let runs = (!is_whole && changed.len() <= RUNS_MAX).then_some(changed);
        Changes { export: export.to_string(), runs }
    }

    /// Marks the same in another map.
    pub(super) fn mark(&self, map: &ChangeMap) {
        let Some(runs) = &self.runs else { return map.mark_all() };
        for (start, len) in runs {
            match ByteRange::new(*start, *len) {
                Some(range) => map.mark(range),
                None => map.mark_all(),
            }
        }
    }
}

/// What the other process says at last.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Verdict {
    /// It serves, and has this number.
    Taken(u32),
    /// It does not, and why.
    Refused(String),
}

impl Verdict {
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("a verdict holds only a text or a number") + "\n"
    }
}

/// The number of the process that serves.
///
/// # Errors
/// Why it does not.
pub(super) fn verdict(line: &[u8]) -> Result<u32, String> {
    match serde_json::from_slice(line) {
        Ok(Verdict::Taken(pid)) => Ok(pid),
        Ok(Verdict::Refused(why)) => Err(why),
        Err(error) => Err(format!("the other process says something else: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_as_they_were_written() {
        let agreed = Agreed {
            export: "vol".into(),
            form: Form::Extended,
            contexts: vec![Context::Written],
            flags: 0x125,
            min_block: 512,
            pending: vec![1, 2, 255],
        };
        let client = Client::new("unix:vol.sock", &agreed);
        assert_eq!(client.clone().agreed(), Ok(agreed));
        let all = [
            Parcel::Control { address: "unix:esker.ctl".into(), managers: true },
            Parcel::Metrics { text: "tcp:127.0.0.1:0".into(), address: "tcp:127.0.0.1:9420".into(), managers: false },
            Parcel::Door { text: "unix:a".into(), address: "unix:a".into(), managers: false },
            Parcel::Client(client),
            Parcel::Changes(Changes { export: "vol".into(), runs: None }),
            Parcel::End {},
        ];
        for parcel in all {
            let line = parcel.line();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            assert_eq!(Parcel::parse(line.as_bytes()), Ok(parcel));
        }
        assert!(Parcel::parse(br#"{"is":"end","more":1}"#).is_err(), "what this program does not know is not dropped");
        assert_eq!(verdict(Verdict::Taken(7).line().as_bytes()), Ok(7));
        assert_eq!(verdict(Verdict::Refused("no".into()).line().as_bytes()), Err("no".to_string()));
        assert!(verdict(b"{}").is_err());
    }

    #[test]
    fn a_dirty_map_is_the_same_on_the_other_side() {
        let whole = ByteRange::new(0, 1 << 20).unwrap();
        let (from, to) = (ChangeMap::new(1 << 20), ChangeMap::new(1 << 20));
        for at in [0, 192 << 10, 960 << 10] {
            from.mark(ByteRange::new(at, 4096).unwrap());
        }
        Changes::new("vol", &from.runs(whole, 1 << 20)).mark(&to);
        assert_eq!(to.runs(whole, 1 << 20), from.runs(whole, 1 << 20));
        from.mark_all();
        Changes::new("vol", &from.runs(whole, 1 << 20)).mark(&to);
        assert_eq!(to.runs(whole, 1 << 20), [(1 << 20, true)]);
        let many: Vec<(u64, bool)> = (0..40_000).map(|at| (65536, at % 2 == 0)).collect();
        assert_eq!(Changes::new("vol", &many).runs, None);
    }
}
