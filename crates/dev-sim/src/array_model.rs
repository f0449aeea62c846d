//! `array-model`: equal modelled devices behind one controller, striped or one after the other, with an enclosure.
//!
//! The members answer when they would; the controller adds its command time and a way to the host that carries one
//! transfer at a time. There is no redundancy and no cache of its own: that is what layers above are for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{
    Args, Bio, BioError, Buf, Build, Device, Done, Kind, KindError, Limits, Make, Op, OpKind, Param, ParamType, Stat,
    StatInfo, Step, Support, Usage,
};
use esker_rt::{Rt, sync};

use crate::setup::{self, BLOCK, CACHE, CONTENT, SIZE};
use crate::unsettled::Unsettled;
use crate::{Content, Setup, access, catalogue, disk_model, ssd_model};

const STATS: &[StatInfo] = &[
    StatInfo::of("members", "Devices of the array."),
    StatInfo::of("queue_depth_max", "Most commands under way at once."),
];

/// The manifest.
pub static KIND: Kind = setup::kind(
    "array-model",
    "Equal modelled devices behind one controller: striped or joined, with its link, power and price.",
    &[
        setup::profile(catalogue::MEMBERS, "hdd-7200-2021"),
        Param::with_default("members", ParamType::Count, "4", "Devices (1 to 256)."),
        Param::with_default(
            "layout",
            ParamType::Choice(&["stripe", "concat"]),
            "stripe",
            "`stripe`: chunks in turn on each device (RAID-0); `concat`: one device after the other.",
        ),
        Param::with_default(
            "chunk",
            ParamType::Size,
            "64KiB",
            "Consecutive bytes on one device in a stripe; a power of two, at least a block.",
        ),
        SIZE,
        BLOCK,
        CACHE,
        CONTENT,
        setup::depth("256", "Commands that the host may have in flight (1 to 65536)."),
        Param::with_default(
            "link_rate",
            ParamType::Size,
            "0",
            "Bytes per second to the host, one transfer at a time; 0 is unlimited.",
        ),
        Param::with_default("overhead", ParamType::Span, "0", "Controller time per command."),
        Param::with_default("enclosure_w", ParamType::Number, "0", "Watts of enclosure and controller, always on."),
        Param::with_default("enclosure_usd", ParamType::Number, "0", "Price of enclosure and controller."),
        setup::span("standby_after", "Idle time before a disk of the array spins down; by default never."),
    ],
    &[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Extents],
    STATS,
    build,
);

/// The kinds that its members may be of.
pub(crate) static MEMBERS: [&Kind; 2] = [&disk_model::KIND, &ssd_model::KIND];

const MEMBERS_MAX: u64 = 256;
const DEPTH_MAX: u64 = 65_536;

/// A modelled array.
pub struct Array {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    members: Vec<Rc<dyn Device>>,
    member_size: u64,
    /// Bytes that lie together; all of a member's if they are joined.
    chunk: u64,
    setup: Setup,
    link_rate: u64,
    overhead: Nanos,
    enclosure_w: f64,
    enclosure_usd: f64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The way to the host is taken until then.
    link: Time,
    in_flight: u64,
    in_flight_max: u64,
    /// Begin of the span with requests in flight, and the sum of those that ended.
    since: Time,
    busy: Nanos,
    /// Writes that members may still hold in volatile caches.
    unsettled: Unsettled,
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    make.rt.use_precise_timers();
    Ok(Rc::new(Array::new(make, None)?))
}

impl Array {
    /// The array that the arguments of `make` ask for; with `content` instead of what they ask to be kept, if it is
    /// given.
    ///
    /// # Errors
    /// Numbers that do not fit, by name.
    pub fn new(make: &Make<'_>, content: Option<Content>) -> Result<Array, KindError> {
        let args = make.args;
        let unfit = |text: String| KindError::Unfit(format!("array-model: {text}"));
        let count = args.int("members");
        if !(1..=MEMBERS_MAX).contains(&count) {
            return Err(unfit(format!("members = {count}; choose 1 to {MEMBERS_MAX}")));
        }
        let chunk = args.int("chunk");
        if !chunk.is_power_of_two() || chunk < args.int("block") {
            return Err(unfit(format!("chunk = {chunk} is no power of two of at least a block")));
        }
        for name in ["enclosure_w", "enclosure_usd"] {
            crate::meter::not_negative(name, args.float(name))?;
        }
        let members = (0..count).map(|_| member(make)).collect::<Result<Vec<_>, _>>()?;
        let member_size = members[0].limits().size;
        let member_size = member_size - member_size % chunk;
        let capacity = member_size.checked_mul(count).ok_or_else(|| unfit("more bytes than fit in 64 bits".into()))?;
        let asked = Setup::of(make, &KIND, capacity, DEPTH_MAX)?;
        let setup = Setup { content: content.unwrap_or(asked.content), ..asked };
        let limits = setup.limits().with(OpKind::Discard, Support::No);
        let core = Core {
            rt: make.rt.clone(),
            members,
            member_size,
            chunk: if args.text("layout") == "stripe" { chunk } else { member_size },
            setup,
            link_rate: args.int("link_rate"),
            overhead: args.span("overhead"),
            enclosure_w: args.float("enclosure_w"),
            enclosure_usd: args.float("enclosure_usd"),
            state: RefCell::default(),
        };
        Ok(Array { core: Rc::new(core), limits })
    }
}

/// One device of the array. It keeps no bytes: the array does.
fn member(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let profile = make.args.text("profile");
    let modelled_by = catalogue::find(KIND.name, profile)?.kind;
    let kind = MEMBERS.into_iter().find(|kind| kind.name == modelled_by);
    let kind = kind.expect("the profiles of an array are those of its members' kinds");
    let mut given = BTreeMap::from([("profile".to_string(), profile.to_string())]);
    for name in ["block", "cache", "standby_after"] {
        if let (Some(value), Some(param)) = (make.args.get(name), kind.param(name)) {
            given.insert(name.to_string(), param.write(value));
        }
    }
    let Build::Device(build) = kind.build else { return Err(KindError::Unfit(format!("{} is no device", kind.name))) };
    build(&Make { args: &Args::read(kind, &given)?, lowers: &[], ..*make })
}

impl Device for Array {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        match bio.op {
            Op::Extents => return Step::Now(self.core.setup.content.extents(bio)),
            Op::Discard | Op::Ranges(_) => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Discard))),
            Op::Read | Op::Write | Op::Zero | Op::Flush => {}
        }
        let core = self.core.clone();
        Step::later(async move { core.serve(bio).await })
    }

    fn depth(&self) -> u32 {
        self.core.setup.depth
    }

    fn stats(&self) -> Vec<Stat> {
        let state = self.core.state.borrow();
        access::stats([("members", self.core.members.len() as f64), ("queue_depth_max", state.in_flight_max as f64)])
    }

    fn usage(&self) -> Option<Usage> {
        let (core, state) = (&self.core, self.core.state.borrow());
        let now = core.rt.now();
        let under_way = if state.in_flight > 0 { now.since(state.since) } else { Nanos::ZERO };
        let own = Usage {
            energy_j: core.enclosure_w * now.since(Time::ZERO).as_secs_f64(),
            busy: state.busy + under_way,
            price_usd: core.enclosure_usd,
            ..Usage::default()
        };
        Some(core.members.iter().filter_map(|member| member.usage()).fold(own, |sum, member| Usage {
            energy_j: sum.energy_j + member.energy_j,
            price_usd: sum.price_usd + member.price_usd,
            written: sum.written + member.written,
            read: sum.read + member.read,
            busy: sum.busy,
        }))
    }
}

impl Core {
    async fn serve(&self, bio: Bio) -> Done {
        self.begin();
        let done = self.answer(bio).await;
        let state = &mut *self.state.borrow_mut();
        state.in_flight -= 1;
        if state.in_flight == 0 {
            state.busy += self.rt.now().since(state.since);
        }
        done
    }

    fn begin(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.in_flight == 0 {
            state.since = self.rt.now();
        }
        state.in_flight += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
    }

    async fn answer(&self, bio: Bio) -> Done {
        let write = if bio.changes_data() { self.setup.content.apply(&bio) } else { 0 };
        let covered = self.state.borrow().unsettled.mark();
        if self.overhead > Nanos::ZERO {
            self.rt.sleep(self.overhead).await;
        }
        if bio.op == Op::Write {
            self.transfer(bio.range.len()).await;
        }
        let parts = self.parts(&bio).into_iter().map(|(member, part)| self.part(member, part));
        for result in sync::join_all(parts.collect::<Vec<_>>()).await {
            if let Err(error) = result {
                return bio.fail(error);
            }
        }
        self.mark_stable(&bio, write, covered);
        self.setup.content.answer(bio)
    }

    async fn part(&self, member: usize, bio: Bio) -> Result<(), BioError> {
        let read = if bio.op == Op::Read { bio.range.len() } else { 0 };
        self.members[member].submit(bio).await.result?;
        self.transfer(read).await;
        Ok(())
    }

    /// Moves bytes between controller and host, after those that came before.
    async fn transfer(&self, bytes: u64) {
        let until = {
            let state = &mut *self.state.borrow_mut();
            state.link = state.link.max(self.rt.now()) + Nanos::transfer(bytes, self.link_rate);
            state.link
        };
        if bytes > 0 && until > self.rt.now() {
            self.rt.sleep_until(until).await;
        }
    }

    /// What a request asks of each member: one range at most, for chunks of one member lie one after the other on it.
    fn parts(&self, bio: &Bio) -> Vec<(usize, Bio)> {
        let touched = |member: usize| {
            let (from, to) = (self.before(member, bio.range.start()), self.before(member, bio.range.end()));
            let buf = |len: u64| Buf::described(len as usize, 0);
            let part = match bio.op {
                Op::Flush => Bio::flush(),
                _ if from == to => return None,
                Op::Read => Bio::read(from, buf(to - from)),
                Op::Write => Bio::write(from, buf(to - from)),
                Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => Bio::zero(from, to - from),
            };
            Some((member, if bio.flags.fua { part.fua() } else { part }))
        };
        (0..self.members.len()).filter_map(touched).collect()
    }

    /// Bytes of a member that lie before `offset` of the array.
    fn before(&self, member: usize, offset: u64) -> u64 {
        let count = self.members.len() as u64;
        let (chunk, within) = (offset / self.chunk, offset % self.chunk);
        let (row, current) = (chunk / count, chunk % count);
        let in_row = match (member as u64).cmp(&current) {
            std::cmp::Ordering::Less => self.chunk,
            std::cmp::Ordering::Equal => within,
            std::cmp::Ordering::Greater => 0,
        };
        (row * self.chunk + in_row).min(self.member_size)
    }

    /// A flush settles the writes that were answered before it began; other writes settle at once if nothing may lose
    /// them.
    fn mark_stable(&self, bio: &Bio, write: u64, covered: u64) {
        let content: &Content = &self.setup.content;
        let state = &mut *self.state.borrow_mut();
        if bio.op == Op::Flush {
            state.unsettled.settle_to(covered, content);
        } else if bio.changes_data() && !content.is_described() {
            if self.setup.cache && !bio.flags.fua {
                state.unsettled.add(None, (bio.range, write));
            } else {
                content.mark_stable(bio.range, write);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use esker_base::units::{KIB, MIB};
    use esker_block::Bio;
    use esker_rt::sim::twice;

    use super::*;
    use crate::testing::{
        build, check_blocks, check_no_early_answer, check_power_cut, check_refusals, flood, read, seeded, timed, write,
    };

    fn random_rate(args: &'static [(&'static str, &'static str)], reach: u64) -> f64 {
        let count = 4_000;
        let span = twice(seeded(1), move |rt| async move {
            let array = build(&rt, &KIND, args).unwrap();
            flood(&rt, array, 64, count, move |rng| read(rng.below(reach / 4096) * 4096, 4096)).await
        });
        count as f64 / span.as_secs_f64()
    }

    #[test]
    fn stripes_scale_random_reads_with_the_members_and_joined_devices_only_where_the_data_is() {
        let one = random_rate(&[("members", "1")], 1 << 40);
        let four = random_rate(&[("members", "4")], 4 << 40) / one;
        assert!((2.5..4.0).contains(&four), "{four}: 64 in flight queue deeper on one disk, which orders them better");
        let joined = random_rate(&[("members", "4"), ("layout", "concat")], 1 << 40) / one;
        assert!((0.98..1.02).contains(&joined), "{joined}: the first terabyte is on the first disk");
    }

    fn sequential_rate(args: &'static [(&'static str, &'static str)]) -> f64 {
        let count = 1_000;
        let span = twice(seeded(1), move |rt| async move {
            let array = build(&rt, &KIND, args).unwrap();
            let mut at = 0;
            let next = move |_: &mut esker_base::Stream| {
                at += MIB;
                read(at - MIB, MIB)
            };
            flood(&rt, array, 8, count, next).await
        });
        (count * MIB) as f64 / span.as_secs_f64()
    }

    #[test]
    fn the_link_bounds_what_the_members_could_deliver() {
        let free = sequential_rate(&[]);
        assert!(free > 800e6, "{free}: four disks of 255 MB/s");
        let bound = sequential_rate(&[("link_rate", "300000000")]);
        assert!((0.97..1.001).contains(&(bound / 300e6)), "{bound}");
    }

    #[test]
    fn a_request_takes_its_slowest_part_the_link_and_the_controller() {
        let (one, array) = twice(seeded(1), |rt| async move {
            let args = [("profile", "ssd-sata-2021"), ("cache", "off")];
            let one = build(&rt, &ssd_model::KIND, &args).unwrap();
            let more = [("overhead", "7us"), ("link_rate", "1000000000"), ("members", "2")];
            let array = build(&rt, &KIND, &[&args[..], &more].concat()).unwrap();
            let one = timed(&rt, &*one, read(0, 64 * KIB)).await;
            (one, timed(&rt, &*array, read(0, 128 * KIB)).await)
        });
        assert_eq!(array, one + Nanos::micros(7) + Nanos::transfer(128 * KIB, 1_000_000_000));
    }

    #[test]
    fn power_and_price_are_those_of_members_and_enclosure() {
        let (array, one, seconds) = twice(seeded(1), |rt| async move {
            let args = [("enclosure_w", "30"), ("enclosure_usd", "500"), ("members", "3"), ("chunk", "1MiB")];
            let array = build(&rt, &KIND, &args).unwrap();
            let one = build(&rt, &disk_model::KIND, &[]).unwrap();
            timed(&rt, &*array, read(0, 4096)).await;
            rt.sleep(Nanos::secs(9)).await;
            (array.usage().unwrap(), one.usage().unwrap(), rt.now().since(Time::ZERO).as_secs_f64())
        });
        let spec = disk_model::DiskSpec::profile("hdd-7200-2021").unwrap();
        assert_eq!((array.price_usd, array.read), (500.0 + 3.0 * spec.bill.price_usd, 4096));
        let idle = 30.0 * seconds + 3.0 * one.energy_j;
        let active = (spec.bill.active_w - spec.bill.idle_w) * array.busy.as_secs_f64();
        assert!((array.energy_j - idle - active).abs() < 1e-6, "{} of {}", array.energy_j, idle + active);
    }

    #[test]
    fn a_power_cut_loses_part_of_what_was_not_flushed_and_nothing_else() {
        check_power_cut(|rt, setup| {
            let cache = if setup.cache { "on" } else { "off" };
            let args = [("content", "memory"), ("size", "1MiB"), ("block", "512"), ("cache", cache), ("chunk", "4KiB")];
            array_with(rt, &args, setup.content)
        });
    }

    fn array_with(rt: &Rt, args: &[(&str, &str)], content: Content) -> Rc<dyn Device> {
        let given = args.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let args = Args::read(&KIND, &given).unwrap();
        let pool = esker_rt::mem::Pool::new(0);
        let make = Make {
            rt,
            pool: &pool,
            name: "a",
            args: &args,
            lowers: &[],
            created: &esker_block::Created::default(),
            env: &esker_block::Env::default(),
        };
        Rc::new(Array::new(&make, Some(content)).unwrap())
    }

    #[test]
    fn a_flush_settles_nothing_that_was_answered_after_it_began() {
        let media = Rc::new(crate::media::Media::new(512));
        let (sim, kept) = (esker_rt::Sim::new(seeded(1)), media.clone());
        let rt = sim.rt();
        sim.block_on(async move {
            let args = [("content", "memory"), ("size", "1MiB"), ("block", "512"), ("chunk", "4KiB")];
            let array = array_with(&rt, &args, Content::Memory(kept));
            timed(&rt, &*array, write(0, 4 * KIB, 1)).await;
            // Two flushes at once: the second to end must not take the later write for one of those that it covers.
            let requests = [Bio::flush(), Bio::flush(), write(8 * KIB, 4 * KIB, 2)];
            sync::join_all(requests.map(|bio| timed(&rt, &*array, bio)).into_iter().collect::<Vec<_>>()).await;
        });
        assert_eq!(media.unsettled(), 8, "only the last write may still be lost");
    }

    #[test]
    fn standby_is_a_matter_of_each_member() {
        let (first, second) = twice(seeded(1), |rt| async move {
            let args = [("standby_after", "60s"), ("layout", "concat"), ("members", "2")];
            let array = build(&rt, &KIND, &args).unwrap();
            let half = array.limits().size / 2;
            for _ in 0..4 {
                rt.sleep(Nanos::secs(30)).await;
                timed(&rt, &*array, read(0, 4096)).await;
            }
            (timed(&rt, &*array, read(MIB, 4096)).await, timed(&rt, &*array, read(half, 4096)).await)
        });
        assert!(first < Nanos::secs(1) && second > Nanos::secs(10), "{first} {second}");
    }

    #[test]
    fn a_cached_write_wakes_its_member_and_a_flush_wakes_all() {
        let (written, flushed) = twice(seeded(1), |rt| async move {
            let args = [("standby_after", "10s"), ("layout", "concat"), ("members", "3")];
            let array = build(&rt, &KIND, &args).unwrap();
            rt.sleep_until(Time::ZERO + Nanos::secs(100)).await;
            let write = timed(&rt, &*array, write(0, 4096, 1)).await;
            rt.sleep_until(Time::ZERO + Nanos::secs(200)).await;
            let written = (write, array.usage().unwrap().energy_j);
            let flush = timed(&rt, &*array, Bio::flush()).await;
            rt.sleep_until(Time::ZERO + Nanos::secs(300)).await;
            (written, (flush, array.usage().unwrap().energy_j - written.1))
        });
        // Idle, at rest and while it spins up a disk draws 5.2, 0.8 and 14 W; accesses take some milliseconds.
        let (sleeping, woken) = (100.0 * 0.8, 15.0 * 14.0 + 10.0 * 5.2 + 75.0 * 0.8);
        let first = 3.0 * (10.0 * 5.2 + 90.0 * 0.8);
        for ((took, joules), expected) in [(written, first + woken + 2.0 * sleeping), (flushed, 3.0 * woken)] {
            assert!(took > Nanos::secs(15) && took < Nanos::millis(15_001), "{took}");
            assert!((joules - expected).abs() < 0.3, "{joules} J of {expected}");
        }
    }

    #[test]
    fn cached_writes_end_with_their_members() {
        twice(seeded(1), |rt| async move {
            let array = build(&rt, &KIND, &[("members", "2"), ("chunk", "4KiB")]).unwrap();
            let quick = timed(&rt, &*array, write(0, 8 * KIB, 1)).await;
            let durable = timed(&rt, &*array, write(0, 8 * KIB, 2).fua()).await;
            let flush = timed(&rt, &*array, Bio::flush()).await;
            assert!(quick < Nanos::millis(1) && durable > quick && flush < durable, "{quick} {durable} {flush}");
            assert!(array.submit(Bio::discard(0, 4096)).await.result.is_err());
        });
    }

    #[test]
    fn blocks_are_those_of_present_drives_unless_told_otherwise() {
        check_blocks(&KIND);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused_by_name() {
        check_refusals(
            &KIND,
            &[
                ("members", "0", "members = 0"),
                ("chunk", "1000", "chunk = 1000"),
                ("chunk", "512", "at least a block"),
                ("enclosure_w", "-1", "enclosure_w = -1"),
                ("profile", "floppy", "expected one of hdd-"),
                ("size", "100TB", "at most"),
            ],
        );
    }

    #[test]
    fn in_the_real_world_no_answer_is_early() {
        check_no_early_answer(&KIND, &[("overhead", "2ms"), ("profile", "ssd-sata-2021")], Nanos::millis(2));
    }
}
