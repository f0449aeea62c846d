//! Scripts: orders of places that processes go through again and again, as a program does when it starts, or a build.
//!
//! No script is stored. The numbers of a script seed a stream, and the stream gives its steps.

use super::{ALIGN, Ask, Grains, Places, ProfileFlaw, Zipf, check_part};
use esker_base::Stream;
use esker_base::digest::mix;

/// How far a step goes at most that stays near the one before.
const NEAR: u64 = 32 << 20;

/// What a profile says of scripts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptRules {
    pub reach: f64,
    pub scripts: u64,
    pub steps: u32,
    pub exponent: f64,
    pub stray: f64,
    pub next: f64,
    pub near: f64,
    pub renew_s: f64,
    pub renew_part: f64,
}

/// One step: where it lies, and the numbers that decide operation, size and place inside the grain.
#[derive(Clone, Copy, Default)]
struct ScriptStep {
    /// It begins where the one before ends, if that is in the grain.
    goes_on: bool,
    grain: u64,
    inside: f64,
    given: [f64; 2],
}

/// A walk through one script.
struct Walk {
    draws: Stream,
    step: ScriptStep,
}

pub(super) struct Scripts {
    grains: Grains,
    reached: u64,
    rules: ScriptRules,
    law: Zipf,
    /// Tells the scripts of this flow and volume from all others.
    seed: u64,
    walk: Walk,
    /// Steps of this run that are to come.
    left: u32,
    strays: bool,
    end: u64,
}

impl Scripts {
    pub(super) fn new(grains: Grains, rules: ScriptRules, draw: &mut Stream) -> Result<Scripts, ProfileFlaw> {
        let parts =
            [("reach", rules.reach), ("stray", rules.stray), ("near", rules.near), ("renew_part", rules.renew_part)];
        parts.into_iter().try_for_each(|(name, part)| check_part(name, part))?;
        ProfileFlaw::Part { name: "next", part: rules.next }.unless((0.0..1.0).contains(&rules.next))?;
        ProfileFlaw::Exponent(rules.exponent).unless((0.0..=8.0).contains(&rules.exponent))?;
        ProfileFlaw::Renewal(rules.renew_s).unless(rules.renew_s > 0.0)?;
        ProfileFlaw::Steps(rules.steps).unless((1..=65_536).contains(&rules.steps))?;
        let reached = ((grains.count() as f64 * rules.reach).round() as u64).clamp(1, grains.count());
        let seed = draw.next_u64();
        Ok(Scripts {
            grains,
            reached,
            rules,
            law: Zipf::new(rules.scripts, rules.exponent),
            seed,
            walk: Walk { draws: Stream::seeded(seed), step: ScriptStep::default() },
            left: 0,
            strays: false,
            end: 0,
        })
    }

    /// The first step of a script as it is at a time. From time to time a part of the scripts gets other steps.
    fn enter(&self, script: u64, at_s: f64) -> Walk {
        let number = mix(self.seed ^ mix(script));
        let phase = number as f64 / u64::MAX as f64;
        let version = (at_s / self.rules.renew_s * self.rules.renew_part + phase) as u64;
        let mut walk = Walk { draws: Stream::seeded(mix(number ^ mix(version))), step: ScriptStep::default() };
        self.far(&mut walk);
        walk
    }

    fn far(&self, walk: &mut Walk) {
        let grain = self.grains.start(walk.draws.below(self.reached));
        self.arrive(walk, grain, false);
    }

    fn arrive(&self, walk: &mut Walk, grain: u64, goes_on: bool) {
        let mut unit = || walk.draws.unit();
        let (inside, given) = (unit(), [unit(), unit()]);
        walk.step = ScriptStep { goes_on, grain, inside, given };
    }

    fn advance(&self, walk: &mut Walk) {
        let last = walk.step.grain;
        if walk.draws.chance(self.rules.next) {
            let inside = walk.step.inside;
            self.arrive(walk, last, true);
            walk.step.inside = inside;
        } else if walk.draws.chance(self.rules.near) {
            let (size, reach) = (self.grains.size, NEAR / self.grains.size);
            let from = (last / size).saturating_sub(reach);
            let to = (last / size + reach).min(self.grains.count() - 1);
            let grain = (from + walk.draws.below(to - from + 1)) * size;
            self.arrive(walk, grain, false);
        } else {
            self.far(walk);
        }
    }

    /// A step of any script that jumps.
    fn stray(&self, at_s: f64, draw: &mut Stream) -> ScriptStep {
        let mut walk = self.enter(self.law.draw(draw), at_s);
        let mut last = walk.step;
        for _ in 0..draw.below(u64::from(self.rules.steps)) {
            self.advance(&mut walk);
            if !walk.step.goes_on {
                last = walk.step;
            }
        }
        last
    }
}

impl Places for Scripts {
    fn given(&mut self, ask_s: f64, draw: &mut Stream) -> Option<[f64; 2]> {
        let mut walk =
            std::mem::replace(&mut self.walk, Walk { draws: Stream::seeded(0), step: ScriptStep::default() });
        match self.left {
            0 => {
                self.left = self.rules.steps;
                self.strays = draw.chance(self.rules.stray);
                walk = self.enter(self.law.draw(draw), ask_s);
            }
            _ if !self.strays => self.advance(&mut walk),
            _ => {}
        }
        if self.strays {
            walk.step = self.stray(ask_s, draw);
        }
        self.left -= 1;
        self.walk = walk;
        Some(self.walk.step.given)
    }

    fn goes_on(&self) -> bool {
        self.left > 0
    }

    fn offset(&mut self, ask: &Ask, _: &mut Stream) -> u64 {
        let step = self.walk.step;
        let inside = (step.inside * ((self.grains.size - ask.len) / ALIGN + 1) as f64) as u64 * ALIGN;
        let fits = step.goes_on && self.end + ask.len <= step.grain + self.grains.size;
        let offset = if fits { self.end } else { step.grain + inside };
        self.end = offset + ask.len;
        offset
    }
}
