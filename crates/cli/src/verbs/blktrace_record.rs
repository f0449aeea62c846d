//! `esker blktrace record`: records the requests to a block device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_base::Nanos;
use esker_base::units::{parse_size, parse_span, size_human};
use esker_trace_record::block::{BlockDevice, BlockRecorded, BlockSettings, Far, record_block};
use serde_json::json;

use crate::failure::Failure;
use crate::progress::{Pace, Part};
use crate::signals;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Record>(About {
    words: &["blktrace", "record"],
    summary: "Record the requests to a block device",
    details: "Writes a block trace in format blktrace: when each request is queued, issued and completed, and which \
              process sends it. Other verbs and blkparse read it. Of a partition, requests in its range are recorded, \
              with sectors that count from its beginning. No data is read. Programs in the kernel see the requests, \
              which takes root and Linux 5.15. The recording ends after --for, with --max-size, or with CTRL-C, and is \
              whole then. Events that come faster than they are written are counted and reported.",
    examples: &[
        Example {
            line: "esker blktrace record /dev/nvme0n1 --for 1h -o db.blktrace",
            does: "records an hour of a database's disk, for esker try db.blktrace",
        },
        Example { line: "esker blktrace record /dev/sda2 -o home.blktrace", does: "records a partition until CTRL-C" },
    ],
});

#[derive(clap::Args)]
struct Record {
    /// Block device or partition
    device: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: String,
    /// How long to record [default: until CTRL-C]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    span: Option<Duration>,
    /// End when the file is as large as this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Memory for events that are not yet written, a power of two
    #[arg(long, value_name = "SIZE", value_parser = super::trace_record::ring, default_value = "16MiB")]
    buffer: u32,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn span(text: &str) -> Result<Duration, String> {
    match parse_span(text).map_err(|error| error.to_string())? {
        Nanos::ZERO => Err("a recording takes time: a number above 0, such as 10s or 1h".to_string()),
        span => Ok(Duration::from_nanos(span.0)),
    }
}

impl Run for Record {
    const PACE: Option<Pace> = Some(Pace::Shows("seconds of --for"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let device = BlockDevice::find(&self.device)?;
        let settings = BlockSettings {
            span: self.span,
            bytes_max: self.max_size,
            ring_bytes: self.buffer,
            stop: signals::end_of_work()?,
            ready: Default::default(),
        };
        if device.holds(Path::new(&self.output)) {
            terminal.complain(&format!(
                "warning: {} lies on {}, so its own writes are recorded; choose a place on another device",
                self.output, device.name
            ));
        }
        let recorded = target::write(&self.output, self.force, |file| {
            let mut shown = Shown::new(&device, self.span, terminal);
            Ok(record_block(&device, &settings, file, |far: &Far| shown.show(far))?)
        })?;
        self.report(&device, &recorded, terminal)
    }
}

/// Shows how far the recording is: its seconds.
struct Shown<'a> {
    device: &'a BlockDevice,
    part: Part,
    /// The second that was shown last.
    second: Option<u64>,
}

impl<'a> Shown<'a> {
    fn new(device: &'a BlockDevice, span: Option<Duration>, terminal: &mut Terminal) -> Shown<'a> {
        let size = size_human(device.size);
        let how_long = span.map_or("until CTRL-C".to_string(), |span| format!("for {}", told(span)));
        terminal.complain(&format!("recording {} ({size}) {how_long}", device.name));
        let all = span.map(|span| span.as_secs_f64().ceil() as u64);
        let part = terminal.watcher().takes(&device.name, all);
        Shown { device, part, second: None }
    }

    fn show(&mut self, far: &Far) {
        let second = Some(far.elapsed.as_secs());
        if self.second == second {
            return;
        }
        self.second = second;
        let lost = if far.lost > 0 { format!(", {} events lost", far.lost) } else { String::new() };
        let (name, count, bytes) = (&self.device.name, far.requests, size_human(far.bytes));
        self.part.at(&format!("{count} requests of {name}, {bytes}{lost}"));
        self.part.done(far.elapsed.as_secs());
    }
}

fn told(span: Duration) -> String {
    Nanos(span.as_nanos() as u64).to_string()
}

impl Record {
    fn report(&self, device: &BlockDevice, recorded: &BlockRecorded, terminal: &mut Terminal) -> Result<(), Failure> {
        let BlockRecorded { far, tally, is_full } = recorded;
        let queued = &tally.queued;
        let at = |quantile| Nanos(tally.service.value_at_quantile(quantile));
        if self.json {
            let object = json!({
                "device": device.name, "target": self.output, "seconds": far.elapsed.as_secs_f64(),
                "requests": far.requests, "reads": queued.reads, "bytes_read": queued.bytes_read,
                "writes": queued.writes, "bytes_written": queued.bytes_written, "flushes": queued.flushes,
                "discards": queued.discards, "zeroes": queued.zeroes, "commands": queued.commands,
                "issued": tally.issued, "completed": tally.completed, "failed": tally.failed,
                "service_p50_ns": at(0.5).0, "service_p99_ns": at(0.99).0,
                "lost_events": far.lost, "bytes": far.bytes, "full": is_full,
            });
            terminal.say(&object.to_string())?;
        }
        terminal.complain(&format!(
            "{}: {} requests of {} in {}: {} reads ({}), {} writes ({}), {} flushes, {} discards",
            self.output,
            far.requests,
            device.name,
            told(far.elapsed),
            queued.reads,
            size_human(queued.bytes_read),
            queued.writes,
            size_human(queued.bytes_written),
            queued.flushes,
            queued.discards,
        ));
        if tally.completed > 0 {
            let (median, high) = (at(0.5), at(0.99));
            let (completed, failed, left) = (tally.completed, tally.failed, tally.under_way());
            terminal.complain(&format!(
                "the device answered {completed} requests, p50 {median}, p99 {high}; {failed} failed, {left} under way"
            ));
        }
        self.warn(device, recorded, terminal);
        Ok(())
    }

    fn warn(&self, device: &BlockDevice, recorded: &BlockRecorded, terminal: &mut Terminal) {
        let BlockRecorded { far, tally, is_full } = recorded;
        if *is_full {
            terminal.complain("the recording ended early: the file is as large as --max-size allows");
        }
        if far.lost > 0 {
            terminal.complain(&format!(
                "warning: {} events were lost, as the file tells too; record again with a larger --buffer",
                far.lost
            ));
        }
        if tally.queued.zeroes > 0 {
            terminal.complain(&format!("warning: {} requests for zeroes are kept as writes", tally.queued.zeroes));
        }
        if far.requests == 0 {
            terminal.complain(&format!(
                "warning: no request came to {}: reads may be answered by the page cache, and `lsblk` shows which \
                 device a file system is on",
                device.name
            ));
        }
    }
}
