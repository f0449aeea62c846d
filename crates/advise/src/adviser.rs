//! All of it: look at the traces, measure devices, screen proposals, play the best ones.

use std::cmp::Ordering;

use esker_base::Progress;
use esker_predict::plan::Prepared;
use esker_predict::seats::JOINED;
use esker_predict::{Candidate, CandidateRun, ComparisonPlan, SpeedChoice, Volumes, Watch};

use crate::advice::{Advice, AdviceRow, Played, Told};
use crate::catalogue::Offer;
use crate::columns::Columns;
use crate::error::AdviseError;
use crate::proposal::{Making, Proposal, Shape};
use crate::question::{Question, Responses};
use crate::screen::{self, Screened};
use crate::sequences::planned_slots;
use crate::service::Service;

/// Proposals that are screened unless more are asked for.
pub const PROPOSALS: usize = 200;
/// Proposals that are played in a round.
pub const VERIFIED: usize = 10;
/// Rounds at most.
const ROUNDS: usize = 3;
/// Screens that say at most so many times the target are worth a run.
const MARGIN: f64 = 1.25;

/// What is wanted, and how much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What is wanted.
    pub question: Question,
    /// Times as many data as now, for which there must be room.
    pub growth: f64,
    /// Proposals that are screened at most.
    pub proposals: usize,
    /// Proposals that are played in a round.
    pub verified: usize,
}

/// Traces that were looked at, and what can be built for them.
pub struct Adviser {
    plan: ComparisonPlan,
    prepared: Prepared,
    columns: Columns,
    offers: Vec<Offer>,
    services: Vec<Service>,
    settings: Settings,
    speed: f64,
    volume: u64,
    proposals: Vec<Proposal>,
}

impl Adviser {
    /// Looks at the traces of a plan, measures the devices, and makes proposals. The volumes of the traces are joined.
    ///
    /// # Errors
    /// Traces that cannot be played at their times, or a device that cannot be measured.
    pub fn prepare(
        plan: ComparisonPlan,
        offers: Vec<Offer>,
        settings: Settings,
        watch: &Watch,
    ) -> Result<Adviser, AdviseError> {
        let plan = ComparisonPlan { joined: true, headroom: false, ..plan };
        let prepared = plan.clone().prepare(watch)?;
        let columns = Columns::of(&prepared)?;
        let speed = prepared.speed().map_or(1.0, |speed| speed.factor);
        let volume = (columns.reach as f64 * settings.growth).ceil() as u64;
        let count = offers.len() as u64;
        let services = (0u64..).zip(&offers).map(|(measured, offer)| {
            watch(Progress::of("measuring devices", "devices", measured, count));
            Service::measure(offer, volume, plan.seed)
        });
        let services = services.collect::<Result<Vec<_>, _>>()?;
        watch(Progress::of("measuring devices", "devices", count, count));
        let mut adviser =
            Adviser { plan, prepared, columns, offers, services, settings, speed, volume, proposals: Vec::new() };
        adviser.proposals = adviser.making().all(settings.proposals);
        if adviser.proposals.iter().any(|proposal| matches!(proposal.shape, Shape::Reorganised(_))) {
            let making = adviser.making();
            let planned = planned_slots(&adviser.columns, making.interval_ns(), making.planned_slots());
            adviser.columns.planned = planned;
        }
        Ok(adviser)
    }

    fn making(&self) -> Making<'_> {
        Making {
            offers: &self.offers,
            services: &self.services,
            volume: self.volume,
            footprint: self.columns.footprint(),
            budget: self.settings.question.budget(),
            speed: self.speed,
            span_ns: self.columns.span_ns(),
        }
    }

    /// What can be built.
    pub fn proposals(&self) -> &[Proposal] {
        &self.proposals
    }

    /// What is asked, request by request.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Screens a proposal. May be called from several threads.
    pub fn screen(&self, at: usize) -> Screened {
        screen::screen(&self.making(), &self.columns, &self.proposals[at].shape)
    }

    /// The order in which proposals are worth a run: those first that answer the question by their screens.
    fn order(&self, screens: &[Screened]) -> Vec<usize> {
        let key = |at: &usize| {
            let (screen, usd) = (&screens[*at], self.proposals[*at].usd);
            match self.settings.question {
                Question::Target(target) => {
                    let excess = target.excess(&responses(screen));
                    // Of those that are too slow the nearest come first.
                    let late = if excess <= MARGIN { 0.0 } else { excess };
                    [late, usd, screen.energy_j, screen.p95_ns]
                }
                Question::Budget(_) => [screen.p95_ns, screen.mean_ns, usd, screen.energy_j],
            }
        };
        let mut order: Vec<usize> = (0..self.proposals.len()).collect();
        order.sort_by(|a, b| by_turns(&key(a), &key(b)));
        order
    }

    /// What plays these proposals, in their order. Layers that learn see the traces a first time before counting
    /// begins.
    ///
    /// # Errors
    /// A stack that cannot be built, or traces that cannot be read again.
    pub fn verification(&self, chosen: &[usize], watch: &Watch) -> Result<Prepared, AdviseError> {
        let making = self.making();
        let volumes = Volumes::one(JOINED, self.volume);
        let candidates: Result<Vec<Candidate>, _> =
            chosen.iter().map(|at| making.candidate(&self.proposals[*at], &volumes)).collect();
        let speed = SpeedChoice::Factor(self.speed);
        Ok(ComparisonPlan { candidates: candidates?, speed, ..self.plan.clone() }.prepare(watch)?)
    }

    /// What is worth a run next, behind these: the best by their screens until one of them answers the question, then
    /// what may be cheaper, or faster, than the answer. Nothing if all is known, or after three rounds in vain.
    pub fn next(&self, screens: &[Screened], runs: &[(usize, CandidateRun)]) -> Vec<usize> {
        let is_new = |at: &usize| runs.iter().all(|(played, _)| played != at);
        if let Some(best) = self.best(runs) {
            return self.neighbours(screens, best).into_iter().filter(is_new).collect();
        }
        let most = if runs.len() < ROUNDS * self.settings.verified { self.settings.verified } else { 0 };
        self.order(screens).into_iter().filter(is_new).take(most).collect()
    }

    /// Of what is cheaper than an answer the fastest, and of what is faster the cheapest, by their screens.
    fn neighbours(&self, screens: &[Screened], (best, played): (usize, Played)) -> Vec<usize> {
        let usd = |at: &usize| self.proposals[*at].usd;
        let p95_ns = |at: &usize| screens[*at].p95_ns;
        let all = 0..self.proposals.len();
        let cheaper = all.clone().filter(|at| usd(at) < usd(&best)).min_by(|a, b| p95_ns(a).total_cmp(&p95_ns(b)));
        let faster = all.filter(|at| p95_ns(at) < played.p95_ns).min_by(|a, b| usd(a).total_cmp(&usd(b)));
        let mut found: Vec<usize> = cheaper.into_iter().chain(faster).collect();
        found.dedup();
        found
    }

    fn answers(&self, played: &Played) -> bool {
        played.is_sound()
            && match self.settings.question {
                Question::Target(target) => target.excess(&played.responses()) <= 1.0,
                Question::Budget(_) => true,
            }
    }

    /// The advice, from all screens and all runs.
    pub fn conclude(self, screens: Vec<Screened>, runs: Vec<(usize, CandidateRun)>) -> Advice {
        let mut rows: Vec<AdviceRow> = self
            .proposals
            .iter()
            .zip(screens)
            .map(|(proposal, screened)| AdviceRow {
                name: proposal.name.clone(),
                what: proposal.what.clone(),
                shape: proposal.shape,
                usd: proposal.usd,
                screened,
                played: None,
                run: None,
            })
            .collect();
        let winner = self.best(&runs);
        for (at, run) in runs {
            rows[at].played = Some(Played::of(&run));
            rows[at].run = Some(run);
        }
        let making = self.making();
        let told = Told {
            question: self.settings.question,
            lacking_bytes: making.lacking_bytes(),
            least_usd: making.least_usd(),
            traces: self.prepared.facts(),
            pace: self.prepared.speed().map_or(String::new(), |speed| speed.text()),
            columns: &self.columns,
            offers: &self.offers,
            services: &self.services,
            growth: self.settings.growth,
            seed: self.plan.seed,
        };
        Advice::new(&told, rows, winner.map(|(at, _)| at))
    }

    /// Of the runs that answer the question the best.
    fn best(&self, runs: &[(usize, CandidateRun)]) -> Option<(usize, Played)> {
        let answers = runs.iter().map(|(at, run)| (*at, Played::of(run))).filter(|(_, played)| self.answers(played));
        let key = |(at, played): &(usize, Played)| {
            let proposal = &self.proposals[*at];
            match self.settings.question {
                // Of equally cheap ones those that need no layers are simpler.
                Question::Target(_) => [proposal.usd, f64::from(u8::from(proposal.shape.learns())), played.energy_j],
                Question::Budget(_) => [played.p95_ns, proposal.usd, played.energy_j],
            }
        };
        answers.min_by(|a, b| by_turns(&key(a), &key(b)))
    }
}

/// The order of the first figures that differ.
fn by_turns(a: &[f64], b: &[f64]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

pub(crate) fn responses(screened: &Screened) -> Responses {
    Responses { mean_ns: screened.mean_ns, p95_ns: screened.p95_ns, p99_ns: screened.p99_ns }
}
