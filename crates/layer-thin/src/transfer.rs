//! Sends and receives snapshots as [streams](crate::stream), by orders to a volume manager. Where the manager is, the
//! caller knows: in this process, or behind the control socket of a server.

use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::stream::{DATA_MAX, Decoder, Encoder, Item, StreamError, StreamHead};

/// Bytes of data that a receiver stores before it makes them durable.
const KEEP_BYTES: u64 = 256 << 20;

/// Why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError<E> {
    /// An order was refused, or the manager cannot be reached.
    #[error("{0}")]
    Asked(E),
    /// The manager answers something else.
    #[error("this is no answer to `{0}`: {1}; is the server of another version?")]
    Strange(String, Value),
    /// The stream has no sound beginning.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The stream cannot be written.
    #[error("the stream cannot be written: {0}")]
    Output(io::Error),
    /// The image cannot be read.
    #[error("the image cannot be read: {0}")]
    Source(io::Error),
    /// The image cannot be written.
    #[error("the image cannot be written: {0}")]
    Sink(io::Error),
    /// The stream broke off before its first bytes.
    #[error("{0}; \"{1}\" is as it was")]
    Lost(StreamError, String),
    /// The stream broke off. What came before is kept.
    #[error(
        "{error}; \"{volume}\" is as it was, and {at} of {bytes} bytes of \"{snapshot}\" are kept: go on with \
         `esker volume send ... --start {at}`, or forget them with `esker volume delete {volume}-receiving`"
    )]
    Broken {
        /// What is wrong with the stream.
        error: StreamError,
        /// The volume that receives.
        volume: String,
        /// The snapshot that came.
        snapshot: String,
        /// Leading bytes of it that are durable here.
        at: u64,
        /// Bytes of it.
        bytes: u64,
    },
}

/// Carries out an order.
pub trait Ask {
    /// Why it was not carried out.
    type Error;

    /// The answer to an order.
    ///
    /// # Errors
    /// The manager refuses, or cannot be reached.
    fn ask(&mut self, words: Vec<String>) -> Result<Value, Self::Error>;
}

/// What is sent.
pub struct Outgoing<'a> {
    /// The snapshot.
    pub snapshot: &'a str,
    /// An earlier one that the receiver has.
    pub base: Option<&'a str>,
    /// First byte: not 0 if the receiver has those before.
    pub start: u64,
}

/// What a manager says of the ranges of a volume.
#[derive(serde::Deserialize)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) id: u64,
    /// Of a snapshot that is sent; so is `base`.
    #[serde(default)]
    content: String,
    #[serde(default)]
    base: String,
    pub(crate) bytes: u64,
    block: u32,
    /// First byte, end, and whether it is mapped.
    pub(crate) ranges: Vec<(u64, u64, bool)>,
    next: Option<u64>,
}

impl Told {
    /// Bytes that are mapped.
    pub(crate) fn data(&self) -> u64 {
        self.ranges.iter().filter(|range| range.2).map(|range| range.1 - range.0).sum()
    }
}

/// Sends a snapshot: the bytes of data are the answer.
///
/// # Errors
/// [`TransferError`].
pub fn send<A: Ask>(
    manager: &mut A,
    what: &Outgoing<'_>,
    out: impl Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, TransferError<A::Error>> {
    let told = ranges(manager, "changes", what)?;
    let data = told.data();
    let strange = |text: &str| TransferError::Strange("changes".to_string(), Value::from(text));
    let number = |text: &str| u128::from_str_radix(text, 16).map_err(|_| strange(text));
    let head = StreamHead {
        content: number(&told.content)?,
        base: number(&told.base)?,
        bytes: told.bytes,
        block: told.block,
        start: what.start,
        data,
        name: told.name,
    };
    let mut encoder = Encoder::new(out, &head).map_err(TransferError::Output)?;
    let mut done = 0;
    progress(done, data);
    for (start, end, is_mapped) in told.ranges {
        if !is_mapped {
            encoder.zero(start..end).map_err(TransferError::Output)?;
            continue;
        }
        for at in (start..end).step_by(DATA_MAX as usize) {
            let bytes = read(manager, &head.name, told.id, at..end.min(at + DATA_MAX))?;
            encoder.data(at, &bytes).map_err(TransferError::Output)?;
            done += bytes.len() as u64;
            progress(done, data);
        }
    }
    encoder.end().map_err(TransferError::Output)?;
    Ok(data)
}

/// Gives an order.
pub(crate) fn order<A: Ask>(manager: &mut A, words: &[&str]) -> Result<Value, TransferError<A::Error>> {
    manager.ask(words.iter().map(ToString::to_string).collect()).map_err(TransferError::Asked)
}

/// All ranges that an order tells, look by look.
pub(crate) fn ranges<A: Ask>(
    manager: &mut A,
    verb: &str,
    what: &Outgoing<'_>,
) -> Result<Told, TransferError<A::Error>> {
    let mut told = look(manager, verb, what, what.start)?;
    while let Some(next) = told.next {
        let more = look(manager, verb, what, next)?;
        told.ranges.extend(more.ranges);
        told.next = more.next;
    }
    Ok(told)
}

fn look<A: Ask>(manager: &mut A, verb: &str, what: &Outgoing<'_>, start: u64) -> Result<Told, TransferError<A::Error>> {
    let start = start.to_string();
    let words: Vec<&str> = [verb, what.snapshot, &start].into_iter().chain(what.base).collect();
    let answer = order(manager, &words)?;
    let told: Option<Told> = serde_json::from_value(answer.clone()).ok();
    let is_sound = |told: &Told| told.ranges.iter().all(|range| range.0 < range.1);
    told.filter(is_sound).ok_or_else(|| TransferError::Strange(verb.to_string(), answer))
}

pub(crate) fn read<A: Ask>(
    manager: &mut A,
    name: &str,
    id: u64,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, TransferError<A::Error>> {
    let len = range.end - range.start;
    let answer = order(manager, &["read", name, &id.to_string(), &range.start.to_string(), &len.to_string()])?;
    let bytes = answer.as_str().and_then(|text| STANDARD.decode(text).ok());
    let bytes = bytes.filter(|bytes| bytes.len() as u64 == len);
    bytes.ok_or_else(|| TransferError::Strange("read".to_string(), answer))
}

/// How a stream is received.
pub struct Target<'a> {
    /// The volume that is to have the content.
    pub volume: &'a str,
    /// The name of the snapshot, if not that of the stream.
    pub snapshot: Option<&'a str>,
    /// Whether the volume may be served, may have changed, or may hold something else.
    pub force: bool,
}

/// Receives a snapshot. What the manager tells of it is the answer.
///
/// # Errors
/// [`TransferError`].
pub fn receive<A: Ask>(
    manager: &mut A,
    target: &Target<'_>,
    input: impl Read,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Value, TransferError<A::Error>> {
    let mut decoder = Decoder::new(input)?;
    let head = decoder.head().clone();
    let (volume, snapshot) = (target.volume, target.snapshot.unwrap_or(&head.name));
    let force = if target.force { &["force"][..] } else { &[] };
    let (content, base) = (format!("{:x}", head.content), format!("{:x}", head.base));
    let (bytes, start) = (head.bytes.to_string(), head.start.to_string());
    order(manager, &[&["receive", volume, snapshot, &bytes, &content, &base, &start], force].concat())?;
    let (mut at, mut done, mut kept) = (head.start, 0, 0);
    progress(done, head.data);
    loop {
        let (step, from, len, text) = match decoder.next_item() {
            Ok(Item::Data { at, data }) => ("receive-data", at, data.len() as u64, STANDARD.encode(data)),
            Ok(Item::Zero { at, len }) => ("receive-zero", at, len, len.to_string()),
            Ok(Item::End) => break,
            Err(error) if at == 0 => {
                order(manager, &["delete", &format!("{volume}-receiving")])?;
                return Err(TransferError::Lost(error, volume.to_string()));
            }
            Err(error) => {
                order(manager, &["receive-keep", volume, &at.to_string()])?;
                let (volume, snapshot) = (volume.to_string(), snapshot.to_string());
                return Err(TransferError::Broken { error, volume, snapshot, at, bytes: head.bytes });
            }
        };
        order(manager, &[step, volume, &from.to_string(), &text])?;
        at = from + len;
        done += if step == "receive-data" { len } else { 0 };
        progress(done, head.data);
        if done - kept >= KEEP_BYTES {
            order(manager, &["receive-keep", volume, &at.to_string()])?;
            kept = done;
        }
    }
    order(manager, &[&["receive-end", volume, snapshot], force].concat())
}
