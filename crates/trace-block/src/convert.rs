//! Any source into any format, streaming.

use crate::fault::TraceError;
use crate::sink::{RecordSink, SinkError, Written};
use crate::source::Source;

/// A conversion that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Conversion {
    /// The source.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// The target.
    #[error(transparent)]
    Write(#[from] SinkError),
}

/// Writes all records of `source` to `sink`, with the names of the volumes and the notices that the format carries.
///
/// # Errors
/// If reading or writing fails; see [`TraceError`] and [`SinkError`]. Damage in the source that can be passed over is
/// in its report, and what the target cannot carry in the result.
pub fn convert<S: Source + ?Sized>(source: &mut S, mut sink: RecordSink) -> Result<Written, Conversion> {
    sink.set_comment(source.comment());
    let mut named = 0;
    while let Some(record) = source.next_record()? {
        for (number, name) in source.volumes().iter().enumerate().skip(named) {
            sink.name_volume(number as u32, name);
            named = number + 1;
        }
        sink.put(&record)?;
    }
    Ok(sink.finish()?)
}
