//! Requests that wait for a device: Lindley's recursion, with a buffer that holds writes back.
//!
//! A device works on one request after another (D. V. Lindley, *The theory of queues with a single server*, 1952). A
//! longer queue makes each request shorter, as measured. Work that nobody waits for goes on in pauses.

use std::collections::VecDeque;

use esker_base::units::KIB;

use crate::service::Service;

/// Bytes that lie side by side on one device of a stripe.
pub(crate) const CHUNK: u64 = 64 * KIB;
/// The distance to any place of a device.
const ANYWHERE: u64 = u64::MAX;

/// Equal devices, striped if they are several.
pub(crate) struct Devices<'s> {
    service: &'s Service,
    each: Vec<Device>,
}

#[derive(Default)]
struct Device {
    /// When it has done what came, in nanoseconds.
    free: f64,
    /// End of the last request.
    head: u64,
    /// Work that nobody waits for, in nanoseconds.
    behind: f64,
    /// When requests that are with the device end.
    ends: VecDeque<f64>,
    busy: f64,
}

impl<'s> Devices<'s> {
    pub(crate) fn new(service: &'s Service, count: u32) -> Devices<'s> {
        Devices { service, each: (0..count.max(1)).map(|_| Device::default()).collect() }
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
        let (reach, transfer) = (service.reach_ns(device.distance(place)), service.transfer_ns(bytes));
        let alone = reach + transfer;
        // A device in a pause works on what was held back, and ends that first.
        let is_pausing = device.free <= at;
        let rest = if is_pausing { device.behind.min(service.drain_ns(ANYWHERE, 4 * KIB) / 2.0) } else { 0.0 };
        device.behind -= rest;
        let took = reach * service.share(device.ends.len() + 1) + transfer;
        device.free = device.free.max(at) + rest + took;
        device.busy += rest + took;
        device.head = place + bytes;
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
        device.behind += service.drain_ns(device.distance(place), bytes);
        device.head = place + bytes;
        let over = device.behind - service.buffered_ns();
        if over > 0.0 {
            device.behind -= over;
            device.busy += over;
            device.free = device.free.max(at) + over;
            return device.free + service.answer_ns(bytes);
        }
        at + service.answer_ns(bytes)
    }

    /// Adds work that nobody waits for: so many writes of these bytes, each somewhere.
    pub(crate) fn later(&mut self, offset: u64, bytes: u64) {
        let ((number, _), bytes) = (self.place(offset), self.part(bytes));
        self.each[number].behind += self.service.drain_ns(ANYWHERE, bytes);
    }

    /// The time at work of all.
    pub(crate) fn worked_ns(&self) -> f64 {
        self.each.iter().map(|device| device.busy).sum()
    }
}

impl Device {
    /// Pauses until now went into what was held back, and what has ended is gone.
    fn catch_up(&mut self, at: f64) {
        let used = (at - self.free).clamp(0.0, self.behind);
        self.behind -= used;
        self.busy += used;
        self.free += used;
        while self.ends.front().is_some_and(|end| *end <= at) {
            self.ends.pop_front();
        }
    }

    fn distance(&self, place: u64) -> u64 {
        self.head.abs_diff(place)
    }
}
