//! All events of requests, as a recorder of this machine sees them: queued, issued, completed, with processes by name.

use super::category::{COMPLETE, ISSUE, NOTIFY, QUEUE};
use super::{HEAD_BYTES, LOST, NOTE_PROCESS, NOTE_TEXT, NOTE_TIME, Origin, Raw, VERSION, put};
use esker_base::Nanos;
use std::collections::BTreeMap;

/// More processes than this are forgotten, and named again when they return.
const PROCESSES_MAX: usize = 65_536;

/// A step in a request's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlkStage {
    /// It came to the block layer.
    Queued,
    /// It went to the driver, possibly merged with others.
    Issued,
    /// It came back, or a part of it.
    Completed,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlkEvent {
    /// Which step.
    pub stage: BlkStage,
    /// When, by the monotonic clock.
    pub at: Nanos,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Bits of [`category`](super::category).
    pub categories: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The process.
    pub process: u32,
    /// Its name, filled up with zeroes.
    pub name: [u8; 16],
    /// Whether it ended with an error.
    pub has_failed: bool,
}

/// Writes events in blktrace's binary form. blkparse takes a file for that of one CPU, so all events are of CPU 0.
#[derive(Debug, Default)]
pub struct BlkEvents {
    /// The last sequence number.
    sequence: u32,
    /// Processes whose names were written.
    names: BTreeMap<u32, [u8; 16]>,
}

/// `-EIO` in the field of 16 bits.
const FAILED: u16 = 5u16.wrapping_neg();

impl BlkEvents {
    /// Notes that the clock shows `since_1970` when the monotonic one shows `at`.
    pub fn begin(&self, at: Nanos, device: (u32, u32), since_1970: Nanos, out: &mut Vec<u8>) {
        // The field of seconds has 32 bits: it goes round in 2106.
        let split = [(since_1970.0 / 1_000_000_000) & u64::from(u32::MAX), since_1970.0 % 1_000_000_000];
        let [seconds, nanos] = split.map(|part| u32::try_from(part).expect("both are below 2^32"));
        note((at, device, 0), NOTE_TIME, &[seconds.to_le_bytes(), nanos.to_le_bytes()].concat(), out);
    }

    /// Adds an event, behind the name of its process if that is new.
    pub fn put(&mut self, event: &BlkEvent, out: &mut Vec<u8>) {
        if self.names.get(&event.process) != Some(&event.name) {
            if self.names.len() >= PROCESSES_MAX {
                self.names.clear();
            }
            self.names.insert(event.process, event.name);
            note((event.at, event.device, event.process), NOTE_PROCESS, &event.name, out);
        }
        let (action, category) = match event.stage {
            BlkStage::Queued => (1, QUEUE),
            BlkStage::Issued => (7, ISSUE),
            BlkStage::Completed => (8, COMPLETE),
        };
        self.sequence = self.sequence.wrapping_add(1);
        let raw = Raw {
            version: VERSION,
            nanos: event.at.0,
            sector: event.sector,
            bytes: event.bytes,
            action: (event.categories | category) << 16 | action,
            device: number(event.device),
            pid: event.process,
            pdu_len: 0,
        };
        let error = if event.has_failed { FAILED } else { 0 };
        put(&raw, Origin { sequence: self.sequence, error }, out);
    }

    /// Notes that so many events before this place were lost. Readers report it.
    pub fn lost(&self, at: Nanos, device: (u32, u32), count: u64, out: &mut Vec<u8>) {
        note((at, device, 0), NOTE_TEXT, format!("{}{count}{}", LOST[0], LOST[1]).as_bytes(), out);
    }

    /// Bytes of an event without the name of a process.
    pub const EVENT_BYTES: usize = HEAD_BYTES;
}

fn number((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor
}

/// Writes a note at a time, on a device and of a process.
fn note((at, device, pid): (Nanos, (u32, u32), u32), kind: u32, text: &[u8], out: &mut Vec<u8>) {
    let pdu_len = u16::try_from(text.len()).expect("notes are short");
    let (device, action) = (number(device), NOTIFY << 16 | kind);
    let raw = Raw { version: VERSION, nanos: at.0, sector: 0, bytes: 0, action, device, pid, pdu_len };
    put(&raw, Origin::default(), out);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::super::category;
    use super::*;
    use crate::{Format, Op, Record, Source, TraceReader};

    const DEVICE: (u32, u32) = (7, 1);

    fn event(stage: BlkStage, at: u64, categories: u32, bytes: u32) -> BlkEvent {
        let name = *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let (sector, at) = (if bytes > 0 { 8 } else { 0 }, Nanos(at));
        BlkEvent { stage, at, device: DEVICE, categories, sector, bytes, process: 42, name, has_failed: false }
    }

    fn read(bytes: &[u8]) -> (Vec<Record>, Vec<String>, Vec<String>) {
        let mut reader = TraceReader::from_bytes(bytes, Format::Blktrace).expect("it is a trace");
        let records = std::iter::from_fn(|| reader.next_record().expect("it is whole")).collect();
        let faults = reader.report().faults.iter().map(ToString::to_string).collect();
        (records, reader.volumes().to_vec(), faults)
    }

    #[test]
    fn queued_events_read_back_as_requests_with_their_process() {
        let (mut events, mut out) = (BlkEvents::default(), Vec::new());
        events.begin(Nanos(900), DEVICE, Nanos(1_000_000_000_007), &mut out);
        let write = category::WRITE | category::SYNC | category::FUA;
        for (stage, at) in [(BlkStage::Queued, 1_000), (BlkStage::Issued, 1_200), (BlkStage::Completed, 1_900)] {
            events.put(&event(stage, at, write, 4096), &mut out);
        }
        events.put(&event(BlkStage::Queued, 2_000, category::WRITE | category::FLUSH, 0), &mut out);
        events.put(&event(BlkStage::Queued, 2_500, category::WRITE | category::DISCARD, 8192), &mut out);
        let record = |at, op, offset, len| Record { at: Nanos(at), volume: 0, op, offset, len, who: 42 };
        let expected =
            [record(0, Op::Write, 4096, 4096), record(1_000, Op::Flush, 0, 0), record(1_500, Op::Discard, 4096, 8192)];
        assert_eq!(read(&out), (expected.to_vec(), vec!["7,1".to_string()], Vec::new()));
        let heads = out.len() - 8 - 16;
        assert_eq!(heads, 7 * BlkEvents::EVENT_BYTES, "two notes, five events");
    }

    #[test]
    fn lost_events_are_reported_where_they_are_missing() {
        let (mut events, mut out) = (BlkEvents::default(), Vec::new());
        events.put(&event(BlkStage::Queued, 1_000, category::READ, 512), &mut out);
        events.lost(Nanos(1_500), DEVICE, 31, &mut out);
        let (records, _, faults) = read(&out);
        assert_eq!((records.len(), faults.len()), (1, 1));
        assert!(faults[0].contains("31 events are missing here"), "{faults:?}");
    }
}
