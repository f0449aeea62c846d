//! The configuration of a manager of this machine, as a file in TOML.

use std::path::PathBuf;

use esker_base::Nanos;
use esker_base::renamed::{self, Scope};
use esker_base::units::{parse_size, parse_span};
use serde::Deserialize;

use crate::linux::select::Rule;
use crate::linux::{Settings, Source, merging};
use esker_hugepage::REGION_BYTES;
use esker_hugepage::fairness::Tau;
use esker_hugepage::merge_policy::SharingPolicy;
use esker_hugepage::policy::{Order, Policy};
use esker_hugepage::utilisation::Threshold;

/// The keys of the file. What is left out is as the source of the policy has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    state: Option<PathBuf>,
    faults: Option<Faults>,
    promote_percent: Option<i64>,
    demote_percent: Option<i64>,
    cooldown: Option<String>,
    fragmented_backoff: Option<String>,
    slow_promotion: Option<String>,
    backoff_factor: Option<u32>,
    order: Option<Order>,
    tau: Option<f64>,
    budget: Option<String>,
    quantum: Option<String>,
    quantum_sleep: Option<String>,
    skip_after_miss: Option<String>,
    greedy_below: Option<f64>,
    compact_at: Option<f64>,
    compact_interval: Option<String>,
    poll: Option<String>,
    poll_cpu_max: Option<f64>,
    cpu_max: Option<f64>,
    sharing: Option<SharingPolicy>,
    sharing_socket: Option<PathBuf>,
    ksm_pages_to_scan: Option<u64>,
    ksm_sleep: Option<String>,
    #[serde(default)]
    access: AccessFile,
    #[serde(default)]
    process: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    method: Option<Method>,
    period: Option<String>,
    interval: Option<String>,
    bits: Option<u32>,
    alpha: Option<f64>,
    clear_hot: Option<f64>,
    scan_max: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Faults {
    Leave,
    Base,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    Any,
    Damon,
    PageTables,
    None,
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The policy.
    pub policy: Policy,
    /// How this machine is watched.
    pub settings: Settings,
    /// The manager's own share of a CPU at most.
    pub cpu_max: f64,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no such file.
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    /// A key before the glossary.
    #[error("{old}: it is called `{new}` now")]
    Renamed {
        /// Its name before.
        old: String,
        /// Its name.
        new: &'static str,
    },
    /// A value makes no sense.
    #[error("{key}: {why}")]
    Value {
        /// Key.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A value does not fit to the others.
    #[error("{0}")]
    Together(&'static str),
}

/// Where preloaded libraries connect if nothing else is said; they look there too.
pub const SHARING_SOCKET: &str = "/run/esker/hugepage-share.sock";
/// Where the state is kept if nothing else is said.
pub const STATE: &str = "/run/esker/hugepage.json";
const POLL: Nanos = Nanos::millis(50);
const POLL_CPU_MAX: f64 = 0.02;
const CPU_MAX: f64 = 0.25;
/// What one scan of access bits clears: the kernel's monitor takes about 0.1 ms for each, so that this is 0.5 % of a
/// CPU.
const SCAN_REGIONS: u32 = 512;

impl Config {
    /// Reads and checks it.
    ///
    /// # Errors
    /// [`ConfigError`], with the key.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| renamed_in(text).unwrap_or(ConfigError::Text(error)))?;
        let policy = policy(&file)?;
        if let Some(fault) = policy.fault() {
            return Err(ConfigError::Together(fault));
        }
        let base_faults = file.faults == Some(Faults::Base);
        if policy.greedy_below.is_some() && !base_faults {
            return Err(ConfigError::Together("greedy_below needs faults = \"base\": it switches between the two"));
        }
        if file.process.is_empty() {
            return Err(ConfigError::Together(
                "no [[process]] is given: name the processes to manage by pid, name, cgroup or unit",
            ));
        }
        if file.process.iter().any(Rule::is_empty) {
            return Err(ConfigError::Together("a [[process]] needs a pid, name, cgroup or unit"));
        }
        if file.process.iter().any(|rule| rule.shares == Some(0)) {
            return Err(ConfigError::Together("shares of a [[process]] must be above 0"));
        }
        let merging = merging(&file)?;
        let settings = Settings {
            rules: file.process,
            promote: policy.promote,
            poll: span("poll", file.poll.as_deref())?.unwrap_or(POLL),
            poll_cpu_max: share("poll_cpu_max", file.poll_cpu_max)?.unwrap_or(POLL_CPU_MAX),
            base_faults,
            access: source(file.access.method),
            merging,
            access_interval: (file.access.method != Some(Method::None)).then_some(policy.scan_interval),
            state: file.state.unwrap_or_else(|| PathBuf::from(STATE)),
        };
        Ok(Config { policy, settings, cpu_max: share("cpu_max", file.cpu_max)?.unwrap_or(CPU_MAX) })
    }
}

/// The first key of `text` that had its name before the glossary.
fn renamed_in(text: &str) -> Option<ConfigError> {
    let file: toml::Table = text.parse().ok()?;
    let access = file.get("access").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
    let mut keys = file.keys().cloned().chain(access.map(|key| format!("access.{key}")));
    keys.find_map(|old| renamed::now(Scope::HugepageKey, &old).map(|new| ConfigError::Renamed { old, new }))
}

fn source(method: Option<Method>) -> Source {
    match method {
        None | Some(Method::Any | Method::None) => Source::Any,
        Some(Method::Damon) => Source::Damon,
        Some(Method::PageTables) => Source::PageTables,
    }
}

fn merging(file: &File) -> Result<Option<merging::Settings>, ConfigError> {
    let sleep = span("ksm_sleep", file.ksm_sleep.as_deref())?;
    let is_wanted = file.sharing.unwrap_or_default() != SharingPolicy::None;
    let rest = file.sharing_socket.is_some() || file.ksm_pages_to_scan.is_some() || sleep.is_some();
    if rest && !is_wanted {
        let why =
            "sharing_socket, ksm_pages_to_scan and ksm_sleep need sharing = \"all\", \"same_type\" or \"coordinated\"";
        return Err(ConfigError::Together(why));
    }
    let socket = file.sharing_socket.clone().unwrap_or_else(|| PathBuf::from(SHARING_SOCKET));
    Ok(is_wanted.then_some(merging::Settings { socket, pages: file.ksm_pages_to_scan, sleep }))
}

/// Compaction is off unless it is asked for: on Linux it has no bound, and promotions compact for themselves.
fn defaults() -> Policy {
    Policy { compact_interval: Nanos(0), scan_regions: SCAN_REGIONS, ..Policy::ingens() }
}

/// What the file says, over the usual policy.
fn policy(file: &File) -> Result<Policy, ConfigError> {
    let mut policy = defaults();
    let set = |place: &mut Nanos, value: Option<Nanos>| *place = value.unwrap_or(*place);
    if let Some(percent) = percent("promote_percent", file.promote_percent)? {
        policy.promote = percent;
        policy.demote = policy.demote.min(percent);
    }
    policy.demote = percent("demote_percent", file.demote_percent)?.unwrap_or(policy.demote);
    set(&mut policy.cooldown, span("cooldown", file.cooldown.as_deref())?);
    set(&mut policy.fragmented_backoff, span("fragmented_backoff", file.fragmented_backoff.as_deref())?);
    set(&mut policy.slow_promotion, span("slow_promotion", file.slow_promotion.as_deref())?);
    set(&mut policy.quantum_sleep, span("quantum_sleep", file.quantum_sleep.as_deref())?);
    set(&mut policy.skip_after_miss, span("skip_after_miss", file.skip_after_miss.as_deref())?);
    set(&mut policy.compact_interval, span("compact_interval", file.compact_interval.as_deref())?);
    set(&mut policy.scan_period, span("access.period", file.access.period.as_deref())?);
    set(&mut policy.scan_interval, span("access.interval", file.access.interval.as_deref())?);
    policy.backoff_factor = file.backoff_factor.unwrap_or(policy.backoff_factor);
    policy.order = file.order.unwrap_or(policy.order);
    policy.tau = tau(file.tau)?.unwrap_or(policy.tau);
    policy.budget = regions("budget", file.budget.as_deref())?;
    let quantum = regions("quantum", file.quantum.as_deref())?.unwrap_or(u64::from(policy.quantum_regions));
    policy.quantum_regions = u32::try_from(quantum).unwrap_or(u32::MAX);
    let most = regions("access.scan_max", file.access.scan_max.as_deref())?.unwrap_or(u64::from(policy.scan_regions));
    policy.scan_regions = u32::try_from(most).unwrap_or(u32::MAX);
    policy.sharing = file.sharing.unwrap_or_default();
    policy.greedy_below = file.greedy_below.or(policy.greedy_below);
    policy.compact_at = file.compact_at.unwrap_or(policy.compact_at);
    policy.tracking.bits = file.access.bits.unwrap_or(policy.tracking.bits);
    let permille = |value: f64| (value * 1000.0).round().clamp(0.0, 1e6) as u32;
    policy.tracking.alpha_permille = file.access.alpha.map_or(policy.tracking.alpha_permille, permille);
    policy.clear_hot_permille = file.access.clear_hot.map_or(policy.clear_hot_permille, permille);
    Ok(policy)
}

fn wrong(key: &'static str, why: impl Into<String>) -> ConfigError {
    ConfigError::Value { key, why: why.into() }
}

fn percent(key: &'static str, value: Option<i64>) -> Result<Option<Threshold>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let threshold = Threshold::percent(value);
    threshold.map(Some).ok_or_else(|| wrong(key, format!("{value} is not from 1 to 100")))
}

fn span(key: &'static str, text: Option<&str>) -> Result<Option<Nanos>, ConfigError> {
    let parse = |text| parse_span(text).map_err(|error| wrong(key, error.to_string()));
    text.map(parse).transpose()
}

fn regions(key: &'static str, text: Option<&str>) -> Result<Option<u64>, ConfigError> {
    let parse = |text| parse_size(text).map_err(|error| wrong(key, error.to_string()));
    Ok(text.map(parse).transpose()?.map(|bytes| bytes / REGION_BYTES))
}

fn share(key: &'static str, value: Option<f64>) -> Result<Option<f64>, ConfigError> {
    match value {
        Some(value) if !(value > 0.0 && value <= 1.0) => Err(wrong(key, format!("{value} is not above 0 and up to 1"))),
        value => Ok(value),
    }
}

fn tau(value: Option<f64>) -> Result<Option<Tau>, ConfigError> {
    let Some(value) = share("tau", value)? else { return Ok(None) };
    let tau = Tau::permille((value * 1000.0).round() as u32);
    tau.map(Some).ok_or_else(|| wrong("tau", format!("{value} is less than a thousandth")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "[[process]]\nname = \"redis-server\"\n";

    fn refused(text: &str) -> String {
        Config::parse(&format!("{text}\n{WHO}")).expect_err("it is wrong").to_string()
    }

    #[test]
    fn what_is_left_out_is_as_the_source_has_it() {
        let config = Config::parse(WHO).unwrap();
        assert_eq!(config.policy, defaults());
        assert_eq!((config.settings.poll, config.settings.base_faults), (POLL, false));
    }

    #[test]
    fn the_file_that_is_installed_says_the_defaults() {
        let installed = Config::parse(include_str!("../../../dist/hugepage.toml")).unwrap();
        let config = Config::parse(WHO).unwrap();
        assert_eq!(format!("{:?}", installed.policy), format!("{:?}", config.policy));
        let seen = |config: &Config| (config.settings.poll, config.settings.poll_cpu_max, config.cpu_max);
        assert_eq!(seen(&installed), seen(&config));
        assert_eq!(installed.settings.state, config.settings.state);
        assert_eq!(installed.settings.access_interval, config.settings.access_interval);
    }

    #[test]
    fn every_key_is_taken() {
        let text = "state = \"s.json\"\nfaults = \"base\"\npromote_percent = 70\ndemote_percent = 60\ncooldown = \"1s\"\nslow_promotion = \"7ms\"\nbackoff_factor = 3\n\
                    fragmented_backoff = \"9s\"\norder = \"round_robin\"\ntau = 0.5\nbudget = \"1GiB\"\nquantum = \"32MiB\"\nquantum_sleep = \"5s\"\n\
                    skip_after_miss = \"60s\"\ngreedy_below = 0.4\ncompact_at = 0.9\ncompact_interval = \"7s\"\npoll = \"20ms\"\n\
                    poll_cpu_max = 0.05\ncpu_max = 0.5\nsharing = \"coordinated\"\nsharing_socket = \"k.sock\"\n\
                    ksm_pages_to_scan = 1000\nksm_sleep = \"50ms\"\n[access]\nmethod = \"none\"\nperiod = \"4s\"\ninterval = \"1s\"\n\
                    bits = 16\nalpha = 0.3\nclear_hot = 0.5\nscan_max = \"20MiB\"\n[[process]]\nunit = \"redis\"\nshares = 7\n";
        let config = Config::parse(text).unwrap();
        let policy = config.policy;
        assert_eq!((policy.promote.pages(), policy.demote.pages(), policy.quantum_regions), (359, 308, 16));
        assert_eq!((policy.slow_promotion, policy.backoff_factor, policy.scan_regions), (Nanos::millis(7), 3, 10));
        assert_eq!(policy.fragmented_backoff, Nanos::secs(9));
        assert_eq!(
            (policy.budget, policy.tau, policy.order),
            (Some(512), Tau::permille(500).unwrap(), Order::RoundRobin)
        );
        assert_eq!((policy.tracking.bits, policy.tracking.alpha_permille, policy.clear_hot_permille), (16, 300, 500));
        assert_eq!((config.cpu_max, config.settings.access_interval), (0.5, None));
        assert_eq!(config.settings.rules[0].shares, Some(7));
        let merging =
            merging::Settings { socket: PathBuf::from("k.sock"), pages: Some(1000), sleep: Some(Nanos::millis(50)) };
        assert_eq!((policy.sharing, config.settings.merging), (SharingPolicy::Coordinated, Some(merging)));
    }

    #[test]
    fn an_old_key_is_told_its_new_name() {
        for (text, new) in [
            ("slow = \"5ms\"", "slow_promotion"),
            ("rest_times = 3", "backoff_factor"),
            ("no_contiguity_rest = \"9s\"", "fragmented_backoff"),
            ("exclusion = \"60s\"", "skip_after_miss"),
            ("poll_share = 0.05", "poll_cpu_max"),
            ("cpu_share = 0.5", "cpu_max"),
            ("[access]\nmost = \"1GiB\"", "access.scan_max"),
        ] {
            assert!(refused(text).ends_with(&format!(": it is called `{new}` now")), "{}", refused(text));
        }
        assert!(refused("order = \"in_turn\"").contains("`fair` or `round_robin`"));
    }

    #[test]
    fn three_policies_of_sharing_can_be_chosen_and_none() {
        for (word, policy) in [
            ("none", SharingPolicy::None),
            ("all", SharingPolicy::All),
            ("same_type", SharingPolicy::SameType),
            ("coordinated", SharingPolicy::Coordinated),
        ] {
            let config = Config::parse(&format!("sharing = \"{word}\"\n{WHO}")).unwrap();
            assert_eq!((config.policy.sharing, policy.word()), (policy, word));
            let socket = config.settings.merging.map(|merging| merging.socket);
            assert_eq!(socket, (word != "none").then(|| PathBuf::from(SHARING_SOCKET)));
        }
        assert!(refused("ksm_sleep = \"1s\"").contains("ksm_sleep"), "of no use without sharing");
        assert!(refused("sharing = \"some\"").contains("same_type"), "the words are told");
    }

    #[test]
    fn values_out_of_range_are_refused_with_their_key() {
        for text in ["promote_percent = 0", "promote_percent = 101", "promote_percent = -1", "promote_percent = \"x\""]
        {
            assert!(refused(text).contains("promote_percent"), "{}", refused(text));
        }
        let taken = |percent| Config::parse(&format!("promote_percent = {percent}\n{WHO}")).map(|it| it.policy.promote);
        assert!((1..=100).all(|percent| {
            taken(percent).is_ok_and(|threshold| threshold.pages() == (percent * 512_u32).div_ceil(100))
        }));
        for (text, key) in [
            ("tau = 0.0", "tau"),
            ("tau = 1.1", "tau"),
            ("demote_percent = 95", "demote_percent"),
            ("cooldown = \"soon\"", "cooldown"),
            ("cpu_max = 0.0", "cpu_max"),
            ("greedy_below = 0.5", "greedy_below"),
            ("prommote = 1", "prommote"),
            ("[access]\nbits = 0", "access.bits"),
            ("[access]\nalpha = 1.5", "access.alpha"),
            ("[access]\ninterval = \"20s\"", "access.interval"),
            ("[access]\nscan_max = \"1MiB\"", "access.scan_max"),
        ] {
            assert!(refused(text).contains(key), "{text}: {}", refused(text));
        }
    }

    #[test]
    fn somebody_must_be_managed() {
        assert!(Config::parse("").is_err_and(|error| error.to_string().contains("[[process]]")));
        assert!(Config::parse("[[process]]\nshares = 5").is_err());
        assert!(Config::parse("[[process]]\npid = 1\nshares = 0").is_err());
    }
}
