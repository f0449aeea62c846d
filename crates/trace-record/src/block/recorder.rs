//! The recording of a block device, from its beginning to its end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use esker_base::Nanos;
use esker_trace_block::BlkEvents;

use super::device::BlockDevice;
use super::pairing::Tally;
use super::programs::{ProgramError, Programs};
use super::wire;
use crate::recorder::clock;

/// How it is recorded.
#[derive(Clone, Debug)]
pub struct BlockSettings {
    /// How long; without it, until it is asked to stop.
    pub span: Option<Duration>,
    /// The recording ends when its file has so many bytes.
    pub bytes_max: Option<u64>,
    /// Room for what was seen and not yet written: a power of two of bytes.
    pub ring_bytes: u32,
    /// Set to end it.
    pub stop: Arc<AtomicBool>,
    /// Is set when all requests from then on are seen.
    pub ready: Arc<AtomicBool>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// Since it began.
    pub elapsed: Duration,
    /// Requests that were queued.
    pub requests: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct BlockRecorded {
    /// Its time, its bytes and what was lost.
    pub far: Far,
    /// Its events.
    pub tally: Tally,
    /// Whether it ended because its file is as large as it may be.
    pub is_full: bool,
}

/// A recording that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The kernel takes no programs.
    #[error("requests cannot be seen by programs in the kernel: {0}; `esker doctor` examines this machine")]
    Programs(#[from] ProgramError),
    /// The recording cannot be written.
    #[error("the recording cannot be written: {0}; give its file more room")]
    Unwritten(#[from] io::Error),
}

/// The ring is looked at so often.
const NAP: Duration = Duration::from_millis(2);
/// Bytes that are written at once.
const BATCH: usize = 256 << 10;
/// What was recorded outlives this process after so long.
const WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// Records until the time is over, the file is full, or `settings.stop` is set. `show` hears often how far it is.
///
/// # Errors
/// [`BlockError`].
pub fn record_block(
    device: &BlockDevice,
    settings: &BlockSettings,
    out: impl Write,
    mut show: impl FnMut(&Far),
) -> Result<BlockRecorded, BlockError> {
    let mut programs = Programs::start(device, settings.ring_bytes)?;
    let mut file = Growing::new(device, out);
    settings.ready.store(true, Ordering::Release);
    let begun = Instant::now();
    let is_full = loop {
        let seen = file.drain(&mut programs);
        file.note_lost(programs.lost());
        file.write(false)?;
        let is_full = settings.bytes_max.is_some_and(|most| file.bytes + file.batch.len() as u64 >= most);
        let far = file.far(begun);
        show(&far);
        let is_over = settings.span.is_some_and(|span| far.elapsed >= span);
        if is_over || is_full || settings.stop.load(Ordering::Relaxed) {
            break is_full;
        }
        if seen == 0 {
            thread::sleep(NAP);
        }
    };
    let far = file.far(begun);
    programs.halt();
    while !is_full && file.drain(&mut programs) > 0 {
        file.write(false)?;
    }
    file.note_lost(programs.lost());
    file.write(true)?;
    Ok(BlockRecorded { far: Far { elapsed: far.elapsed, ..file.far(begun) }, tally: file.tally, is_full })
}

/// A recording that grows.
struct Growing<W> {
    out: W,
    number: (u32, u32),
    events: BlkEvents,
    tally: Tally,
    batch: Vec<u8>,
    /// Bytes that were written.
    bytes: u64,
    written: Instant,
    /// Lost events of which the file tells.
    lost: u64,
}

impl<W: Write> Growing<W> {
    fn new(device: &BlockDevice, out: W) -> Growing<W> {
        let (events, mut batch) = (BlkEvents::default(), Vec::with_capacity(2 * BATCH));
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        events.begin(Nanos(clock()), device.number(), Nanos(since_1970.as_nanos() as u64), &mut batch);
        let tally = Tally::new(device.has_queues);
        Growing { out, number: device.number(), events, tally, batch, bytes: 0, written: Instant::now(), lost: 0 }
    }

    /// Takes what is in the ring, at most a batch of it; tells how many events that were.
    fn drain(&mut self, programs: &mut Programs) -> usize {
        let Growing { number, events, tally, batch, .. } = self;
        programs.ring.drain(|record| {
            let mut seen =
                wire::read(record, *number).expect("programs in the kernel and their reader are of one make");
            tally.take(&mut seen);
            events.put(&seen.event, batch);
        })
    }

    /// Has the file tell that events were lost, if some were since it told last.
    fn note_lost(&mut self, lost: u64) {
        if lost > self.lost {
            self.events.lost(Nanos(clock()), self.number, lost - self.lost, &mut self.batch);
            self.lost = lost;
        }
    }

    /// Writes the batch if it is large or old, or at the `end`.
    fn write(&mut self, end: bool) -> io::Result<()> {
        let is_due = self.batch.len() >= BATCH || self.written.elapsed() >= WRITTEN_EVERY;
        if end || is_due {
            self.out.write_all(&self.batch)?;
            self.bytes += self.batch.len() as u64;
            self.batch.clear();
            self.written = Instant::now();
        }
        if end { self.out.flush() } else { Ok(()) }
    }

    fn far(&self, begun: Instant) -> Far {
        let bytes = self.bytes + self.batch.len() as u64;
        Far { elapsed: begun.elapsed(), requests: self.tally.queued.requests(), bytes, lost: self.lost }
    }
}
