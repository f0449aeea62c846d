//! Requests that wait for a device: Lindley's recursion, with a buffer that holds writes back, and segments of what a
//! disk has read on.
//!
//! A device works on one request after another (D. V. Lindley, *The theory of queues with a single server*, 1952). A
//! longer queue makes each request shorter, as measured. Work without a client goes on in pauses.

use std::collections::VecDeque;

use esker_base::units::KIB;

use crate::segments::ReadSegments;
use crate::service::Service;

/// Bytes that lie side by side on one device of a stripe.
pub(crate) const CHUNK: u64 = 64 * KIB;
/// The distance to any place of a device.
const ANYWHERE: u64 = u64::MAX;

/// Equal devices, striped if they are several.
pub(crate) struct Devices<'s> {
    service: &'s Service,
    each: Vec<Device>,
    /// After how long a pause they rest, and how long they take to spin up, in nanoseconds.
    rest: Option<(f64, f64)>,
}

/// What devices did, all of them together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    /// Time at work, and at rest, in nanoseconds.
    pub busy: f64,
    pub rested: f64,
    pub spin_ups: f64,
}

#[derive(Default)]
struct Device {
    /// When it has done what came, in nanoseconds.
    free: f64,
    /// End of the last request.
    head: u64,
    /// Work without a client, in nanoseconds.
    behind: f64,
    /// When requests that are with the device end.
    ends: VecDeque<f64>,
    segments: ReadSegments,
    done: Done,
}

impl<'s> Devices<'s> {
    pub(crate) fn new(service: &'s Service, count: u32) -> Devices<'s> {
        let device = |_| Device { segments: ReadSegments::new(service), ..Device::default() };
        Devices { service, each: (0..count.max(1)).map(device).collect(), rest: None }
    }

    /// The same, but they rest after a pause, and take some time to spin up, in nanoseconds.
    pub(crate) fn resting(self, after: f64, spin_up: f64) -> Devices<'s> {
        Devices { rest: Some((after, spin_up)), ..self }
    }

    /// The device and the place on it of an offset.
    fn place(&self, offset: u64) -> (usize, u64) {
        let count = self.each.len() as u64;
        if count == 1 {
            return (0, offset);
        }
        let chunk = offset / CHUNK;
        ((chunk % count) as usize, chunk / count * CHUNK + offset % CHUNK)
    }

    /// Chunks of a request lie on several devices, each of which has its part.
    fn part(&self, bytes: u64) -> u64 {
        bytes.div_ceil((bytes / CHUNK).clamp(1, self.each.len() as u64))
    }

    /// Answers when a read is done.
    pub(crate) fn read(&mut self, at: f64, offset: u64, bytes: u64) -> f64 {
        let ((number, place), bytes, service) = (self.place(offset), self.part(bytes), self.service);
        let device = &mut self.each[number];
        device.catch_up(at);
        device.wake(at, self.rest);
        if let Some(passed) = device.segments.hold(place, bytes, at) {
            return passed.max(at) + service.held_ns(bytes);
        }
        let (reach, transfer) = (service.reach_ns(device.distance(place)), service.transfer_ns(bytes));
        let alone = reach + transfer;
        // A device in a pause works on what was held back, and ends that first.
        let is_pausing = device.free <= at;
        let rest = if is_pausing { device.behind.min(service.drain_ns(ANYWHERE, 4 * KIB) / 2.0) } else { 0.0 };
        device.behind -= rest;
        let (begin, took) = (device.free.max(at), reach * service.share(device.ends.len() + 1) + transfer);
        device.free = begin + rest + took;
        device.done.busy += rest + took;
        device.head = place + bytes;
        device.segments.leave(begin);
        device.segments.begin(place, bytes, device.free);
        // A device that works on several requests at once answers none of them sooner than alone.
        let end = device.free.max(at + alone);
        device.ends.push_back(end);
        end
    }

    /// Answers when a write is answered.
    pub(crate) fn write(&mut self, at: f64, offset: u64, bytes: u64) -> f64 {
        let ((number, place), bytes, service) = (self.place(offset), self.part(bytes), self.service);
        let device = &mut self.each[number];
        device.catch_up(at);
        device.wake(at, self.rest);
        // The arm goes to what was written in the next pause.
        device.segments.leave(device.free.max(at));
        device.behind += service.drain_ns(device.distance(place), bytes);
        device.head = place + bytes;
        let over = device.behind - service.buffered_ns();
        if over > 0.0 {
            device.behind -= over;
            device.done.busy += over;
            device.free = device.free.max(at) + over;
            return device.free + service.answer_ns(bytes);
        }
        at + service.answer_ns(bytes)
    }

    /// Adds work without a client: so many writes of these bytes, each somewhere.
    pub(crate) fn later(&mut self, offset: u64, bytes: u64) {
        let ((number, _), bytes) = (self.place(offset), self.part(bytes));
        let device = &mut self.each[number];
        device.behind += self.service.drain_ns(ANYWHERE, bytes);
        device.segments.leave(device.free);
    }

    /// What all have done until now.
    pub(crate) fn done(&self, now: f64) -> Done {
        let rested = |device: &Device| device.done.rested + device.rests(now, self.rest);
        Done {
            busy: self.each.iter().map(|device| device.done.busy).sum(),
            rested: self.each.iter().map(rested).sum(),
            spin_ups: self.each.iter().map(|device| device.done.spin_ups).sum(),
        }
    }
}

impl Device {
    /// Pauses until now went into what was held back, and what has ended is gone.
    fn catch_up(&mut self, at: f64) {
        let used = (at - self.free).clamp(0.0, self.behind);
        self.behind -= used;
        self.done.busy += used;
        self.free += used;
        while self.ends.front().is_some_and(|end| *end <= at) {
            self.ends.pop_front();
        }
    }

    /// How long it has been at rest, in nanoseconds.
    fn rests(&self, now: f64, rest: Option<(f64, f64)>) -> f64 {
        rest.map_or(0.0, |(after, _)| (now - self.free - after).max(0.0))
    }

    /// Spins up if it is at rest.
    fn wake(&mut self, at: f64, rest: Option<(f64, f64)>) {
        let rested = self.rests(at, rest);
        if let Some((_, spin_up)) = rest.filter(|_| rested > 0.0) {
            self.done.rested += rested;
            self.done.spin_ups += 1.0;
            self.free = at + spin_up;
        }
    }

    fn distance(&self, place: u64) -> u64 {
        self.head.abs_diff(place)
    }
}
