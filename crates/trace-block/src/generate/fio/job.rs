//! What a section asks for, from its options.

use super::flaw::{JobError, JobFlaw};
use super::lines::{Section, Setting, shown};
use super::options::{self, Use};
use super::values::{Each, bytes};
use crate::record::Op;
use esker_base::Nanos;

/// The first and the smallest block of fio.
const BLOCK: u64 = 4096;
/// Offsets and sizes end here.
const FAR: u64 = 1 << 62;
/// Clones of a job.
const CLONES_MAX: u64 = 4096;

const SECOND: Nanos = Nanos(1_000_000_000);
const MICROSECOND: Nanos = Nanos(1_000);

/// What is accessed: by operation, read, write and trim.
pub(super) const OPS: Each<Op> = [Op::Read, Op::Write, Op::Discard];

/// Sizes of blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    /// All have one.
    One(u64),
    /// Any multiple of the first up to the second.
    Range(u64, u64),
    /// Sizes, each with the part of the blocks up to it.
    Split(Vec<(u64, f64)>),
}

impl Sizes {
    pub(super) fn least(&self) -> u64 {
        match self {
            Sizes::One(size) | Sizes::Range(size, _) => *size,
            Sizes::Split(sizes) => sizes.iter().map(|(size, _)| *size).min().unwrap_or(BLOCK),
        }
    }
}

/// How offsets of random jobs are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    Zipf(f64),
    Pareto(f64),
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub name: String,
    /// The number of its section, by which its random streams are named.
    pub number: usize,
    /// Which of [`OPS`] it sends.
    pub sends: Each<bool>,
    pub is_random: bool,
    pub sizes: Each<Sizes>,
    pub size: u64,
    /// Bytes to move.
    pub total: u64,
    pub requests_max: Option<u64>,
    pub offset: u64,
    pub offset_increment: u64,
    /// Bytes per second; fio makes them of a number of requests and the smallest block.
    pub rates: Each<Option<u64>>,
    pub is_poisson: bool,
    pub thinktime: Nanos,
    pub thinktime_blocks: u64,
    pub clones: u64,
    /// It goes on for so long, or at most so long.
    pub runtime: Option<Nanos>,
    pub is_time_based: bool,
    pub distribution: Distribution,
    pub has_map: bool,
    pub reads: f64,
    /// Writes after which a flush comes, or 0.
    pub flush_every: u64,
    pub flush_at_end: bool,
    pub delay: Nanos,
    /// It begins when all before it have ended.
    pub waits: bool,
    /// Its file, or none if each clone has one.
    pub file: Option<String>,
    pub directory: Option<String>,
}

/// A job under construction.
struct Draft {
    job: Job,
    size: Option<u64>,
    io_size: Option<u64>,
    loops: u64,
    rates_iops: Each<u64>,
    rates: Each<u64>,
    remarks: Vec<(u32, String)>,
}

/// The job of a section, and remarks on what the trace lacks, with their lines.
pub(super) fn job(section: &Section<'_>, number: usize) -> Result<(Job, Vec<(u32, String)>), JobError> {
    let mut draft = Draft {
        job: Job {
            name: shown(section.name),
            number,
            sends: [true, false, false],
            is_random: false,
            sizes: [Sizes::One(BLOCK), Sizes::One(BLOCK), Sizes::One(BLOCK)],
            size: 0,
            total: 0,
            requests_max: None,
            offset: 0,
            offset_increment: 0,
            rates: [None; 3],
            is_poisson: false,
            thinktime: Nanos::ZERO,
            thinktime_blocks: 1,
            clones: 1,
            runtime: None,
            is_time_based: false,
            distribution: Distribution::Uniform,
            has_map: true,
            reads: 0.5,
            flush_every: 0,
            flush_at_end: false,
            delay: Nanos::ZERO,
            waits: false,
            file: None,
            directory: None,
        },
        size: None,
        io_size: None,
        loops: 1,
        rates_iops: [0; 3],
        rates: [0; 3],
        remarks: Vec::new(),
    };
    for setting in &section.settings {
        let key = options::canonical(setting.key);
        match options::of(key) {
            Some(Use::Read) => draft.take(key, setting)?,
            Some(Use::Ignored) => {}
            Some(Use::Told(text)) => draft.remarks.push((setting.line, format!("`{}`: {text}", setting.key))),
            Some(Use::Refused(advice)) => {
                return Err(JobFlaw::Unsupported { option: setting.key.to_string(), advice }.at(setting.line));
            }
            None => draft.remarks.push((setting.line, format!("`{}` is not known and ignored", shown(setting.key)))),
        }
    }
    draft.finish(section.line)
}

impl Draft {
    fn take(&mut self, key: &str, setting: &Setting<'_>) -> Result<(), JobError> {
        let job = &mut self.job;
        match key {
            "rw" => take_direction(job, setting)?,
            "bs" => take_blocks(job, setting)?,
            "bsrange" => take_range(job, setting)?,
            "bssplit" => take_split(job, setting)?,
            "size" | "filesize" => self.size = Some(setting.bytes()?),
            "io_size" => self.io_size = Some(setting.bytes()?),
            "offset" => job.offset = setting.bytes()?,
            "offset_increment" => job.offset_increment = setting.bytes()?,
            "rate" => setting.each(&mut self.rates, "bytes per second are needed, such as 1m,512k", bytes)?,
            "rate_iops" => {
                setting.each(&mut self.rates_iops, "requests per second are needed, such as 100,50", |text| {
                    text.parse().ok()
                })?;
            }
            "rate_process" => {
                job.is_poisson = one_of(setting, &["linear", "poisson"], "linear or poisson is needed")? == 1
            }
            "thinktime" => job.thinktime = setting.span(MICROSECOND)?,
            "thinktime_blocks" => job.thinktime_blocks = setting.number()?.max(1),
            "numjobs" => {
                job.clones = setting.number()?;
                if !(1..=CLONES_MAX).contains(&job.clones) {
                    return Err(setting.refuse("1 to 4096 are possible"));
                }
            }
            "runtime" => job.runtime = Some(setting.span(SECOND)?).filter(|span| *span > Nanos::ZERO),
            "time_based" => job.is_time_based = setting.switch()?,
            "loops" => self.loops = setting.number()?.max(1),
            "random_distribution" => take_distribution(job, setting)?,
            "norandommap" => job.has_map = !setting.switch()?,
            "rwmixread" => job.reads = setting.percent()?,
            "rwmixwrite" => job.reads = 1.0 - setting.percent()?,
            "fsync" | "fdatasync" => job.flush_every = setting.number()?,
            "end_fsync" => job.flush_at_end = setting.switch()?,
            "number_ios" => job.requests_max = Some(setting.number()?).filter(|count| *count > 0),
            "startdelay" => job.delay = setting.span(SECOND)?,
            "stonewall" => job.waits = setting.switch()?,
            "filename" => take_file(job, setting)?,
            "directory" => job.directory = Some(setting.value.to_string()).filter(|text| !text.is_empty()),
            "ioengine" if !options::moves_blocks(setting.value) => {
                return Err(setting.refuse("this engine moves no blocks; name one that does, such as io_uring"));
            }
            "kb_base" if setting.value != "1024" => {
                return Err(setting.refuse("sizes are read with kb_base=1024; write them so and remove it"));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, line: u32) -> Result<(Job, Vec<(u32, String)>), JobError> {
        let job = &mut self.job;
        let name = || job.name.clone();
        let Some(size) = self.size.filter(|size| *size > 0) else { return Err(JobFlaw::NoSize(name()).at(line)) };
        let block = job.grain();
        if size < block {
            return Err(JobFlaw::SmallSize { job: name(), size, block }.at(line));
        }
        let increments = job.offset_increment.checked_mul(job.clones);
        let end = increments.and_then(|sum| sum.checked_add(job.offset)?.checked_add(size));
        if end.is_none_or(|end| end > FAR) {
            return Err(JobFlaw::FarEnd(name()).at(line));
        }
        // What is less than a block at the end is never accessed.
        job.size = size / block * block;
        job.total = self.io_size.unwrap_or(job.size).saturating_mul(self.loops);
        for (at, rate) in job.rates.iter_mut().enumerate() {
            let of_requests = self.rates_iops[at].saturating_mul(job.sizes[at].least());
            *rate = [self.rates[at], of_requests].into_iter().find(|rate| *rate > 0);
        }
        if job.is_time_based && job.runtime.is_none() {
            return Err(JobFlaw::NoRuntime(name()).at(line));
        }
        if job.is_time_based && !job.has_times() {
            return Err(JobFlaw::Endless(name()).at(line));
        }
        if !job.has_times() {
            let text = format!("job {}: nothing says when its requests come: all come when it begins", job.name);
            self.remarks.push((line, text));
        }
        Ok((self.job, self.remarks))
    }
}

impl Job {
    /// The operations that it sends, as places in [`OPS`].
    pub(super) fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..OPS.len()).filter(|at| self.sends[*at])
    }

    /// Bytes of the smallest block: offsets are multiples of it.
    pub(super) fn grain(&self) -> u64 {
        self.used().map(|at| self.sizes[at].least()).min().unwrap_or(BLOCK)
    }

    /// Whether all blocks have one size.
    pub(super) fn has_one_size(&self) -> bool {
        let grain = self.grain();
        self.used().all(|at| self.sizes[at] == Sizes::One(grain))
    }

    /// Bits of the maps of all clones, which say what was accessed: blocks of several sizes take one.
    pub(super) fn map_bits(&self) -> u64 {
        let has_bits =
            self.is_random && self.has_map && self.distribution == Distribution::Uniform && !self.has_one_size();
        if has_bits { (self.size / self.grain()).saturating_mul(self.clones) } else { 0 }
    }

    /// Whether the time of each request is known.
    pub(super) fn has_times(&self) -> bool {
        self.thinktime > Nanos::ZERO || self.used().all(|at| self.rates[at].is_some())
    }
}

/// The place of a value among `words`.
fn one_of(setting: &Setting<'_>, words: &[&str], wanted: &'static str) -> Result<usize, JobError> {
    words.iter().position(|word| *word == setting.value).ok_or_else(|| setting.refuse(wanted))
}

fn take_direction(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    let wanted = "read, write, trim, readwrite, randread, randwrite, randtrim or randrw is needed, without a number";
    let (is_random, word) = setting.value.strip_prefix("rand").map_or((false, setting.value), |word| (true, word));
    job.is_random = is_random;
    job.sends = match word {
        "read" => [true, false, false],
        "write" => [false, true, false],
        "trim" => [false, false, true],
        "rw" | "readwrite" => [true, true, false],
        _ => return Err(setting.refuse(wanted)),
    };
    Ok(())
}

/// A size of blocks, of which none is 0.
fn block(text: &str) -> Option<u64> {
    bytes(text).filter(|size| (1..FAR).contains(size))
}

fn take_blocks(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    setting.each(&mut job.sizes, "sizes of blocks are needed, such as 4k or 4k,8k", |text| block(text).map(Sizes::One))
}

fn take_range(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    let range = |text: &str| {
        let (low, high) = text.split_once('-')?;
        Some(Sizes::Range(block(low)?, block(high)?)).filter(|range| matches!(range, Sizes::Range(a, b) if a <= b))
    };
    setting.each(&mut job.sizes, "ranges of sizes are needed, such as 4k-64k", range)
}

fn take_split(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    setting.each(&mut job.sizes, "sizes and percentages are needed, such as 4k/60:64k/40, that make 100", split)
}

/// Sizes with percentages. Those without one share what is left.
fn split(text: &str) -> Option<Sizes> {
    let mut sizes = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = if percent.is_empty() { None } else { Some(percent.parse::<u32>().ok().filter(|p| *p <= 100)?) };
        sizes.push((block(size)?, percent));
    }
    let told: u32 = sizes.iter().filter_map(|(_, percent)| *percent).sum();
    let untold = sizes.iter().filter(|(_, percent)| percent.is_none()).count();
    if told > 100 || untold == 0 && told != 100 {
        return None;
    }
    let share = f64::from(100 - told) / untold.max(1) as f64;
    let mut sum = 0.0;
    let up_to = |(size, percent): (u64, Option<u32>)| {
        sum += percent.map_or(share, f64::from) / 100.0;
        (size, sum)
    };
    Some(Sizes::Split(sizes.into_iter().map(up_to).collect()))
}

fn take_distribution(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    let wanted = "random, zipf:THETA (0 to 10) or pareto:H (between 0 and 1) is needed";
    let (word, number) = setting.value.split_once(':').unwrap_or((setting.value, ""));
    let number = |usual: f64| if number.is_empty() { Some(usual) } else { number.parse::<f64>().ok() };
    let found = match word {
        "random" => Some(Distribution::Uniform),
        "zipf" => number(1.1).filter(|theta| *theta > 0.0 && *theta <= 10.0).map(Distribution::Zipf),
        "pareto" => number(0.2).filter(|h| *h > 0.0 && *h < 1.0).map(Distribution::Pareto),
        _ => None,
    };
    job.distribution = found.ok_or_else(|| setting.refuse(wanted))?;
    Ok(())
}

fn take_file(job: &mut Job, setting: &Setting<'_>) -> Result<(), JobError> {
    if setting.value.contains(':') {
        return Err(setting.refuse("one file is needed; give each file a job of its own"));
    }
    job.file = Some(setting.value.to_string()).filter(|name| !name.is_empty());
    Ok(())
}
