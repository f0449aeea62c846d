//! Where the fields of a tracepoint's record lie on the running kernel.

#![allow(clippy::disallowed_methods, reason = "the kernel tells the layout of its records in files")]

use std::collections::BTreeMap;
use std::io;

/// Where the kernel's tracing files are mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A tracepoint that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// Its layout cannot be read.
    #[error(
        "tracepoint {0}: its layout cannot be read: {1}; mount tracefs (mount -t tracefs none /sys/kernel/tracing) and run as root"
    )]
    Unread(String, io::Error),
    /// Its layout is another one than in all kernels so far.
    #[error("tracepoint {0}: this kernel has no field {1} of {2} bytes in it")]
    NoField(String, &'static str, u32),
}

/// Fields of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    event: String,
    /// Offset and size in bytes, by name.
    fields: BTreeMap<String, (u32, u32)>,
}

impl Fields {
    /// Those of an event such as `task/task_newtask`.
    ///
    /// # Errors
    /// If this kernel does not have it, or it may not be read.
    pub fn of(event: &str) -> Result<Fields, TracefsError> {
        let read = |place: &&str| std::fs::read_to_string(format!("{place}/events/{event}/format"));
        let text = PLACES.iter().map(read).reduce(|one, other| one.or(other)).expect("there are places");
        Ok(Fields::parse(event, &text.map_err(|error| TracefsError::Unread(event.to_string(), error))?))
    }

    /// From the text of a file `format`; lines of other kinds are passed over.
    pub fn parse(event: &str, text: &str) -> Fields {
        Fields { event: event.to_string(), fields: text.lines().filter_map(field).collect() }
    }

    /// Offset of a field of so many bytes.
    ///
    /// # Errors
    /// If it is not there, or has another size.
    pub fn offset(&self, name: &'static str, size: u32) -> Result<i16, TracefsError> {
        let found = self.fields.get(name).filter(|(_, bytes)| *bytes == size);
        let offset = found.and_then(|(offset, _)| i16::try_from(*offset).ok());
        offset.ok_or_else(|| TracefsError::NoField(self.event.clone(), name, size))
    }
}

/// One line, such as `field:pid_t pid; offset:8; size:4; signed:1;`.
fn field(line: &str) -> Option<(String, (u32, u32))> {
    let mut parts = line.trim().split(';').map(str::trim);
    let name = parts.next()?.strip_prefix("field:")?.rsplit([' ', '*']).next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    Some((name.split('[').next()?.to_string(), (offset, size)))
}
