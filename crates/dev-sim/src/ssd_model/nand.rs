//! When dies, channels and the write buffer are free.
//!
//! Each die has two clocks: until when it senses for the host, and until when all of its work takes. A read goes before
//! programs and erasures: it waits for the one under way for at most the time that suspending takes, and pushes the
//! rest back. Channels have two clocks likewise. They are ledgers: a transfer takes its share from the moment it is
//! known, so that a later one whose data is there earlier can pass, and the sum of transfers never exceeds the rate.
//! The collector's programs do not wait for its reads, which are on other dies: the controller holds units of earlier
//! reads.

use std::collections::VecDeque;

use esker_base::{Nanos, Time};

use super::ftl::{Flash, Writer};
use super::spec::{SsdSpec, UNIT};

/// The time that bytes take at a rate, with the last answer kept: most requests are of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    rate: u64,
    bytes: u64,
    span: Nanos,
}

impl Wire {
    pub(super) fn new(rate: u64) -> Wire {
        Wire { rate, bytes: 0, span: Nanos::ZERO }
    }

    #[inline]
    pub(super) fn span(&mut self, bytes: u64) -> Nanos {
        if bytes != self.bytes {
            (self.bytes, self.span) = (bytes, Nanos::transfer(bytes, self.rate));
        }
        self.span
    }
}

#[derive(Clone, Copy)]
struct Die {
    /// Sensing for the host ends then.
    sensing: Time,
    /// All work ends then.
    work: Time,
    channel: u32,
}

#[derive(Clone, Copy, Default)]
struct Channel {
    /// Transfers for the host's reads end then at the earliest, and all transfers.
    reads: Time,
    work: Time,
}

impl Channel {
    /// Adds work that is known at `now`, and returns when all is done at the earliest.
    #[inline]
    fn work(&mut self, now: Time, span: Nanos) -> Time {
        self.work = self.work.max(now) + span;
        self.work
    }
}

/// A page that is being programmed: its end, and the host's units that leave the buffer then.
type Leaving = (Time, u32);

/// All dies, channels and the write buffer.
pub(super) struct Nand {
    spec: SsdSpec,
    unit_span: Nanos,
    page_span: Nanos,
    wire: Wire,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// When the request came, and when what it writes is in the buffer.
    now: Time,
    ready: Time,
    leaving: VecDeque<Leaving>,
    /// The host's units in the buffer: all, and those of the open page.
    buffered: u64,
    open: u32,
    /// Ends of the first and last program of a host page since [`Nand::begin`], and of the last one at all.
    first: Option<Time>,
    last: Time,
    programmed: Time,
    /// Sum of the time that dies were busy.
    busy: Nanos,
}

impl Nand {
    pub(super) fn new(spec: &SsdSpec) -> Nand {
        let die = |at: u32| Die { sensing: Time::ZERO, work: Time::ZERO, channel: at % spec.channels };
        Nand {
            spec: *spec,
            unit_span: Nanos::transfer(UNIT, spec.unit_rate),
            page_span: Nanos::transfer(spec.page, spec.unit_rate),
            wire: Wire::new(spec.unit_rate),
            dies: (0..spec.channels * spec.dies).map(die).collect(),
            channels: vec![Channel::default(); spec.channels as usize],
            now: Time::ZERO,
            ready: Time::ZERO,
            leaving: VecDeque::new(),
            buffered: 0,
            open: 0,
            first: None,
            last: Time::ZERO,
            programmed: Time::ZERO,
            busy: Nanos::ZERO,
        }
    }

    /// Begins a request at `now`: forgets what has left the buffer.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        while let Some((end, _)) = self.leaving.front()
            && *end <= now
        {
            self.leave();
        }
        (self.first, self.last) = (None, Time::ZERO);
        (self.now, self.ready) = (now, now);
    }

    fn leave(&mut self) -> Option<Time> {
        let (end, units) = self.leaving.pop_front()?;
        self.buffered -= u64::from(units);
        Some(end)
    }

    /// Takes room for one unit that is there at `ready`, and returns when it is accepted.
    #[inline]
    pub(super) fn accept(&mut self, ready: Time) -> Time {
        let mut accepted = ready;
        while self.buffered * UNIT >= self.spec.buffer
            && let Some(end) = self.leave()
        {
            accepted = accepted.max(end);
        }
        self.buffered += 1;
        self.open += 1;
        self.ready = self.ready.max(accepted);
        accepted
    }

    /// Gives back the room of a unit that replaced another one in the buffer.
    #[inline]
    pub(super) fn release(&mut self) {
        self.buffered -= 1;
        self.open -= 1;
    }

    /// Holds the unit that is written next back until the page that it changes a part of has been read.
    pub(super) fn read_first(&mut self, die: u32, start: Time) {
        self.ready = self.ready.max(self.read(die, start, UNIT));
    }

    /// Reads `bytes` of one page for the host and returns when they are in the controller.
    #[inline]
    pub(super) fn read(&mut self, die: u32, start: Time, bytes: u64) -> Time {
        let die = &mut self.dies[die as usize];
        let begin = match die.sensing >= start {
            true => die.sensing,
            false => start + die.work.since(start).min(self.spec.suspend),
        };
        let sensed = begin + self.spec.read;
        if die.work > start {
            die.work = die.work + sensed.since(die.sensing.max(start));
        }
        die.sensing = sensed;
        self.busy += self.spec.read;
        let span = self.wire.span(bytes);
        let channel = &mut self.channels[die.channel as usize];
        channel.work(start, span);
        channel.reads = channel.reads.max(start) + span;
        (sensed + span).max(channel.reads)
    }

    /// Host units in the open page, which is not yet being programmed.
    pub(super) fn open_units(&self) -> u32 {
        self.open
    }

    /// Pages that are on their way from the buffer to flash.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Bytes in the write buffer, counting those that were programmed since the last request came.
    pub(super) fn buffered_bytes(&self) -> u64 {
        self.buffered * UNIT
    }

    /// Ends of the first and the last program of a host page since [`Nand::begin`].
    pub(super) fn programs(&self) -> Option<(Time, Time)> {
        self.first.map(|first| (first, self.last))
    }

    /// End of the last program of a host page.
    pub(super) fn programmed(&self) -> Time {
        self.programmed
    }

    /// Sum of the time that dies were busy or are planned to be.
    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }
}

impl Flash for Nand {
    #[inline]
    fn program(&mut self, die: u32, writer: Writer) {
        let die = &mut self.dies[die as usize];
        let transferred = self.channels[die.channel as usize].work(self.now, self.page_span);
        let begin = self.ready.max(die.work).max(die.sensing);
        let end = (begin + self.page_span).max(transferred) + self.spec.program;
        die.work = end;
        self.busy += self.spec.program;
        if writer == Writer::Host {
            self.leaving.push_back((end, std::mem::take(&mut self.open)));
            self.first = self.first.or(Some(end));
            self.last = self.last.max(end);
            self.programmed = self.programmed.max(end);
        }
    }

    #[inline]
    fn collect(&mut self, die: u32, sense: bool) {
        let die = &mut self.dies[die as usize];
        self.channels[die.channel as usize].work(self.now, self.unit_span);
        if sense {
            die.work = die.work.max(die.sensing).max(self.now) + self.spec.read;
            self.busy += self.spec.read;
        }
    }

    fn erase(&mut self) {
        for die in &mut self.dies {
            die.work = die.work.max(die.sensing).max(self.now) + self.spec.erase;
        }
        self.busy += self.spec.erase * self.dies.len() as u64;
    }
}
