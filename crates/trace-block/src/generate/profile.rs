//! Profiles: what a generated trace is to be like, as TOML.

use super::clock::DAY;
use super::flaw::ProfileFlaw;
use super::places::Kind;
use esker_base::units::SECTOR;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A profile that comes with Esker.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its TOML, in which a comment gives the source of each number.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("profiles/", $name, ".toml")) }),*]
    };
}

/// All profiles that come with Esker.
pub const BUILTIN: &[Builtin] = builtin![
    "uniform",
    "zipf",
    "hot-cold",
    "streams",
    "spc1-like",
    "msr-like",
    "msr-shift",
    "fiu-like",
    "adversarial-uniform",
    "adversarial-hot-set",
    "borg-office",
    "borg-developer",
    "borg-svn",
    "borg-web",
    "bltk-like",
    "postmark-like",
];

/// What a generated trace is to be like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it imitates, in a line.
    pub summary: String,
    /// How long a trace is if nothing else is said.
    pub hours: f64,
    /// The volumes.
    pub volume: Vec<Volume>,
    /// The flows of requests to them.
    pub flow: Vec<Flow>,
    /// What the statistics of the trace should be.
    #[serde(default)]
    pub target: Vec<Target>,
}

/// One volume, or several alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name; of several, this and a number counted from 0.
    pub name: String,
    /// Size of one in bytes.
    pub bytes: u64,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
}

/// One flow of requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The name of the volumes that it reaches, or `*` for all; it is spread over them in proportion to their sizes.
    pub volume: String,
    /// Requests per second, as the mean of a day.
    pub rate: f64,
    /// Relative rates of the hours of a day; without it all hours are alike.
    #[serde(default)]
    pub day: Vec<f64>,
    /// Part of the requests that are reads.
    pub reads: f64,
    /// Pairs of a size in bytes and its relative frequency.
    pub sizes: Vec<(u64, f64)>,
    /// The process that its records name; 0: none.
    #[serde(default)]
    pub who: u32,
    /// Mean time between the requests of a run, in milliseconds, where the places have runs. The runs come at `rate`
    /// divided by their length.
    #[serde(default)]
    pub gap_ms: f64,
    /// Which places it chooses.
    pub places: Kind,
    /// Requests come in bursts; without it each comes by itself.
    #[serde(default)]
    pub burst: Option<Burst>,
}

/// Requests that come together. A flow's bursts know nothing of each other, and its rate stays that of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Requests of a burst.
    pub requests: u32,
    /// Seconds from its first request to its last; the others are evenly spaced between them.
    pub within_s: f64,
}

/// A figure of the finished trace and what it should be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Which figure.
    pub figure: super::calibration::Figure,
    /// Of which volumes, where a figure is one of volumes.
    pub volume: Option<String>,
    /// What it should be, ...
    pub is: Option<f64>,
    /// ... or at least be, ...
    pub at_least: Option<f64>,
    /// ... or at most be.
    pub at_most: Option<f64>,
    /// Allowed difference from `is`, relative to it.
    #[serde(default = "five_percent")]
    pub within: f64,
    /// The figure holds for a trace of so many hours only.
    pub over: Option<f64>,
}

fn one() -> u32 {
    1
}

fn five_percent() -> f64 {
    0.05
}

/// A profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error("there is no profile {wanted}; there are {present}, and a TOML file of your own may be named")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// The names that exist.
        present: String,
    },
    /// The text is no profile.
    #[error("profile {name}: {source}")]
    Text {
        /// Its name.
        name: String,
        /// What is wrong, with the line.
        source: toml::de::Error,
    },
    /// A number makes no sense.
    #[error("profile {name}: {part}: {wrong}")]
    Number {
        /// Its name.
        name: String,
        /// Which volume, flow or target.
        part: String,
        /// What is wrong.
        wrong: ProfileFlaw,
    },
}

impl Profile {
    /// The profile called `name` that comes with Esker.
    ///
    /// # Errors
    /// If there is none.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        let Some(builtin) = BUILTIN.iter().find(|builtin| builtin.name == name) else {
            let present = BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ");
            return Err(ProfileError::Unknown { wanted: name.to_string(), present });
        };
        Profile::parse(name, builtin.text)
    }

    /// The profile in `text`, called `name` in messages.
    ///
    /// # Errors
    /// If it is no TOML, has unknown or missing keys, or a number that makes no sense.
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile =
            toml::from_str(text).map_err(|source| ProfileError::Text { name: name.to_string(), source })?;
        profile.check().map_err(|(part, wrong)| ProfileError::Number { name: name.to_string(), part, wrong })?;
        Ok(profile)
    }

    /// The same with volumes of `factor` times the size and `factor` times the requests: each place is used as often.
    pub fn scaled(mut self, factor: f64) -> Profile {
        for volume in &mut self.volume {
            volume.bytes = (volume.bytes as f64 * factor) as u64;
        }
        for flow in &mut self.flow {
            flow.rate *= factor;
        }
        for target in &mut self.target {
            if target.figure.grows() {
                target.is = target.is.map(|is| is * factor);
            }
        }
        self
    }

    /// The volumes one by one: names and sizes in whole blocks.
    pub(super) fn volumes(&self) -> Vec<(String, u64)> {
        let named = |volume: &Volume| {
            let name = |number| match volume.count {
                1 => volume.name.clone(),
                _ => format!("{}{number}", volume.name),
            };
            let bytes = volume.bytes / super::places::ALIGN * super::places::ALIGN;
            (0..volume.count).map(|number| (name(number), bytes)).collect::<Vec<_>>()
        };
        self.volume.iter().flat_map(named).collect()
    }

    /// The numbers of the volumes called `name`, as it stands in a flow or target.
    pub(super) fn numbers(&self, name: &str) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut next = 0;
        for volume in &self.volume {
            if name == "*" || name == volume.name {
                numbers.extend(next..next + volume.count);
            }
            next += volume.count;
        }
        numbers
    }

    fn check(&self) -> Result<(), (String, ProfileFlaw)> {
        let at = |part: String| move |wrong: ProfileFlaw| (part, wrong);
        check_hours(self.hours).map_err(at("hours".into()))?;
        let mut names = BTreeSet::new();
        for volume in &self.volume {
            let is_new = names.insert(&volume.name) && volume.name != "*";
            ProfileFlaw::NameTaken.unless(is_new).map_err(at(format!("volume {}", volume.name)))?;
        }
        let count: u64 = self.volume.iter().map(|volume| u64::from(volume.count)).sum();
        ProfileFlaw::Volumes(count).unless((1..=65_536).contains(&count)).map_err(at("volume".into()))?;
        for (number, flow) in self.flow.iter().enumerate() {
            self.check_flow(flow).map_err(at(format!("flow {} (to {})", number + 1, flow.volume)))?;
        }
        for target in &self.target {
            let known = target.volume.iter().all(|name| !self.numbers(name).is_empty());
            ProfileFlaw::NoVolume.unless(known).map_err(at(format!("target {}", target.figure.name())))?;
        }
        Ok(())
    }

    fn check_flow(&self, flow: &Flow) -> Result<(), ProfileFlaw> {
        ProfileFlaw::NoVolume.unless(!self.numbers(&flow.volume).is_empty())?;
        ProfileFlaw::Rate(flow.rate).unless(flow.rate > 0.0 && flow.rate <= 1e9)?;
        ProfileFlaw::Reads(flow.reads).unless((0.0..=1.0).contains(&flow.reads))?;
        ProfileFlaw::Day(flow.day.len()).unless(is_day(&flow.day))?;
        ProfileFlaw::Gap(flow.gap_ms).unless((0.0..=3.6e6).contains(&flow.gap_ms))?;
        if let Some(Burst { requests, within_s }) = flow.burst {
            let is_burst = requests > 0 && (0.0..=86_400.0).contains(&within_s);
            ProfileFlaw::Burst { requests, within_s }.unless(is_burst)?;
        }
        ProfileFlaw::NoSizes.unless(!flow.sizes.is_empty())?;
        let is_size = |(bytes, weight): &&(u64, f64)| {
            *bytes > 0 && *bytes <= 1 << 32 && bytes.is_multiple_of(SECTOR) && *weight > 0.0 && weight.is_finite()
        };
        match flow.sizes.iter().find(|size| !is_size(size)) {
            None => Ok(()),
            Some((bytes, weight)) => Err(ProfileFlaw::Size { bytes: *bytes, weight: *weight }),
        }
    }
}

/// Whether a trace can have this length: up to a hundred years.
pub(super) fn check_hours(hours: f64) -> Result<(), ProfileFlaw> {
    ProfileFlaw::Hours(hours).unless(hours > 0.0 && hours <= 876_600.0)
}

fn is_day(day: &[f64]) -> bool {
    let are_rates = day.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
    day.is_empty() || (day.len() == DAY && are_rates && day.iter().sum::<f64>() > 0.0)
}

impl Flow {
    /// Requests, or runs or bursts of them, that begin per second in each hour of a day.
    pub(super) fn rates(&self) -> [f64; DAY] {
        let mean = self.day.iter().sum::<f64>() / DAY as f64;
        let at_once = self.places.run() * self.burst.map_or(1, |burst| burst.requests);
        let rate = self.rate / f64::from(at_once);
        std::array::from_fn(|hour| self.day.get(hour).map_or(rate, |relative| rate * relative / mean))
    }
}
