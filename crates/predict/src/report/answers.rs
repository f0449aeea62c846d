//! What a reader of a comparison asks first: what to buy, how far it reaches, what it costs, and how long it lasts.

use std::collections::BTreeMap;

use esker_base::Nanos;

use crate::outcome::{CandidateRun, Comparison, DeviceRun};

/// A word for a question, and its answer in a sentence.
pub(super) type Answer = (&'static str, String);

const DAY_S: f64 = 86_400.0;
const DAYS_OF_YEAR: f64 = 365.25;
/// No rating is extrapolated beyond so many years.
const YEARS_MAX: f64 = 100.0;
const TB: f64 = 1e12;
/// A kind whose product is one of several members.
const ARRAY: &str = "array-model";

/// What to buy or use, in one sentence.
pub(super) fn advice(comparison: &Comparison) -> String {
    let (run, target) = (comparison.winner(), Nanos(comparison.verdict.target_p99_ns));
    let named = named(run);
    if run.saturated.is_some() || run.failed > 0 {
        return format!("No candidate keeps up with this load; {named} comes nearest.");
    }
    if !comparison.verdict.met {
        return format!("No candidate has a p99 of at most {target}; {named} comes nearest, with {}.", run.all.p99());
    }
    match bought(run) {
        Some(what) => {
            let price = run.price_usd.map_or(String::new(), |usd| format!(", for ${usd:.0}"));
            format!("Buy {what}{price}{}.", put_together(run))
        }
        None => format!("Use {named}."),
    }
}

fn named(run: &CandidateRun) -> String {
    format!("{} ({})", run.name, run.what)
}

/// How several devices, or layers on one, are used.
fn put_together(run: &CandidateRun) -> String {
    let is_plain = run.devices.len() == 1 && run.layers.is_empty();
    if is_plain { String::new() } else { format!(", and use the stack \u{201c}{}\u{201d}", run.name) }
}

/// The devices by their products; `None` if a device is not in the catalogue.
fn bought(run: &CandidateRun) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for device in &run.devices {
        *counts.entry(product(device)?).or_default() += 1;
    }
    let told: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} \u{d7} {name}")).collect();
    (!told.is_empty()).then(|| told.join(" and "))
}

fn product(device: &DeviceRun) -> Option<&str> {
    let product = device.product.as_ref().filter(|_| device.kind != ARRAY)?;
    Some(&product.name)
}

/// The answers of the best candidate, in the order in which they are asked.
pub(super) fn of(comparison: &Comparison) -> Vec<Answer> {
    let run = comparison.winner();
    vec![
        ("p99", p99(comparison)),
        ("headroom", headroom(comparison)),
        ("price per TB", price_per_tb(run)),
        ("lifetime writes", lifetime(run).join(" ")),
    ]
}

fn p99(comparison: &Comparison) -> String {
    let target = Nanos(comparison.verdict.target_p99_ns);
    format!("{}; the target is {target}.", comparison.winner().all.p99())
}

fn headroom(comparison: &Comparison) -> String {
    let target = Nanos(comparison.verdict.target_p99_ns);
    match comparison.winner().headroom {
        Some(headroom) => format!("It {} within a p99 of {target}.", headroom.sentence()),
        None => "Not searched: the load waits for answers, or --no-headroom was given.".to_string(),
    }
}

fn price_per_tb(run: &CandidateRun) -> String {
    let unknown = run.devices.iter().find(|device| product(device).is_none());
    if let Some(device) = unknown {
        return format!("Not known: the catalogue lacks the capacity of {}.", device.name);
    }
    let Some(usd) = run.price_usd else { return "Not known: no device is a model with a price.".to_string() };
    let bytes: u64 = run.products().map(|product| product.capacity_bytes).sum();
    let capacity = bytes as f64 / TB;
    let years: Vec<u32> = run.products().filter_map(|product| product.price_year).collect();
    let years = match (years.iter().min(), years.iter().max()) {
        (Some(first), Some(last)) if first == last => format!(", at prices of {first}"),
        (Some(first), Some(last)) => format!(", at prices of {first} to {last}"),
        _ => String::new(),
    };
    format!("${:.0}: ${usd:.0} for {capacity:.1} TB of devices{years}.", usd / capacity)
}

/// A sentence for each product: how long its rating of writes lasts at this load.
fn lifetime(run: &CandidateRun) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for device in &run.devices {
        let sentence = device_lifetime(run, device);
        if !told.contains(&sentence) {
            told.push(sentence);
        }
    }
    if told.is_empty() { vec!["Not known: no device is a model.".to_string()] } else { told }
}

fn device_lifetime(run: &CandidateRun, device: &DeviceRun) -> String {
    let Some(name) = product(device) else {
        return format!("{}: not known, it is no single product of the catalogue.", device.name);
    };
    let Some(rated) = device.product.as_ref().and_then(|product| product.rated_writes_bytes) else {
        return format!("{name}: the catalogue has no rating of its writes.");
    };
    let rated_tb = rated as f64 / TB;
    let days = run.elapsed_ns as f64 / 1e9 / DAY_S;
    let daily = device.written_bytes as f64 / days;
    let years = rated as f64 / daily / DAYS_OF_YEAR;
    let lasts = match years {
        _ if device.written_bytes == 0 || days == 0.0 => "this load writes nothing to its medium".to_string(),
        years if years > YEARS_MAX => format!("more than {YEARS_MAX:.0} years at {} a day", amount(daily)),
        years => format!("{years:.1} years at {} a day", amount(daily)),
    };
    format!("{name}: rated for {rated_tb:.0} TB; {lasts}.")
}

/// Bytes in the units in which makers rate writes.
fn amount(bytes: f64) -> String {
    let (unit, factor) = if bytes >= TB { ("TB", TB) } else { ("GB", 1e9) };
    format!("{:.1} {unit}", bytes / factor)
}
