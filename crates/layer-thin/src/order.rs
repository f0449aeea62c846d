//! What an operator says to a volume manager, word by word.

use esker_base::renamed::{self, Scope};
use esker_base::units::parse_size;
use esker_block::OrderInfo;

/// All orders.
pub const ALL: &[OrderInfo] = &[
    info("list", "", "Shows all volumes."),
    info("create", "NAME SIZE", "Makes an empty volume."),
    info("snapshot", "VOLUME NAME [VOLUME NAME...]", "Makes read-only volumes with the present content of others."),
    info("clone", "VOLUME NAME", "Makes a volume with the content of another one."),
    info("rollback", "VOLUME TO [force]", "Gives a volume the size and content of another one."),
    info("delete", "NAME...", "Deletes volumes, all of them or none."),
    info("hold", "SNAPSHOT...", "Keeps snapshots from being deleted."),
    info("release", "SNAPSHOT...", "Lets snapshots be deleted again."),
    info("resize", "NAME SIZE", "Changes the size of a volume."),
    info("rename", "NAME NEW", "Changes the name of a volume."),
    info("usage", "", "Shows the space that each volume takes."),
    info("dedup", "FROM TO", "Lets TO use the storage of FROM for blocks that are equal in both."),
    info(
        "changes",
        "SNAPSHOT START [BASE]",
        "Shows the ranges of a snapshot that hold data, or that differ from BASE.",
    ),
    info(
        "map",
        "VOLUME START [BASE]",
        "Shows the ranges of a volume that hold data now, or that the map leads elsewhere than those of BASE.",
    ),
    info("read", "SNAPSHOT ID START SIZE", "Reads a snapshot, as Base64."),
    info(
        "receive",
        "VOLUME SNAPSHOT SIZE CONTENT BASE START [force]",
        "Makes ready to receive a snapshot of a volume; `-` as SNAPSHOT: the volume alone.",
    ),
    info("receive-data", "VOLUME START BASE64", "Stores bytes of the snapshot that a volume receives."),
    info("receive-zero", "VOLUME START SIZE", "Empties a range of the snapshot that a volume receives."),
    info("receive-keep", "VOLUME START", "Makes what was received before byte START durable."),
    info(
        "receive-end",
        "VOLUME SNAPSHOT [force]",
        "Gives a volume the size and content that it received, and keeps them as a snapshot, unless that is `-`.",
    ),
];

const fn info(name: &'static str, arguments: &'static str, doc: &'static str) -> OrderInfo {
    OrderInfo { name, arguments, doc, left: None }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Tell all volumes.
    List,
    /// Make an empty one.
    Create {
        /// Its name.
        name: String,
        /// Its bytes.
        bytes: u64,
    },
    /// Keep what volumes hold now under other names: all of them at one moment. What is kept never changes.
    Snapshot(Vec<Copied>),
    /// The same, into a volume of its own that can be written.
    Clone(Copied),
    /// Give a volume the size and content that another one has.
    Rollback {
        /// The one that changes.
        name: String,
        /// The one that it is to equal.
        to: String,
        /// Even if it is served.
        force: bool,
    },
    /// Forget volumes, all of them or none.
    Delete(Vec<String>),
    /// Let no order delete snapshots, or let orders delete them again: all of them or none.
    Hold {
        /// The snapshots.
        names: Vec<String>,
        /// Whether they are held from now on.
        held: bool,
    },
    /// Change a size.
    Resize {
        /// Whose.
        name: String,
        /// To how many bytes.
        bytes: u64,
    },
    /// Change a name.
    Rename {
        /// From this one.
        name: String,
        /// To that one.
        to: String,
    },
    /// Tell what each volume takes.
    Usage,
    /// Let the second one use the storage of the first one for what is equal in both.
    Dedup {
        /// Keeps its storage.
        from: String,
        /// Gives its own back.
        to: String,
    },
    /// A step of sending or receiving.
    Transfer(Transfer),
}

/// A step of sending a snapshot or of receiving one. Numbers of bytes are plain: programs say them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Tell which ranges of a snapshot hold data, or differ from those of another one.
    Changes {
        /// The snapshot.
        name: String,
        /// First byte that counts.
        start: u64,
        /// The other one.
        base: Option<String>,
    },
    /// Tell which ranges of a volume hold data, or differ from those of another one, now.
    Map {
        /// The volume.
        name: String,
        /// First byte that counts.
        start: u64,
        /// The other one.
        base: Option<String>,
    },
    /// Read a snapshot.
    Read {
        /// Its name.
        name: String,
        /// Its number, so that another one of that name is not taken for it.
        id: u64,
        /// First byte.
        start: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Make ready to receive.
    Begin(Incoming),
    /// Store bytes.
    Data {
        /// The volume that receives.
        volume: String,
        /// First byte.
        start: u64,
        /// The bytes, as Base64.
        base64: String,
    },
    /// Empty a range.
    Zero {
        /// The volume that receives.
        volume: String,
        /// First byte.
        start: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Make what was received durable.
    Keep {
        /// The volume that receives.
        volume: String,
        /// All bytes before this one were received.
        start: u64,
    },
    /// All was received.
    End {
        /// The volume that receives.
        volume: String,
        /// The name of the snapshot, if the content is kept as one.
        snapshot: Option<String>,
        /// Even if it is served or has changed.
        force: bool,
    },
}

/// What is to be received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The volume that is to have it.
    pub volume: String,
    /// The name of the snapshot, if the content is kept as one.
    pub snapshot: Option<String>,
    /// Its bytes.
    pub bytes: u64,
    /// The number of its content.
    pub content: u128,
    /// That of the snapshot from which it differs; 0 if there is none.
    pub base: u128,
    /// First byte that comes.
    pub start: u64,
    /// Even if the volume is served, has changed, or holds something else.
    pub force: bool,
}

/// One volume, and the name of what is made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The volume.
    pub of: String,
    /// The new name.
    pub name: String,
}

/// Words that are no order.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrderError {
    /// What there is.
    #[error("\"{0}\" is no order; there are: {list}", list = ALL.iter().map(OrderInfo::to_string).collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// An order before the glossary: its name then and now.
    #[error("\"{0}\" is no order; it is called \"{1}\" now")]
    Renamed(String, &'static str),
    /// A size that is none.
    #[error("\"{0}\" is no size; write a number of bytes, with a unit such as 10GiB if you like")]
    Size(String),
    /// A number that is none.
    #[error("\"{0}\" is no number")]
    Number(String),
}

impl OrderError {
    fn unknown(words: &[&str]) -> OrderError {
        let old = words.first().copied().unwrap_or_default();
        match renamed::now(Scope::ThinOrder, old) {
            Some(new) => OrderError::Renamed(old.to_string(), new),
            None => OrderError::Unknown(words.join(" ")),
        }
    }
}

impl Order {
    /// Reads an order.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn parse(words: &[String]) -> Result<Order, OrderError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let size = |text: &str| parse_size(text).map_err(|_| OrderError::Size(text.to_string()));
        let copied = |pair: &[&str]| Copied { of: pair[0].to_string(), name: pair[1].to_string() };
        Ok(match words[..] {
            ["list"] => Order::List,
            ["usage"] => Order::Usage,
            ["create", name, bytes] => Order::Create { name: name.to_string(), bytes: size(bytes)? },
            ["resize", name, bytes] => Order::Resize { name: name.to_string(), bytes: size(bytes)? },
            ["snapshot", ref pairs @ ..] if !pairs.is_empty() && pairs.len().is_multiple_of(2) => {
                Order::Snapshot(pairs.chunks(2).map(copied).collect())
            }
            ["clone", ref pair @ ..] if pair.len() == 2 => Order::Clone(copied(pair)),
            ["rollback", name, to] => Order::Rollback { name: name.to_string(), to: to.to_string(), force: false },
            ["rollback", name, to, "force"] => {
                Order::Rollback { name: name.to_string(), to: to.to_string(), force: true }
            }
            ["delete", ref names @ ..] if !names.is_empty() => {
                Order::Delete(names.iter().map(ToString::to_string).collect())
            }
            ["hold" | "release", ref names @ ..] if !names.is_empty() => {
                Order::Hold { names: names.iter().map(ToString::to_string).collect(), held: words[0] == "hold" }
            }
            ["changes" | "map" | "read" | "receive", ..] => Transfer::parse(&words).map(Order::Transfer)?,
            [step, ..] if step.starts_with("receive-") => Transfer::parse(&words).map(Order::Transfer)?,
            ["rename", name, to] => Order::Rename { name: name.to_string(), to: to.to_string() },
            ["dedup", from, to] => Order::Dedup { from: from.to_string(), to: to.to_string() },
            _ => return Err(OrderError::unknown(&words)),
        })
    }
}

impl Transfer {
    fn parse(words: &[&str]) -> Result<Transfer, OrderError> {
        let number = |text: &str| text.parse().map_err(|_| OrderError::Number(text.to_string()));
        let content = |text: &str| u128::from_str_radix(text, 16).map_err(|_| OrderError::Number(text.to_string()));
        let is_flag = |flag: &[&str]| matches!(flag, [] | ["force"]);
        // No name begins so.
        let kept = |snapshot: &str| (snapshot != "-").then(|| snapshot.to_string());
        Ok(match *words {
            ["changes", name, start] => Transfer::Changes { name: name.to_string(), start: number(start)?, base: None },
            ["changes", name, start, base] => {
                Transfer::Changes { name: name.to_string(), start: number(start)?, base: Some(base.to_string()) }
            }
            ["map", name, start, ref base @ ..] if base.len() < 2 => {
                let base = base.first().map(ToString::to_string);
                Transfer::Map { name: name.to_string(), start: number(start)?, base }
            }
            ["read", name, id, start, bytes] => {
                Transfer::Read { name: name.to_string(), id: number(id)?, start: number(start)?, bytes: number(bytes)? }
            }
            ["receive", volume, snapshot, bytes, this, base, start, ref flag @ ..] if is_flag(flag) => {
                Transfer::Begin(Incoming {
                    volume: volume.to_string(),
                    snapshot: kept(snapshot),
                    bytes: number(bytes)?,
                    content: content(this)?,
                    base: content(base)?,
                    start: number(start)?,
                    force: !flag.is_empty(),
                })
            }
            ["receive-data", volume, start, base64] => {
                Transfer::Data { volume: volume.to_string(), start: number(start)?, base64: base64.to_string() }
            }
            ["receive-zero", volume, start, bytes] => {
                Transfer::Zero { volume: volume.to_string(), start: number(start)?, bytes: number(bytes)? }
            }
            ["receive-keep", volume, start] => Transfer::Keep { volume: volume.to_string(), start: number(start)? },
            ["receive-end", volume, snapshot, ref flag @ ..] if is_flag(flag) => {
                Transfer::End { volume: volume.to_string(), snapshot: kept(snapshot), force: !flag.is_empty() }
            }
            _ => return Err(OrderError::unknown(words)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Result<Order, OrderError> {
        Order::parse(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn orders_are_read_word_by_word() {
        assert_eq!(order("list"), Ok(Order::List));
        assert_eq!(order("create a 1GiB"), Ok(Order::Create { name: "a".into(), bytes: 1 << 30 }));
        let copied = |of: &str, name: &str| Copied { of: of.into(), name: name.into() };
        assert_eq!(order("snapshot a s b t"), Ok(Order::Snapshot(vec![copied("a", "s"), copied("b", "t")])));
        assert_eq!(order("clone a c"), Ok(Order::Clone(copied("a", "c"))));
        let rollback = |force| Order::Rollback { name: "a".into(), to: "s".into(), force };
        assert_eq!(order("rollback a s"), Ok(rollback(false)));
        assert_eq!(order("rollback a s force"), Ok(rollback(true)));
        assert_eq!(order("delete a b"), Ok(Order::Delete(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn every_order_of_the_list_is_known() {
        for info in ALL {
            let size = if info.arguments.contains("START") { "1" } else { "1MiB" };
            let numbers = ["START", "ID ", "CONTENT", "BASE "].into_iter();
            let words = numbers.fold(info.to_string().replace("SIZE", size), |text, word| text.replace(word, "1 "));
            let words = words.replace(['[', ']'], "").replace("...", "");
            assert!(order(&words).is_ok(), "{words}");
        }
    }

    #[test]
    fn what_is_no_order_is_told_what_there_is() {
        for text in ["", "snapshot a", "snapshot", "clone a b c", "delete", "rollback a s now", "format a"] {
            let error = order(text).unwrap_err().to_string();
            assert!(error.contains("rollback VOLUME TO [force]"), "{text}: {error}");
        }
        assert_eq!(order("create a much"), Err(OrderError::Size("much".into())));
        assert_eq!(order("share a b"), Err(OrderError::Renamed("share".into(), "dedup")));
    }
}
