//! Images: the content of a volume comes from, or goes to, a file or an export, by orders to a volume manager. What
//! holds no data is neither read nor written. An image comes into a volume of its own, which takes its name at the end.

use std::io;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::stream::DATA_MAX;
use crate::transfer::{Ask, Outgoing, TransferError, order, ranges, read};

/// Sizes of volumes that are made from images are multiples of it, which suits blocks of any size.
pub const UNIT: u64 = 4096;
/// So many zeroes at a multiple of as many bytes take no room, whatever the image says of them.
const GRANULE: usize = 64 << 10;
/// The number of an image's content while it comes. No snapshot keeps it.
const CONTENT: &str = "1";

/// Where content comes from.
pub trait Source {
    /// Bytes that it has.
    fn bytes(&self) -> u64;

    /// The first range from byte `from` on that may hold data; none if zeroes follow up to the end.
    ///
    /// # Errors
    /// It cannot be told.
    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// Fills `bytes` from byte `at` on.
    ///
    /// # Errors
    /// They cannot be had.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Where content goes. What is not written reads as zeroes.
pub trait Sink {
    /// Makes room for so many bytes, all zeroes.
    ///
    /// # Errors
    /// There is no room, or it cannot be reached.
    fn begin(&mut self, bytes: u64) -> io::Result<()>;

    /// Stores `bytes` from byte `at` on.
    ///
    /// # Errors
    /// They cannot be stored.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was stored.
    ///
    /// # Errors
    /// It is not durable.
    fn end(&mut self) -> io::Result<()>;
}

/// Makes a volume from a source, or with `force` gives its content to one that is there. What the manager tells of the
/// volume is the answer. A failure leaves what was there.
///
/// # Errors
/// [`TransferError`].
pub fn import<A: Ask>(
    manager: &mut A,
    volume: &str,
    force: bool,
    source: &mut impl Source,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Value, TransferError<A::Error>> {
    let bytes = source.bytes().next_multiple_of(UNIT).to_string();
    let force = if force { &["force"][..] } else { &[] };
    order(manager, &[&["receive", volume, "-", &bytes, CONTENT, "0", "0"], force].concat())?;
    match take_in(manager, volume, source, progress) {
        Ok(()) => order(manager, &[&["receive-end", volume, "-"], force].concat()),
        Err(error) => {
            // Why it failed is worth more than that this fails too: the next import begins anew.
            let _ = order(manager, &["delete", &format!("{volume}-receiving")]);
            Err(error)
        }
    }
}

fn take_in<A: Ask>(
    manager: &mut A,
    volume: &str,
    source: &mut impl Source,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), TransferError<A::Error>> {
    let (bytes, mut from, mut buffer) = (source.bytes(), 0, vec![0; DATA_MAX as usize]);
    progress(0, bytes);
    while let Some(data) = source.next_data(from).map_err(TransferError::Source)? {
        // Whole units: a unit that a range ends in is behind `from` when the next one begins in it.
        let end = data.end.next_multiple_of(UNIT);
        for at in ((data.start / UNIT * UNIT).max(from)..end).step_by(DATA_MAX as usize) {
            let piece = &mut buffer[..DATA_MAX.min(end - at) as usize];
            let (there, padding) = piece.split_at_mut((piece.len() as u64).min(bytes - at) as usize);
            source.read(at, there).map_err(TransferError::Source)?;
            padding.fill(0);
            for run in runs(piece) {
                let start = (at + run.start as u64).to_string();
                order(manager, &["receive-data", volume, &start, &STANDARD.encode(&piece[run])])?;
            }
            progress(bytes.min(at + piece.len() as u64), bytes);
        }
        if end >= bytes {
            break;
        }
        from = end;
    }
    progress(bytes, bytes);
    Ok(())
}

/// What is not zero, in whole granules.
fn runs(piece: &[u8]) -> Vec<Range<usize>> {
    let mut runs = Vec::<Range<usize>>::new();
    for (number, granule) in piece.chunks(GRANULE).enumerate() {
        let start = number * GRANULE;
        match runs.last_mut() {
            _ if granule.iter().all(|byte| *byte == 0) => {}
            Some(last) if last.end == start => last.end += granule.len(),
            Some(_) | None => runs.push(start..start + granule.len()),
        }
    }
    runs
}

/// Gives a snapshot to a sink: its bytes, and those of them that are data.
///
/// # Errors
/// [`TransferError`].
pub fn export<A: Ask>(
    manager: &mut A,
    snapshot: &str,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(u64, u64), TransferError<A::Error>> {
    let told = ranges(manager, "changes", &Outgoing { snapshot, base: None, start: 0 })?;
    let (data, mut done) = (told.data(), 0);
    sink.begin(told.bytes).map_err(TransferError::Sink)?;
    progress(0, data);
    for (start, end, _) in told.ranges.iter().filter(|range| range.2) {
        for at in (*start..*end).step_by(DATA_MAX as usize) {
            let bytes = read(manager, &told.name, told.id, at..(*end).min(at + DATA_MAX))?;
            sink.write(at, &bytes).map_err(TransferError::Sink)?;
            done += bytes.len() as u64;
            progress(done, data);
        }
    }
    sink.end().map_err(TransferError::Sink)?;
    Ok((told.bytes, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_are_left_out_by_the_granule() {
        let mut piece = vec![0; 5 * GRANULE + 4096];
        assert_eq!(runs(&piece), []);
        for at in [GRANULE, 3 * GRANULE - 1, 5 * GRANULE] {
            piece[at] = 1;
        }
        assert_eq!(runs(&piece), [GRANULE..3 * GRANULE, 5 * GRANULE..5 * GRANULE + 4096]);
    }
}
