//! `esker advise`: what to buy for block traces, and how to use it.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use esker_advise::adviser::{PROPOSALS, VERIFIED};
use esker_advise::page::page;
use esker_advise::question::Target;
use esker_advise::{Advice, Adviser, Offer, Question, Settings, catalogue};
use esker_base::units::{UnitError, parse_span};
use esker_base::{Nanos, Unit};
use esker_predict::{CandidateRun, ComparisonPlan, Limit, Load, SpeedChoice};
use esker_stack::Spec;
use esker_trace_block::Format;

use crate::block_trace::from_help;
use crate::failure::Failure;
use crate::outputs::{Output, OutputError};
use crate::playing::{Plays, command_line, side_by_side, threads_of};
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Advise>(About {
    words: &["advise"],
    summary: "Say what to buy for block traces, and how to use it",
    details: "Answers one of two questions. With --target: what is the cheapest that is fast enough? With --budget: what is \
              the fastest for so many US dollars? Proposals are devices of a catalogue by themselves, as a cache, and as a \
              tier. All are screened by an estimate. The best are played in virtual time with the layers that would serve \
              them, and only such a proposal is recommended. The error of the estimate is printed.\n\n\
              All volumes of the traces share one volume of the stack. Writes advice.html, advice.json and stack.toml to the \
              folder of --out. Without traces the verb takes the two built-in ones, at the speed that `esker try` chooses. \
              If nothing answers the question, the exit status is 4, and the message says what is missing.\n\n\
              A catalogue is a file with a table for each device: [[device]] with name, and if wanted profile (a model of \
              `esker kinds`), usd, count_max and role (any, home or fast). Without one, all models are for sale.",
    examples: &[
        Example {
            line: "esker advise app.csv --target p95=5ms",
            does: "names the cheapest with a p95 of at most 5 ms",
        },
        Example {
            line: "esker advise app.csv --budget 400 --catalogue prices.toml",
            does: "names the fastest for at most $400 at prices of your own",
        },
        Example {
            line: "esker advise app.csv --target p95=5ms,p99=20ms --growth 2",
            does: "leaves room for twice the data",
        },
    ],
});

/// What the files that this verb writes have near their beginning.
const MARKS: [&str; 2] = ["Written by esker advise", "\"written_by\": \"esker advise\""];

#[derive(clap::Args)]
struct Advise {
    /// Files, folders or archives with traces [default: the two that are built in]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,
    #[arg(long, value_name = "FORMAT", requires = "traces", help = from_help())]
    from: Option<Format>,
    /// Only the requests to this volume of each trace
    #[arg(long, value_name = "NAME", requires = "traces")]
    volume: Option<String>,
    /// Devices and their prices [default: all models at the prices of their time]
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Equal performance: the most that responses may take, such as p95=5ms or mean=1ms,p99=20ms
    #[arg(long, value_name = "TARGET", required_unless_present = "budget", conflicts_with = "budget")]
    target: Option<Target>,
    /// Equal cost: the most that all devices may cost
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    budget: Option<f64>,
    /// Room for so many times the data of the traces
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_growth)]
    growth: f64,
    /// How many times faster than recorded the traces are played [default: 1]
    #[arg(long, value_name = "FACTOR", conflicts_with = "rate")]
    speed: Option<f64>,
    /// So many requests of each trace a second, evenly; for traces without times
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Takes only this much of each trace, in recorded time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Nanos>,
    /// Proposals that are screened at most
    #[arg(long, value_name = "N", default_value_t = PROPOSALS, value_parser = parse_count)]
    configurations: usize,
    /// Proposals that are played in each of at most three rounds
    #[arg(long, value_name = "N", default_value_t = VERIFIED, value_parser = parse_count)]
    verify: usize,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Proposals screened or played at once; the result does not depend on it [default: the machine's CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// The advice as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Folder for advice.html, advice.json and stack.toml
    #[arg(long, value_name = "DIR", default_value = "esker-advise")]
    out: PathBuf,
    /// Replaces files that esker did not write
    #[arg(long)]
    force: bool,
}

fn parse_time(text: &str) -> Result<Nanos, UnitError> {
    parse_span(text)
}

fn parse_usd(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd > 0.0).ok_or("write US dollars above 0".to_string())
}

fn parse_growth(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor));
    factor.ok_or("write a factor from 1 to 1000".to_string())
}

fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=10_000).contains(count)).ok_or("write a number from 1 to 10000".to_string())
}

#[derive(Debug, thiserror::Error)]
#[error("{0}: cannot be read: {1}")]
struct Unreadable(String, std::io::Error);

/// The files that will be written.
struct Outputs {
    page: Output,
    result: Output,
    stack: Output,
}

impl Run for Advise {
    const PACE: Option<Pace> =
        Some(Pace::Shows("bytes of traces, devices that are measured, proposals, requests of candidates"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (offers, outputs) = (self.offers()?, self.outputs()?);
        let advice = self.advice(offers, terminal)?;
        self.write(&advice, &outputs)?;
        match self.json {
            true => terminal.say(&advice.to_json())?,
            false => {
                terminal.say(&advice.text())?;
                terminal.say(&format!(
                    "\npage     {}\nresult   {}",
                    outputs.page.path().display(),
                    outputs.result.path().display()
                ))?;
                if advice.winner.is_some() {
                    let stack = outputs.stack.path().display();
                    terminal.say(&format!("stack    {stack}\n\nServe it on sparse files: esker serve {stack}"))?;
                }
            }
        }
        match advice.winner {
            Some(_) => Ok(()),
            None => Err(Failure::Unanswered(format!("{} Missing: {}.", advice.headline, advice.deficits.join("; ")))),
        }
    }
}

impl Advise {
    fn question(&self) -> Question {
        match (self.target, self.budget) {
            (Some(target), _) => Question::Target(target),
            (None, budget) => Question::Budget(budget.expect("one of both is required")),
        }
    }

    fn offers(&self) -> Result<Vec<Offer>, Failure> {
        let Some(path) = &self.catalogue else { return Ok(catalogue::builtin()) };
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Unreadable(name.clone(), error))?;
        Ok(catalogue::parse(&name, &text)?)
    }

    fn plan(&self, plays: &Plays) -> ComparisonPlan {
        let defaults = match self.traces.as_slice() {
            [] => ComparisonPlan::embedded(),
            paths => ComparisonPlan::of(plays.traces(paths, self.from, self.volume.as_deref())),
        };
        ComparisonPlan {
            seed: self.seed,
            load: self.rate.map_or(Load::Open, |per_s| Load::Steady { per_s }),
            speed: self.speed.map_or(defaults.speed, SpeedChoice::Factor),
            limit: Limit { duration: self.duration, ..Limit::default() },
            ..defaults
        }
    }

    fn outputs(&self) -> Result<Outputs, OutputError> {
        let claim = |name: &str| Output::claim(self.out.join(name), &MARKS, self.force, "--out");
        Ok(Outputs { page: claim("advice.html")?, result: claim("advice.json")?, stack: claim("stack.toml")? })
    }

    fn advice(&self, offers: Vec<Offer>, terminal: &Terminal) -> Result<Advice, Failure> {
        let (question, growth, threads) = (self.question(), self.growth, threads_of(self.threads));
        let settings = Settings { question, growth, proposals: self.configurations, verified: self.verify };
        let plays = Plays::new(terminal.watcher());
        let adviser = Adviser::prepare(self.plan(&plays), offers, settings, &plays.watch())?;
        plays.read_all();
        let count = adviser.proposals().len();
        let part = terminal.watcher().part("screening", Unit::Of("proposals"), Some(count as u64));
        let screens = side_by_side(count, threads, |at| {
            let screened = adviser.screen(at);
            part.more(1);
            screened
        });
        drop(part);
        let mut runs: Vec<(usize, CandidateRun)> = Vec::new();
        loop {
            let chosen = adviser.next(&screens, &runs);
            if chosen.is_empty() {
                break;
            }
            let prepared = adviser.verification(&chosen, &plays.watch())?;
            runs.extend(chosen.into_iter().zip(plays.candidates(&prepared, threads)?));
        }
        Ok(adviser.conclude(screens, runs))
    }

    fn write(&self, advice: &Advice, outputs: &Outputs) -> Result<(), Failure> {
        [&outputs.page, &outputs.result, &outputs.stack].into_iter().try_for_each(Output::prepare)?;
        let stack = advice.stack_toml(&self.out.display().to_string())?;
        let page = page(advice, &command_line(), stack.as_deref())?;
        if let Some(stack) = &stack {
            Spec::parse(&outputs.stack.path().display().to_string(), stack)?.check(esker_kinds::ALL)?;
            let data = self.out.join("data");
            fs::create_dir_all(&data).map_err(|error| refused(&data, error))?;
            outputs.stack.put(stack)?;
        }
        outputs.page.put(&page)?;
        Ok(outputs.result.put(&advice.to_json())?)
    }
}

fn refused(path: &Path, error: std::io::Error) -> OutputError {
    OutputError::Refused(path.display().to_string(), error, "--out")
}
