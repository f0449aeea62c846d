//! `exces`: what the kind `spindown` saves of a laptop's energy. A modelled flash device lets a modelled disk sleep.
//! Source: items 26 and 27 of the specification of extensions, which give the thesis' 2 to 14 % of the whole machine.
//!
//! Two generated loads are played at their own times, with and without the layer. The disk rests by the same timer in
//! both. Energy is that of the models up to the end of the load, and what it takes then to bring everything home. The
//! rest of the machine draws a constant. Times are simulated.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{Bio, Buf, Usage};
use esker_stack::Stack;
use esker_trace_block::generate::{Generator, Profile};
use esker_trace_block::{Op, Record, Source};

use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError};

/// Watts of a laptop of 2008 beside its disk, with its display on. An estimate: such machines draw 12 to 18 W at idle.
const HOST_W: f64 = 14.0;
/// The laptop's disk, with a timer of 10 s.
const DISK: &str = "disk-model profile=hdd-5400-2008 size=32GiB standby_after=10s";
/// The layer, with the numbers of that disk: 3.8 W for 3.5 s.
const LAYER: &str = "spindown idle_after=10s idle_w=0.8 spin_up_j=13.3";
const USB: &str = "ssd-model profile=flash-usb-2008 cache=off";
const CARD: &str = "ssd-model profile=flash-cf-2007 cache=off";
/// A stick that draws what the disk does.
const HUNGRY: &str = "ssd-model profile=flash-usb-2008 cache=off active_w=1.8 idle_w=0.8 die_w=0";

const MACHINE: &str = "share of the machine's energy";

/// What a load took.
#[derive(Clone, Copy, Default, Debug)]
struct Spent {
    /// Joules of the disk and of the flash device.
    disk_j: f64,
    flash_j: f64,
    /// Seconds of the load.
    seconds: f64,
    /// Mean times of reads and of writes, in milliseconds.
    read_ms: f64,
    write_ms: f64,
    /// Spin-ups of the disk, and the seconds in which it worked.
    spin_ups: f64,
    busy: f64,
    /// Share of reads that the flash device answered.
    hits: f64,
}

impl Spent {
    /// Share of the whole machine's energy that is saved by `other`.
    fn saved_by(&self, other: &Spent) -> f64 {
        let whole = |spent: &Spent| HOST_W * spent.seconds + spent.joules();
        1.0 - whole(other) / whole(self)
    }

    /// The same of the devices alone.
    fn devices_saved_by(&self, other: &Spent) -> f64 {
        1.0 - other.joules() / self.joules()
    }

    /// Joules of both devices.
    fn joules(&self) -> f64 {
        self.disk_j + self.flash_j
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (word, profile) in [("bltk", "bltk-like"), ("postmark", "postmark-like")] {
        let records = records(lab, profile)?;
        let spent = |name: &str, text: String| {
            let spent = play(lab.seed, &text, records.clone())?;
            let [disk, flash] = [spent.disk_j, spent.flash_j].map(|joules| joules / spent.seconds);
            let Spent { seconds, read_ms, write_ms, spin_ups, busy, hits, .. } = spent;
            lab.say(format!(
                "{profile}, {name}: disk {disk:.3} W, flash {flash:.3} W, {spin_ups} spin-ups, busy {busy:.0} s of \
                 {seconds:.0}, {hits:.3} of the reads hit, reads {read_ms:.2} ms, writes {write_ms:.2} ms"
            ));
            Ok::<_, LabError>(spent)
        };
        let with = |flash: &str| format!("h = {DISK}; f = {flash}; vol = {LAYER} on h, f");
        let plain = spent("disk alone", format!("h = {DISK}; vol = stats on h"))?;
        for (of, flash) in [("", USB), ("_card", CARD)] {
            let with = spent(if of.is_empty() { "USB stick" } else { "memory card" }, with(flash))?;
            figures.extend(compared(&format!("{word}{of}"), &plain, &with));
        }
        let hungry = spent("a stick that draws what the disk does", with(HUNGRY))?;
        figures.push(Figure::alone(format!("saved_{word}_equal"), plain.saved_by(&hungry), MACHINE));
    }
    Ok(figures)
}

/// Figures of a load with the layer beside the disk alone.
fn compared(word: &str, plain: &Spent, with: &Spent) -> [Figure; 4] {
    [
        Figure::alone(format!("saved_{word}"), plain.saved_by(with), MACHINE)
            .paper(0.14)
            .peer("the thesis' least", 0.02),
        Figure::alone(format!("devices_saved_{word}"), plain.devices_saved_by(with), "share of the devices' energy")
            .peer("disk alone, J", plain.joules()),
        Figure::alone(format!("write_slowdown_{word}"), with.write_ms / plain.write_ms, "ratio of times")
            .peer("disk alone, ms", plain.write_ms),
        Figure::alone(format!("spin_ups_{word}"), with.spin_ups, "spin-ups").peer("disk alone", plain.spin_ups),
    ]
}

/// The requests of a profile, for its own length or, in the long form, a day.
fn records(lab: &Lab<'_>, profile: &str) -> Result<Vec<Record>, LabError> {
    let parsed = Profile::builtin(profile).map_err(LabError::data)?;
    let hours = lab.scale(parsed.hours, 24.0);
    let mut trace = Generator::new(profile, &parsed, lab.seed, hours).map_err(LabError::data)?;
    let mut records = Vec::new();
    while let Some(record) = trace.next_record().map_err(LabError::data)? {
        records.push(record);
    }
    Ok(records)
}

/// Plays a load, and brings everything home.
fn play(seed: u64, text: &str, records: Vec<Record>) -> Result<Spent, LabError> {
    let Rig { world, stack } = Rig::simulated(seed, text)?;
    let has_layer = text.contains(LAYER);
    world.block_on(async move {
        let mut spent = play_all(&stack, &records).await;
        spent.seconds = stack.rt().now().since(Time::ZERO).as_secs_f64();
        spent.hits = told(&stack, "hit_ratio");
        spent.spin_ups = told(&stack, "spin_ups");
        spent.busy = usage(&stack, "h").busy.as_secs_f64();
        if has_layer {
            stack.order("vol", &["write-back".to_string()]).await.map_err(LabError::data)?;
        }
        (spent.disk_j, spent.flash_j) = (usage(&stack, "h").energy_j, usage(&stack, "f").energy_j);
        Ok(spent)
    })
}

/// A statistic of the part that has it; 0 if none has.
fn told(stack: &Rc<Stack>, name: &str) -> f64 {
    stack.stats().iter().flat_map(|part| &part.stats).find(|stat| stat.name == name).map_or(0.0, |stat| stat.value)
}

/// What a device has used; nothing if there is none of that name.
fn usage(stack: &Rc<Stack>, name: &str) -> Usage {
    let stats = stack.stats();
    stats.iter().find(|part| part.name == name).and_then(|part| part.usage).unwrap_or_default()
}

/// Sends each request at its time. Ends when the last one has its answer.
async fn play_all(stack: &Rc<Stack>, records: &[Record]) -> Spent {
    let (rt, sums) = (stack.rt().clone(), Rc::new(RefCell::new([(0.0, 0_u64); 2])));
    let mut under_way = Vec::with_capacity(records.len());
    for record in records {
        rt.sleep_until(Time::ZERO + record.at).await;
        let (device, sums, begun) = (vol(stack), sums.clone(), rt.now());
        let is_read = record.op == Op::Read;
        let buf = Buf::described(record.len as usize, 1);
        let bio = if is_read { Bio::read(record.offset, buf) } else { Bio::write(record.offset, buf) };
        let world = rt.clone();
        under_way.push(rt.spawn("request", async move {
            let done = device.request(bio).await;
            assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
            let (sum, count) = &mut sums.borrow_mut()[usize::from(is_read)];
            *sum += millis(world.now().since(begun));
            *count += 1;
        }));
    }
    for request in under_way {
        request.await;
    }
    let [writes, reads] = *sums.borrow();
    let mean = |(sum, count): (f64, u64)| sum / (count.max(1)) as f64;
    Spent { read_ms: mean(reads), write_ms: mean(writes), ..Spent::default() }
}

fn millis(span: Nanos) -> f64 {
    span.as_secs_f64() * 1e3
}
