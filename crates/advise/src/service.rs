//! How fast a device is: measured on its model in virtual time, once for each device and span of use.

use std::rc::Rc;

use esker_base::units::{KIB, MIB, parse_size, size_text};
use esker_base::{Nanos, Stream};
use esker_block::{Bio, Buf};
use esker_dev_sim::catalogue;
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Export, Spec, Stack};
use esker_tiering::Sheet;

use crate::catalogue::Offer;
use crate::error::AdviseError;

/// Queue lengths at which a device is measured.
pub const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Distances between two requests, in powers of two of [`NEAR`] bytes.
const BINS: usize = 28;
/// Requests this near count as adjacent.
const NEAR: u64 = 64 * KIB;
/// Bytes of a random request.
const PAGE: u64 = 4 * KIB;
/// Bytes of a request of a stream.
const PIECE: u64 = MIB;
/// Requests for each distance.
const NEARBY: u64 = 48;
/// Requests for each queue length.
const QUEUED: u64 = 640;
/// Requests of a flood of writes.
const FLOOD: u64 = 4000;
/// Pieces of a stream.
const PIECES: u64 = 128;
/// No disk turns more slowly.
const TURN_MAX: Nanos = Nanos::millis(17);
/// After this pause a device has written what it held back.
const PAUSE: Nanos = Nanos::millis(200);
/// A device is measured on this much of itself at least.
const SPAN_MIN: u64 = 256 * MIB;

/// How long a device takes, in nanoseconds. It works on one request after another; a queue makes each of them shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// A random read of 4 KiB by its distance from the request before.
    read_ns: [f64; BINS],
    /// What a request takes beside others, by queue length, as a share of what it takes alone.
    shares: [f64; DEPTHS.len()],
    /// A byte of a stream of reads.
    read_byte_ns: f64,
    /// The answer to a write that the device buffers, and a byte of it.
    answer_ns: f64,
    answer_byte_ns: f64,
    /// What writing 4 KiB at a random place to the medium takes later, and a byte of a stream.
    drain_ns: f64,
    drain_byte_ns: f64,
    /// Bytes that the device buffers.
    pub buffer_bytes: f64,
    /// Runs of bytes that it holds behind reads.
    pub segments: u32,
    /// How far it reads on behind each, in bytes.
    pub read_ahead_bytes: u64,
}

impl Service {
    /// Measures a device of which the first `span` bytes are in use.
    ///
    /// # Errors
    /// A model that cannot be built.
    pub fn measure(offer: &Offer, span: u64, seed: u64) -> Result<Service, AdviseError> {
        let span = span.clamp(SPAN_MIN, offer.bytes) / MIB * MIB;
        let text = format!("vol = {} profile={} size={}; export vol = vol", offer.kind, offer.profile, size_text(span));
        let measured = |work: fn(Probe) -> Measuring| -> Result<Vec<f64>, AdviseError> {
            let sim = Sim::new(SimConfig::seeded(seed));
            let rt = sim.rt();
            let spec = Spec::parse("a measured device", &text).expect("a text of ours");
            let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &spec)?;
            Ok(sim.block_on(async move {
                stack.opened().await;
                let vol = stack.export("vol").expect("the text exports it");
                work(Probe { rt, vol, span, stream: Stream::named(seed, "measured devices") }).await
            }))
        };
        let reads = measured(|probe| Box::pin(probe.by_distance()))?;
        let queued = measured(|probe| Box::pin(probe.by_depth()))?;
        let streams = measured(|probe| Box::pin(probe.streams()))?;
        let writes = measured(|probe| Box::pin(probe.writes()))?;
        let entry = catalogue::find(offer.kind, &offer.profile).expect("an offer has a profile");
        let text = |param: &str| entry.numbers.get(param).map(|number| number.text.as_str());
        let bytes = |param: &str| text(param).and_then(|text| parse_size(text).ok()).unwrap_or(0);
        let segments = text("segments").and_then(|text| text.parse().ok());
        Ok(Service {
            read_ns: reads.try_into().expect("a value for each distance"),
            shares: queued.iter().map(|ns| ns / queued[0]).collect::<Vec<_>>().try_into().expect("one for each depth"),
            read_byte_ns: streams[0],
            drain_byte_ns: streams[1],
            answer_ns: writes[0],
            answer_byte_ns: writes[1],
            drain_ns: writes[2],
            buffer_bytes: bytes("buffer") as f64,
            segments: segments.unwrap_or(0),
            read_ahead_bytes: bytes("read_ahead"),
        })
    }

    /// What a read takes before its bytes come.
    pub fn reach_ns(&self, distance: u64) -> f64 {
        self.read_ns[bin(distance)]
    }

    /// The time that bytes of a read take.
    pub fn transfer_ns(&self, bytes: u64) -> f64 {
        bytes as f64 * self.read_byte_ns
    }

    /// The share of its time that a request takes if so many are with the device, itself included.
    pub fn share(&self, queued: usize) -> f64 {
        let at = DEPTHS.iter().rposition(|depth| *depth <= queued.max(1)).expect("1 is the first");
        let (Some(next), true) = (DEPTHS.get(at + 1), queued > DEPTHS[at]) else { return self.shares[at] };
        let way = (queued - DEPTHS[at]) as f64 / (next - DEPTHS[at]) as f64;
        self.shares[at] + (self.shares[at + 1] - self.shares[at]) * way
    }

    /// A read of what the device holds: it takes as long as a write that the device buffers.
    pub fn held_ns(&self, bytes: u64) -> f64 {
        self.answer_ns(bytes)
    }

    /// The answer to a write that finds room in the buffer.
    pub fn answer_ns(&self, bytes: u64) -> f64 {
        self.answer_ns + bytes.saturating_sub(PAGE) as f64 * self.answer_byte_ns
    }

    /// What a write costs the medium. Neighbours are written at once, and near ones cost less, as reads do.
    pub fn drain_ns(&self, distance: u64, bytes: u64) -> f64 {
        let is_joined = distance < NEAR;
        let reach = if is_joined { 0.0 } else { self.reach_ns(distance) / self.random_read_ns() };
        self.drain_ns * reach + bytes as f64 * self.drain_byte_ns
    }

    /// The time that a full buffer takes.
    pub fn buffered_ns(&self) -> f64 {
        self.buffer_bytes / PAGE as f64 * self.drain_ns
    }

    /// A random read somewhere in the span.
    pub fn random_read_ns(&self) -> f64 {
        self.read_ns[BINS - 1]
    }

    /// As the model of tiering sees it.
    pub fn sheet(&self, offer: &Offer) -> Sheet {
        let rtime_s = self.random_read_ns() / 1e9;
        let xtime_s_per_mb = self.read_byte_ns * 1e6 / 1e9;
        Sheet {
            name: offer.name.clone(),
            usd: offer.usd,
            bytes: offer.bytes as f64,
            idle_w: offer.idle_w,
            active_w: offer.active_w,
            standby_w: 0.0,
            rtime_s,
            rtime_write_s: self.drain_ns.max(self.answer_ns) / 1e9,
            xtime_s_per_mb,
            iops: 1.0 / (rtime_s * self.share(DEPTHS[DEPTHS.len() - 1])),
            mb_per_s: 1.0 / xtime_s_per_mb,
            spin_up_s: 0.0,
        }
    }
}

/// Which distances are alike.
fn bin(distance: u64) -> usize {
    ((distance / NEAR + 1).ilog2() as usize).min(BINS - 1)
}

type Measuring = std::pin::Pin<Box<dyn Future<Output = Vec<f64>>>>;

/// A device that is measured.
#[derive(Clone)]
struct Probe {
    rt: Rt,
    vol: Export,
    span: u64,
    stream: Stream,
}

impl Probe {
    fn any_page(&mut self) -> u64 {
        self.stream.below(self.span / PAGE) * PAGE
    }

    async fn read(&self, offset: u64, bytes: u64) -> f64 {
        self.timed(Bio::read(offset, Buf::described(bytes as usize, 1))).await
    }

    async fn write(&self, offset: u64, bytes: u64) -> f64 {
        self.timed(Bio::write(offset, Buf::described(bytes as usize, 1))).await
    }

    async fn timed(&self, bio: Bio) -> f64 {
        let begun = self.rt.now();
        let done = self.vol.request(bio).await;
        done.result.expect("a model answers what its size allows");
        self.rt.now().since(begun).0 as f64
    }

    /// The last distance is that of any place of the span.
    async fn by_distance(mut self) -> Vec<f64> {
        let mut all = Vec::with_capacity(BINS);
        for bin in 0..BINS - 1 {
            let least = ((1u64 << bin) - 1) * NEAR;
            if 2 * least + NEAR >= self.span {
                break;
            }
            let (mut at, mut sum) = (self.any_page(), 0.0);
            for _ in 0..NEARBY {
                // Towards the begin, where nothing was read on, and at any angle of a disk.
                let step = (least + self.stream.below(least + NEAR)) / PAGE * PAGE + PAGE;
                at = if at >= step { at - step } else { self.any_page() };
                self.rt.sleep(Nanos(self.stream.below(TURN_MAX.0))).await;
                sum += self.read(at, PAGE).await;
            }
            all.push(sum / NEARBY as f64);
        }
        let mut sum = 0.0;
        for _ in 0..4 * NEARBY {
            let at = self.any_page();
            sum += self.read(at, PAGE).await;
        }
        all.resize(BINS, sum / (4 * NEARBY) as f64);
        all
    }

    async fn by_depth(self) -> Vec<f64> {
        let mut all = Vec::new();
        for depth in DEPTHS {
            let begun = self.rt.now();
            let worker = |number: usize| {
                let mut probe = self.clone();
                probe.stream = Stream::named(number as u64, "queued reads");
                self.rt.spawn("probe", async move {
                    for _ in 0..QUEUED / depth as u64 {
                        let at = probe.any_page();
                        probe.read(at, PAGE).await;
                    }
                })
            };
            let workers: Vec<_> = (0..depth).map(worker).collect();
            for worker in workers {
                worker.await;
            }
            all.push(self.rt.now().since(begun).0 as f64 / QUEUED as f64);
        }
        all
    }

    /// Of a byte of reads, and of writes.
    async fn streams(self) -> Vec<f64> {
        let pieces = PIECES.min(self.span / PIECE);
        let bytes = (pieces * PIECE) as f64;
        let begun = self.rt.now();
        for at in 0..pieces {
            self.read(at * PIECE, PIECE).await;
        }
        let (read, begun) = (self.rt.now().since(begun).0 as f64, self.rt.now());
        for at in 0..pieces {
            self.write(at * PIECE, PIECE).await;
        }
        self.timed(Bio::flush()).await;
        vec![read / bytes, self.rt.now().since(begun).0 as f64 / bytes]
    }

    /// The answer to a small write, a byte of a large one, and the medium's time of a small one in a flood.
    async fn writes(mut self) -> Vec<f64> {
        let (mut small, mut large) = (0.0, 0.0);
        for _ in 0..NEARBY {
            let at = self.any_page();
            small += self.write(at, PAGE).await;
            self.rt.sleep(PAUSE).await;
            large += self.write(at / PIECE * PIECE, PIECE).await;
            self.rt.sleep(PAUSE).await;
        }
        let [small, large] = [small, large].map(|sum| sum / NEARBY as f64);
        let (begun, probe) = (self.rt.now(), Rc::new(self.clone()));
        let writer = |number: u64| {
            let (probe, mut stream) = (probe.clone(), Stream::named(number, "flood of writes"));
            self.rt.spawn("probe", async move {
                for _ in 0..FLOOD / 32 {
                    let at = stream.below(probe.span / PAGE) * PAGE;
                    probe.write(at, PAGE).await;
                }
            })
        };
        let writers: Vec<_> = (0..32).map(writer).collect();
        for writer in writers {
            writer.await;
        }
        self.timed(Bio::flush()).await;
        let flood = self.rt.now().since(begun).0 as f64 / FLOOD as f64;
        vec![small, (large - small).max(0.0) / (PIECE - PAGE) as f64, flood]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::builtin;

    fn service(name: &str) -> (Offer, Service) {
        let offer = builtin().into_iter().find(|offer| offer.name == name).unwrap();
        let service = Service::measure(&offer, 64 * esker_base::units::GIB, 1).unwrap();
        (offer, service)
    }

    #[test]
    fn a_disk_pays_for_distance_and_gains_by_a_queue() {
        let (offer, disk) = service("hdd-7200-2021");
        let span = 64 * esker_base::units::GIB;
        assert!(disk.reach_ns(1) < 0.9 * disk.reach_ns(span / 4), "{disk:?}");
        assert!(
            disk.segments > 8 && disk.read_ahead_bytes > MIB && disk.held_ns(PAGE) < disk.random_read_ns() / 10.0,
            "{disk:?}"
        );
        assert!((4e6..20e6).contains(&disk.random_read_ns()), "{disk:?}");
        assert!(disk.share(32) < 0.8 && disk.share(32) < disk.share(4) && disk.share(1) == 1.0, "{disk:?}");
        assert!(disk.share(3) < disk.share(2) && disk.share(3) > disk.share(4));
        assert!(disk.answer_ns(PAGE) < 1e6, "the cache answers: {disk:?}");
        let sheet = disk.sheet(&offer);
        assert!((100.0..300.0).contains(&sheet.mb_per_s) && sheet.is_sound(), "{sheet:?}");
    }

    #[test]
    fn flash_pays_little_for_distance() {
        let (_, flash) = service("ssd-sata-2021");
        assert!(flash.random_read_ns() < 200e3 && flash.share(32) < 0.25, "{flash:?}");
        assert!(flash.reach_ns(0) == flash.random_read_ns() && flash.transfer_ns(MIB) > 1e6, "{flash:?}");
    }
}
