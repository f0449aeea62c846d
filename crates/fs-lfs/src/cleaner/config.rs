//! What a cleaner works by, and the file that says so.
//!
//! A line is a key and a value; `#` begins a comment. The keys are those of `nilfs_cleanerd.conf`, and ours:
//! `late_abort` and `avoid_recent`. Each has a value that is used where the file is silent.

use esker_base::Nanos;

use crate::control::{LfsTotals, VICTIMS_MAX};

/// What a cleaner works by.
#[derive(Clone, PartialEq, Debug)]
pub struct CleanerConfig {
    /// How long a checkpoint is safe from the cleaner.
    pub protection_period: Nanos,
    /// With fewer clean segments, beside those that are kept back, it begins.
    pub min_clean: Share,
    /// With more it ends.
    pub max_clean: Share,
    /// How often it looks at the thresholds.
    pub check_interval: Nanos,
    /// How long it waits when there was no room for its copies.
    pub retry_interval: Nanos,
    /// Name of the policy, one of [`esker_cleaning::policy::NAMED`].
    pub policy: String,
    /// Limits above the lower threshold.
    pub relaxed: StepLimits,
    /// Limits below it.
    pub pressed: StepLimits,
    /// How a step is left that gives too little back.
    pub late_abort: LateAbort,
    /// Which policies avoid segments that lost blocks in the protected time.
    pub avoid_recent: Recent,
}

/// Limits of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepLimits {
    /// Segments that it takes.
    pub segments: usize,
    /// Pause behind it.
    pub interval: Nanos,
    /// What of a segment cleaning must give back.
    pub min_reclaimable: Share,
}

/// A number of segments or blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Share {
    /// Of all.
    Percent(f64),
    /// As many.
    Count(u64),
    /// As many as have so many bytes.
    Bytes(u64),
}

/// How a step is left that gives too little back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LateAbort {
    /// It is made.
    Off,
    /// All victims are left if together they give too little.
    Batch,
    /// Each victim is left that gives too little.
    Segment,
}

/// Which policies avoid segments that lost blocks in the protected time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recent {
    /// None.
    Off,
    /// Those that look at age: cost-benefit, cost-benefit-2u and adaptive.
    ByAge,
    /// All.
    All,
}

/// A line that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct CleanerConfigError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub what: String,
}

impl CleanerConfig {
    /// What is used where a file is silent.
    pub fn usual() -> CleanerConfig {
        let limits = |segments, seconds, percent| StepLimits {
            segments,
            interval: Nanos::secs(seconds),
            min_reclaimable: Share::Percent(percent),
        };
        CleanerConfig {
            protection_period: Nanos::ZERO,
            min_clean: Share::Percent(10.0),
            max_clean: Share::Percent(20.0),
            check_interval: Nanos::secs(10),
            retry_interval: Nanos::secs(60),
            policy: "adaptive".to_string(),
            relaxed: limits(2, 5, 10.0),
            pressed: limits(4, 1, 1.0),
            late_abort: LateAbort::Segment,
            avoid_recent: Recent::ByAge,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The first line that cannot be used.
    pub fn parse(text: &str) -> Result<CleanerConfig, CleanerConfigError> {
        let (mut config, mut seen) = (CleanerConfig::usual(), std::collections::BTreeMap::new());
        let mut last = 0;
        for (at, line) in text.lines().enumerate() {
            let fail = |what| CleanerConfigError { line: at + 1, what };
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(key) = words.next() else { continue };
            let value = match (words.next(), words.next()) {
                (None, _) => return Err(fail(format!("`{key}` has no value; write `{key} VALUE`"))),
                (Some(value), None) => value,
                (Some(_), Some(more)) => {
                    return Err(fail(format!("`{more}` is one word too many; write `{key} VALUE`")));
                }
            };
            if let Some(before) = seen.insert(key, at + 1) {
                return Err(fail(format!("`{key}` stands in line {before} already; keep one of them")));
            }
            config.set(key, value).map_err(fail)?;
            last = at + 1;
        }
        if let (Share::Percent(min), Share::Percent(max)) = (config.min_clean, config.max_clean)
            && min > max
        {
            let what = format!("min_clean_segments ({min} %) lies above max_clean_segments ({max} %)");
            return Err(CleanerConfigError { line: last, what });
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "protection_period" => self.protection_period = seconds(value)?,
            "min_clean_segments" => self.min_clean = share(value)?,
            "max_clean_segments" => self.max_clean = share(value)?,
            "clean_check_interval" => self.check_interval = seconds(value)?,
            "retry_interval" => self.retry_interval = seconds(value)?,
            "selection_policy" => self.policy = policy(value)?,
            "nsegments_per_clean" => self.relaxed.segments = victims(value)?,
            "mc_nsegments_per_clean" => self.pressed.segments = victims(value)?,
            "cleaning_interval" => self.relaxed.interval = seconds(value)?,
            "mc_cleaning_interval" => self.pressed.interval = seconds(value)?,
            "min_reclaimable_blocks" => self.relaxed.min_reclaimable = share(value)?,
            "mc_min_reclaimable_blocks" => self.pressed.min_reclaimable = share(value)?,
            "use_set_suinfo" | "set_suinfo" => {
                let is_on = one_of(value, &[("off", false), ("no", false), ("on", true), ("yes", true)])?;
                self.late_abort = match (is_on, self.late_abort) {
                    (false, _) => LateAbort::Off,
                    (true, LateAbort::Off) => LateAbort::Segment,
                    (true, other) => other,
                };
            }
            "late_abort" => {
                let words = [("off", LateAbort::Off), ("batch", LateAbort::Batch), ("segment", LateAbort::Segment)];
                self.late_abort = one_of(value, &words)?;
            }
            "avoid_recent" => {
                self.avoid_recent =
                    one_of(value, &[("off", Recent::Off), ("by-age", Recent::ByAge), ("all", Recent::All)])?;
            }
            // Lines of the program that these files were made for, without a meaning here.
            "log_priority" | "use_mmap" => {}
            _ => return Err(format!("there is no `{key}`; keys: {}", KEYS.join(", "))),
        }
        Ok(())
    }

    /// The protection period in whole seconds, rounded up.
    pub fn protection_seconds(&self) -> u64 {
        self.protection_period.0.div_ceil(Nanos::secs(1).0)
    }
}

/// All keys with a meaning.
pub const KEYS: &[&str] = &[
    "protection_period",
    "min_clean_segments",
    "max_clean_segments",
    "clean_check_interval",
    "retry_interval",
    "selection_policy",
    "nsegments_per_clean",
    "mc_nsegments_per_clean",
    "cleaning_interval",
    "mc_cleaning_interval",
    "min_reclaimable_blocks",
    "mc_min_reclaimable_blocks",
    "use_set_suinfo",
    "late_abort",
    "avoid_recent",
];

impl Share {
    /// Of all segments.
    pub fn segments(self, totals: &LfsTotals) -> u64 {
        self.of(totals.segments, totals.segment_blocks.saturating_mul(totals.block_bytes))
    }

    /// Of the blocks of a segment.
    pub fn blocks(self, totals: &LfsTotals) -> u64 {
        self.of(totals.segment_blocks, totals.block_bytes)
    }

    fn of(self, all: u64, unit_bytes: u64) -> u64 {
        match self {
            Share::Percent(percent) => (all as f64 * percent / 100.0).ceil() as u64,
            Share::Count(count) => count,
            Share::Bytes(bytes) => bytes.div_ceil(unit_bytes.max(1)),
        }
    }
}

/// Longest time that a file can name: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

fn seconds(value: &str) -> Result<Nanos, String> {
    match value.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(Nanos((seconds * 1e9).round() as u64)),
        _ => Err(format!("`{value}` is no time; write seconds, such as 10 or 0.5, at most {SECONDS_MAX}")),
    }
}

fn share(value: &str) -> Result<Share, String> {
    let wrong = || format!("`{value}` is no amount; write 10%, a number, or a size such as 64M");
    if let Some(percent) = value.strip_suffix('%') {
        let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        return percent.map(Share::Percent).ok_or_else(wrong);
    }
    if let Ok(count) = value.parse() {
        return Ok(Share::Count(count));
    }
    esker_base::units::parse_size(value).map(Share::Bytes).map_err(|_| wrong())
}

fn policy(value: &str) -> Result<String, String> {
    let known = esker_cleaning::policy::NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match esker_cleaning::policy::named(value) {
        Some(_) => Ok(value.to_string()),
        None => Err(format!("there is no policy `{value}`; policies: {known}")),
    }
}

fn victims(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(count @ 1..=VICTIMS_MAX) => Ok(count),
        _ => Err(format!("`{value}` is no number of segments; write 1 to {VICTIMS_MAX}")),
    }
}

fn one_of<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| format!("`{value}` is none of {}", known()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_sets_what_it_names_and_leaves_the_rest() {
        let text = "# a comment\nprotection_period 0.5\nmin_clean_segments 5% # less\nmax_clean_segments\t12\n\
                    selection_policy cost-benefit-2u\nmc_nsegments_per_clean 32\nmin_reclaimable_blocks 64KiB\n\n\
                    log_priority info\nlate_abort batch\navoid_recent all\n";
        let config = CleanerConfig::parse(text).unwrap();
        let usual = CleanerConfig::usual();
        let relaxed = StepLimits { min_reclaimable: Share::Bytes(64 << 10), ..usual.relaxed };
        let expected = CleanerConfig {
            protection_period: Nanos::millis(500),
            min_clean: Share::Percent(5.0),
            max_clean: Share::Count(12),
            policy: "cost-benefit-2u".to_string(),
            relaxed,
            pressed: StepLimits { segments: 32, ..usual.pressed },
            late_abort: LateAbort::Batch,
            avoid_recent: Recent::All,
            ..usual
        };
        assert_eq!(config, expected);
        assert_eq!(CleanerConfig::parse(""), Ok(CleanerConfig::usual()));
    }

    /// Item 32: a malformed line is refused with its number.
    #[test]
    fn a_malformed_line_is_told_with_its_number() {
        for (text, told) in [
            ("\nprotection_period", "line 2: `protection_period` has no value; write `protection_period VALUE`"),
            ("use_set_suinfo on off", "line 1: `off` is one word too many; write `use_set_suinfo VALUE`"),
            ("selection_policy best", "line 1: there is no policy `best`; policies: timestamp, greedy"),
            ("\n\nmin_clean_segment 10%", "line 3: there is no `min_clean_segment`; keys: protection_period"),
            ("cleaning_interval -1", "line 1: `-1` is no time; write seconds"),
            ("cleaning_interval nan", "line 1: `nan` is no time"),
            ("max_clean_segments 101%", "line 1: `101%` is no amount; write 10%"),
            ("nsegments_per_clean 33", "line 1: `33` is no number of segments; write 1 to 32"),
            ("late_abort never", "line 1: `never` is none of off, batch, segment"),
            ("retry_interval 1\nretry_interval 2", "line 2: `retry_interval` stands in line 1 already"),
            ("min_clean_segments 30%\n", "line 1: min_clean_segments (30 %) lies above max_clean_segments (20 %)"),
        ] {
            let error = CleanerConfig::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{text:?}: {error}");
        }
    }

    #[test]
    fn every_key_that_is_named_is_known() {
        for key in KEYS {
            let error = CleanerConfig::parse(&format!("{key} ?")).unwrap_err().what;
            assert!(!error.contains("there is no `"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fall(lines in prop::collection::vec(("[a-z_]{0,24}|mc_cleaning_interval", "\\PC{0,12}"), 0..6)) {
            let text: String = lines.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
            if let Err(error) = CleanerConfig::parse(&text) {
                prop_assert!(error.line <= lines.len().max(text.lines().count()));
            }
        }
    }
}
