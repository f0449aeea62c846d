//! `esker curve`: how many requests a cache of each size would miss.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use esker_base::units::{KIB, parse_size, size_human, size_text};
use esker_caching::curve::{Curve, CurvePoint, Estimator, Method, spread};
use esker_caching::ids::Ids;
use esker_caching::{LineUse, NAMED, lines_in};
use esker_report::{Axis, Figure, PlotError, Series, table_of_numbers};
use esker_trace_block::{Record, Source, Speed};
use serde_json::json;

use crate::block_trace::{Trace, TraceInput, report_json};
use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<CurveVerb>(About {
    words: &["curve"],
    summary: "Show how many requests caches of many sizes would miss",
    details: "Plays the reads and writes of a block trace against caches of each size and prints the shares of requests \
              and bytes that miss. A request misses if one of its lines does. The last lines say which size pays: the \
              smallest one that misses at most a tenth more than the largest one.\n\n\
              The method exact is right for every policy. For lru it needs one pass, for others it simulates each \
              size. The methods relaxed and aet are fast estimates for lru. The method shards looks at a share of the \
              lines, shards-lines at so many lines, both for lru. The method miniature simulates small caches on a \
              share of the lines, for any policy.\n\n\
              A trace is read twice: first to find how many lines it uses. So it cannot be a pipe. Flushes and \
              discards do not count. A truncated trace counts up to the cut, and the exit status is 1.",
    examples: &[
        Example {
            line: "esker curve data/linux-mysql.load.gz --line 64KiB --policy lru,s3-fifo",
            does: "compares two policies at twenty sizes",
        },
        Example {
            line: "esker curve data/linux-webserver-2.load.gz --method shards=0.1 --plot curve.svg",
            does: "estimates from a tenth of the lines, and draws the curve",
        },
    ],
});

/// Sizes if none are named.
const SIZES: u32 = 20;
/// Uses that estimators take at once.
const PIECE: usize = 1 << 14;
/// A size pays if it misses at most so many times what the largest one misses.
const PAYS: f64 = 1.1;
/// With fewer lines in a sample the error is large.
const SAMPLED_LINES: f64 = 100.0;
/// Lines of one request that count. More are an error of the trace.
const REQUEST_LINES: usize = 1 << 22;
/// What a plot of this verb begins with.
const MARK: &str = "Written by esker curve";

#[derive(clap::Args)]
struct CurveVerb {
    /// Files with traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    #[command(flatten)]
    reading: TraceInput,
    /// Bytes of a line, a power of two from 512 to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = line_size)]
    line: u32,
    /// Policies, with commas between them
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "lru", value_parser = policies())]
    policies: Vec<String>,
    /// How misses are found: exact, relaxed, aet, shards=RATE, shards-lines=COUNT or miniature=RATE
    #[arg(long, value_name = "METHOD", default_value = "exact")]
    method: Method,
    /// Sizes of caches, with commas between them [default: 20, from a thousandth of the footprint to all of it]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<u64>,
    /// One JSON object for each trace instead of tables
    #[arg(long)]
    json: bool,
    /// Also a plot, in this file; for one trace
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Replace the plot if it exists and esker did not write it
    #[arg(long, requires = "plot")]
    force: bool,
}

fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(NAMED.iter().map(|(name, _)| *name))
}

fn line_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    let fits = bytes.is_power_of_two() && (512..=1 << 30).contains(&bytes);
    let unfit = || format!("{} is no size of a line; use a power of two from 512 to 1GiB", size_text(bytes));
    u32::try_from(bytes).ok().filter(|_| fits).ok_or_else(unfit)
}

/// Why a trace has no curve.
#[derive(Debug, thiserror::Error)]
enum CurveError {
    #[error("{0}: has no read and no write, so a cache has nothing to do; look at it with `esker blktrace stat`")]
    Empty(String),
    #[error("{0}: is no file, and a trace is read twice; save it to a file first")]
    Stream(String),
    #[error("{trace}: a request for {bytes} bytes has over {REQUEST_LINES} lines; use longer lines with --line")]
    Long { trace: String, bytes: u64 },
    #[error("the plot cannot be drawn: {0}")]
    Plot(#[from] PlotError),
}

impl Run for CurveVerb {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace, in two passes"));

    fn run(mut self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.check()?;
        let plot = self.plot.clone().map(|path| Output::claim(path, &[MARK], self.force, "--plot")).transpose()?;
        plot.iter().try_for_each(Output::prepare)?;
        let mut whole = Ok(());
        for (at, path) in self.traces.iter().enumerate() {
            if at > 0 && !self.json {
                terminal.say("")?;
            }
            let (trace, curves) = self.curves(path, terminal)?;
            self.report(path, &trace, &curves, terminal)?;
            if let Some(plot) = &plot {
                plot.put(&drawn(path, &curves)?)?;
            }
            whole = whole.and(trace.uncut("counted"));
        }
        whole
    }
}

impl CurveVerb {
    /// Refuses what can be refused before a trace is read. Each policy counts once.
    fn check(&mut self) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        self.policies.retain(|policy| seen.insert(policy.clone()));
        if self.plot.is_some() && self.traces.len() > 1 {
            return Err(Failure::Usage("--plot draws one trace; name one".into()));
        }
        if let Some(size) = self.sizes.iter().find(|size| **size < self.line.into()) {
            let line = size_text(self.line.into());
            return Err(Failure::Usage(format!("--sizes: {} is less than a line of {line}", size_text(*size))));
        }
        for policy in &self.policies {
            self.method.estimator(policy, &[]).map_err(|error| Failure::Usage(error.to_string()))?;
        }
        Ok(())
    }

    fn curves(&self, path: &str, terminal: &Terminal) -> Result<(Trace, Curves), Failure> {
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
            return Err(CurveError::Stream(path.to_string()).into());
        }
        let mut ids = Ids::new();
        self.play(path, "pass 1 of 2", terminal, |uses| {
            for line in uses {
                ids.of(line.key);
            }
        })?;
        let footprint = u64::from(ids.bound());
        drop(ids);
        if footprint == 0 {
            return Err(CurveError::Empty(path.to_string()).into());
        }
        let sizes = match &self.sizes[..] {
            [] => spread(footprint, SIZES),
            sizes => sizes.iter().map(|size| size / u64::from(self.line)).collect(),
        };
        // More lines than the trace uses would be memory for nothing.
        let simulated: Vec<u64> = sizes.iter().map(|size| *size.min(&footprint)).collect();
        let estimator = |policy: &String| self.method.estimator(policy, &simulated).map(|one| (policy.clone(), one));
        let mut estimators = self.policies.iter().map(estimator).collect::<Result<Vec<_>, _>>()?;
        let trace =
            self.play(path, "pass 2 of 2", terminal, |uses| estimators.iter_mut().for_each(|(_, one)| one.add(uses)))?;
        let by_policy = estimators.into_iter().map(|(policy, one)| PolicyCurve::new(policy, one, &sizes, footprint));
        let line = u64::from(self.line);
        Ok((trace, Curves { line, method: self.method, footprint, by_policy: by_policy.collect() }))
    }

    /// Reads a trace, and hands out its uses of lines in pieces.
    fn play(
        &self,
        path: &str,
        pass: &str,
        terminal: &Terminal,
        mut take: impl FnMut(&[LineUse]),
    ) -> Result<Trace, Failure> {
        let (mut trace, part) = self.reading.open(path, Speed::RECORDED, terminal)?;
        part.at(&format!("{path}, {pass}"));
        let mut uses = Vec::with_capacity(2 * PIECE);
        while let Some(record) = trace.source().next_record()? {
            let before = uses.len();
            uses.extend(uses_of(&record, self.line).take(REQUEST_LINES + 1));
            if uses.len() > before + REQUEST_LINES {
                return Err(CurveError::Long { trace: path.to_string(), bytes: record.len }.into());
            }
            if uses.len() >= PIECE {
                take(&uses);
                uses.clear();
            }
        }
        take(&uses);
        drop(part);
        Ok(trace)
    }

    fn report(&self, path: &str, trace: &Trace, curves: &Curves, terminal: &mut Terminal) -> Result<(), Failure> {
        let format = trace.reader().format().name();
        if self.json {
            let report = report_json(trace.reader().report());
            let mut object = json!({ "trace": path, "format": format, "report": report });
            let more = curves.json();
            object.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
            return terminal.say(&object.to_string());
        }
        trace.complain(terminal);
        terminal.say(&format!("{:<18} {path}\n{:<18} {format}\n{}", "trace", "format", curves.text()))
    }
}

/// The lines of a read or write.
fn uses_of(record: &Record, line: u32) -> impl Iterator<Item = LineUse> {
    lines_in(record.volume, record.offset, if record.op.is_transfer() { record.len } else { 0 }, line)
}

/// The curves of a trace.
struct Curves {
    line: u64,
    method: Method,
    /// Lines that the trace uses.
    footprint: u64,
    by_policy: Vec<PolicyCurve>,
}

/// The curve of a policy, with a point for each size that was asked for.
struct PolicyCurve {
    policy: String,
    curve: Curve,
}

impl PolicyCurve {
    fn new(policy: String, mut estimator: Box<dyn Estimator>, sizes: &[u64], footprint: u64) -> PolicyCurve {
        let mut curve = estimator.curve();
        let at = |lines: &u64| curve.points.iter().find(|point| point.lines == *lines.min(&footprint)).copied();
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let points = sizes.iter().filter_map(|lines| at(lines).map(|point| CurvePoint { lines: *lines, ..point }));
        curve.points = points.collect();
        PolicyCurve { policy, curve }
    }

    /// The smallest size that misses little more than the largest, as a place among the points. `None`: a cache without
    /// lines would miss little more.
    fn pays(&self) -> Option<usize> {
        let misses = |point: &CurvePoint| point.request_misses;
        let most = self.curve.points.last().map_or(0.0, misses) * PAYS;
        let place = || self.curve.points.iter().position(|point| misses(point) <= most);
        (most < self.curve.requests).then(place).flatten()
    }
}

impl Curves {
    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.by_policy[0].curve.points.iter().map(|point| point.lines * self.line)
    }

    fn text(&self) -> String {
        let of = |curve: &Curve| (curve.requests, size_human(curve.bytes as u64));
        let (requests, bytes) = of(&self.by_policy[0].curve);
        let mut text = format!("{:<18} {}\n{:<18} {}\n", "line", size_human(self.line), "method", self.method);
        text += &format!("{:<18} {requests:.0}, of {bytes}\n", "reads and writes");
        let footprint = size_human(self.footprint * self.line);
        text += &format!("{:<18} {} lines, {footprint}\n", "footprint", self.footprint);
        text += &self.table("requests that miss", Curve::request_ratios);
        text += &self.table("bytes that miss", Curve::byte_ratios);
        text += "\n";
        text += &self.rough().map(|note| note + "\n").unwrap_or_default();
        text + &self.by_policy.iter().map(|one| self.verdict(one)).collect::<Vec<_>>().join("\n")
    }

    fn table(&self, title: &str, ratios: fn(&Curve) -> Vec<f64>) -> String {
        let heads = self.by_policy.iter().map(|one| one.policy.as_str());
        let columns: Vec<Vec<f64>> = self.by_policy.iter().map(|one| ratios(&one.curve)).collect();
        let row = |(at, size): (usize, u64)| {
            let cells = columns.iter().map(|column| percent(column[at]));
            [size_human(size)].into_iter().chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = self.sizes().enumerate().map(row).collect();
        format!("\n{}\n", table_of_numbers(&[title].into_iter().chain(heads).collect::<Vec<_>>(), &rows))
    }

    /// Which size pays for a policy.
    fn verdict(&self, one: &PolicyCurve) -> String {
        let (policy, ratios, sizes) = (&one.policy, one.curve.request_ratios(), self.sizes().collect::<Vec<_>>());
        let last = ratios.len() - 1;
        let at = |at: usize| (size_human(sizes[at]), percent(ratios[at]));
        let (largest, least) = at(last);
        match one.pays() {
            None => format!("{policy}: no size pays: {least} of requests miss even with {largest}."),
            Some(place) if place == last => {
                format!("{policy}: no smaller size pays: {least} of requests miss with {largest}.")
            }
            Some(place) => {
                let (size, ratio) = at(place);
                format!("{policy}: {size} pays: {ratio} of requests miss, and {least} with {largest}.")
            }
        }
    }

    /// Below which size a sample has few lines, if the method takes one.
    fn rough(&self) -> Option<String> {
        let rate = match self.method {
            Method::Exact | Method::Relaxed | Method::Aet => return None,
            Method::Shards(rate) | Method::Miniature(rate) => rate,
            Method::ShardsLines(lines) => (lines as f64 / self.footprint as f64).min(1.0),
        };
        let enough = (SAMPLED_LINES / rate) as u64 * self.line;
        let is_rough = rate < 1.0 && self.sizes().next().is_some_and(|size| size < enough);
        let enough = size_human(enough);
        is_rough.then(|| format!("Sizes below {enough} have under {SAMPLED_LINES} sampled lines, so they are rough."))
    }

    fn json(&self) -> serde_json::Value {
        let of = |one: &PolicyCurve| {
            let ratios = one.curve.request_ratios().into_iter().zip(one.curve.byte_ratios());
            let point = |(point, (requests, bytes)): (&CurvePoint, (f64, f64))| {
                let size = point.lines * self.line;
                json!({ "bytes": size, "lines": point.lines, "requests_missed": requests, "bytes_missed": bytes })
            };
            let points: Vec<_> = one.curve.points.iter().zip(ratios).map(point).collect();
            json!({ "policy": one.policy, "pays": one.pays().map(|at| points[at].clone()), "points": points })
        };
        let Curve { requests, bytes, .. } = self.by_policy[0].curve;
        json!({
            "line": self.line, "method": self.method.to_string(), "requests": requests as u64, "bytes": bytes as u64,
            "footprint_lines": self.footprint, "policies": self.by_policy.iter().map(of).collect::<Vec<_>>(),
        })
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The plot of a trace as a file.
fn drawn(path: &str, curves: &Curves) -> Result<String, CurveError> {
    let megabytes = |size: u64| size as f64 / (KIB * KIB) as f64;
    let series = curves.by_policy.iter().map(|one| {
        let points = curves.sizes().map(megabytes).zip(one.curve.request_ratios());
        Series::line(&one.policy, points.collect())
    });
    let figure = Figure {
        title: path.to_string(),
        says: "Share of requests that miss.".to_string(),
        x: Axis::logarithmic("cache in MiB"),
        y: Axis::linear("share of requests that miss"),
        series: series.collect(),
    };
    Ok(figure.file(MARK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_trace_block::Op;

    const LINE: u64 = 4096;

    /// The curves of requests for a line each, by an exact LRU.
    fn curves(keys: &[u64], sizes: &[u64], method: &str) -> Curves {
        let method: Method = method.parse().unwrap();
        let mut one = method.estimator("lru", sizes).unwrap();
        let uses = keys.iter().map(|key| LineUse { key: *key, bytes: 4096, is_last: true });
        one.add(&uses.collect::<Vec<_>>());
        let footprint = keys.iter().collect::<BTreeSet<_>>().len() as u64;
        let by_policy = vec![PolicyCurve::new("lru".to_string(), one, sizes, footprint)];
        Curves { line: LINE, method, footprint, by_policy }
    }

    /// Three lines in turn: caches of one or two miss all, one of three misses the first uses.
    const TURNS: [u64; 30] = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3];

    #[test]
    fn sizes_spread_from_a_thousandth_to_all_and_none_comes_twice() {
        let sizes = spread(1_000_000, SIZES);
        assert_eq!((sizes.len(), sizes[0], sizes[19]), (20, 1_000, 1_000_000));
        assert!(sizes.windows(2).all(|pair| (1.43..1.45).contains(&(pair[1] as f64 / pair[0] as f64))));
        assert_eq!((spread(1, SIZES), spread(3, SIZES)), (vec![1], vec![1, 2, 3]));
    }

    #[test]
    fn the_smallest_size_that_misses_little_more_than_the_largest_pays() {
        let text = curves(&TURNS, &[1, 2, 3, 4], "exact").text();
        assert!(text.ends_with("lru: 12.0 KiB pays: 10.00 % of requests miss, and 10.00 % with 16.0 KiB."), "{text}");
        assert!(text.contains("8.0 KiB             100.00 %\n"), "{text}");
        assert!(text.contains("footprint          3 lines, 12.0 KiB\n"), "{text}");
        let text = curves(&TURNS, &[1, 2, 3], "exact").text();
        assert!(text.ends_with("lru: no smaller size pays: 10.00 % of requests miss with 12.0 KiB."), "{text}");
    }

    #[test]
    fn where_hardly_a_request_hits_no_size_pays() {
        let keys: Vec<u64> = (0..1_000).chain(0..50).collect();
        let curves = curves(&keys, &[1, 1_000], "exact");
        let text = curves.text();
        assert!(text.ends_with("lru: no size pays: 95.24 % of requests miss even with 3.9 MiB."), "{text}");
        assert!(curves.json()["policies"][0]["pays"].is_null());
    }

    #[test]
    fn a_size_above_the_footprint_misses_what_the_footprint_does() {
        let json = curves(&TURNS, &[2, 3], "exact").json();
        let mut estimator = Method::Exact.estimator("sieve", &[2, 3]).unwrap();
        estimator.add(&TURNS.map(|key| LineUse { key, bytes: 1, is_last: true }));
        let one = PolicyCurve::new("sieve".to_string(), estimator, &[900, 2], 3);
        let lines: Vec<u64> = one.curve.points.iter().map(|point| point.lines).collect();
        assert_eq!((lines, one.curve.points[1].request_misses), (vec![2, 900], 3.0));
        assert_eq!(json["policies"][0]["pays"]["lines"], 3);
        assert_eq!(json["policies"][0]["points"][0]["requests_missed"], 1.0);
    }

    #[test]
    fn sizes_with_a_small_sample_are_told() {
        let keys: Vec<u64> = (0..1_000).collect();
        let note = |sizes: &[u64], method: &str| curves(&keys, sizes, method).rough();
        let expected = "Sizes below 800.0 KiB have under 100 sampled lines, so they are rough.";
        assert_eq!(note(&[100, 500], "shards=0.5").as_deref(), Some(expected));
        assert_eq!(note(&[100, 500], "shards-lines=500").as_deref(), Some(expected));
        assert_eq!((note(&[200, 500], "shards=0.5"), note(&[1], "exact"), note(&[1], "shards=1")), (None, None, None));
    }

    #[test]
    fn a_plot_is_a_file_with_a_mark() {
        let svg = drawn("t.csv", &curves(&TURNS, &[1, 2, 3], "exact")).unwrap();
        assert!(svg.starts_with("<!-- Written by esker curve -->\n<svg xmlns="), "{svg}");
    }

    #[test]
    fn only_reads_and_writes_use_lines() {
        let record = |op| Record { at: esker_base::Nanos::ZERO, volume: 0, op, offset: 100, len: 8192, who: 0 };
        let lines = [Op::Read, Op::Write, Op::Flush, Op::Discard].map(|op| uses_of(&record(op), 4096).count());
        assert_eq!(lines, [3, 3, 0, 0]);
    }

    #[test]
    fn lines_are_powers_of_two() {
        assert_eq!([line_size("512"), line_size("1GiB")], [Ok(512), Ok(1 << 30)]);
        for wrong in ["256", "3KiB", "2GiB"] {
            assert!(line_size(wrong).is_err_and(|why| why.contains("is no size of a line")), "{wrong}");
        }
    }
}
