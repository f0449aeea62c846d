//! What can be bought: devices of the catalogue of models, or those of a file with prices.

use esker_base::units::{parse_span, size_human};
use esker_block::Kind;
use esker_dev_sim::catalogue::{self, Entry};
use esker_dev_sim::{disk_model, nvm_model, ssd_model};
use esker_stack::text::check::advice;
use serde::{Deserialize, Serialize};

/// Kinds of models of whole devices.
const KINDS: [&Kind; 3] = [&disk_model::KIND, &ssd_model::KIND, &nvm_model::KIND];
/// Devices of one type that can be bought unless a file says otherwise.
pub const COUNT_MAX: u32 = 16;

/// What a device may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfferRole {
    /// All of it.
    #[default]
    Any,
    /// The slow side of a cache or a tier, or a volume by itself.
    Home,
    /// The fast side of a cache or a tier.
    Fast,
}

/// A type of device that can be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its name in texts and reports.
    pub name: String,
    /// The kind that models it.
    pub kind: &'static str,
    /// Its entry in the catalogue of models.
    pub profile: String,
    /// The product.
    pub what: String,
    /// Price of one, US dollars.
    pub usd: f64,
    /// Bytes of one.
    pub bytes: u64,
    /// Watts at work.
    pub active_w: f64,
    /// Watts without work.
    pub idle_w: f64,
    /// What its platters do when it rests, if it has any.
    pub rest: Option<Rest>,
    /// How many can be bought.
    pub count_max: u32,
    /// What it may be used for.
    pub role: OfferRole,
}

/// How a disk rests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rest {
    /// Watts in standby.
    pub watts: f64,
    /// Time to spin up, nanoseconds.
    pub spin_up_ns: f64,
    /// Energy of a spin-up, joules.
    pub spin_up_j: f64,
}

impl Rest {
    fn of(entry: &Entry) -> Option<Rest> {
        let text = |param: &str| Some(entry.numbers.get(param)?.text.as_str());
        let number = |param: &str| text(param)?.parse::<f64>().ok();
        let spin_up_ns = parse_span(text("spin_up")?).ok()?.0 as f64;
        let spin_up_j = number("spin_up_w")? * spin_up_ns / 1e9;
        (spin_up_ns > 0.0).then_some(Rest { watts: number("standby_w")?, spin_up_ns, spin_up_j })
    }
}

/// What is wrong with a catalogue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum CatalogueError {
    /// It is no such text.
    #[error("{file}: {source}")]
    Text { file: String, source: toml::de::Error },
    /// Nothing is for sale.
    #[error("{0}: holds no device; add [[device]] with a name and usd")]
    Empty(String),
    /// No model has that profile.
    #[error("{file}: device \"{device}\": no model has the profile \"{profile}\"; {advice}")]
    Unknown { file: String, device: String, profile: String, advice: String },
    /// A price is none.
    #[error("{file}: device \"{device}\": a price of {usd} is none; give US dollars above 0")]
    Price { file: String, device: String, usd: f64 },
    /// A count is none.
    #[error("{file}: device \"{0}\": count_max is 0; leave the device out, or give a count above 0", file = .1)]
    Count(String, String),
    /// Two devices share a name.
    #[error("{file}: two devices are called \"{device}\"; give them different names")]
    Twice { file: String, device: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    device: Vec<OfferRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferRow {
    name: String,
    profile: Option<String>,
    usd: Option<f64>,
    count_max: Option<u32>,
    #[serde(default)]
    role: OfferRole,
}

impl Offer {
    fn of(entry: &Entry) -> Offer {
        let watts = |param: &str| entry.numbers.get(param).and_then(|number| number.text.parse().ok()).unwrap_or(0.0);
        Offer {
            name: entry.name.clone(),
            kind: KINDS.iter().find(|kind| kind.name == entry.kind).expect("an entry of these kinds").name,
            profile: entry.name.clone(),
            what: entry.what.clone(),
            usd: entry.price_usd(),
            bytes: entry.capacity(),
            active_w: watts("active_w"),
            idle_w: watts("idle_w"),
            rest: Rest::of(entry),
            count_max: COUNT_MAX,
            role: OfferRole::Any,
        }
    }

    /// Whether the price is that of the catalogue.
    pub fn is_list_price(&self) -> bool {
        catalogue::find(self.kind, &self.profile).is_ok_and(|entry| entry.price_usd() == self.usd)
    }

    /// Name, size and price, for people.
    pub fn text(&self) -> String {
        format!("{} ({}, ${})", self.name, size_human(self.bytes), self.usd)
    }
}

fn entries() -> Vec<Entry> {
    KINDS.iter().flat_map(|kind| catalogue::profiles(kind.name)).collect()
}

/// All devices that are modelled, at their prices of the catalogue.
pub fn builtin() -> Vec<Offer> {
    entries().iter().map(Offer::of).collect()
}

/// The devices that the text of a catalogue names. `file` is its name in messages.
///
/// # Errors
/// [`CatalogueError`].
pub fn parse(file: &str, text: &str) -> Result<Vec<Offer>, CatalogueError> {
    let named = || file.to_string();
    let read: File = toml::from_str(text).map_err(|source| CatalogueError::Text { file: named(), source })?;
    let (entries, mut offers) = (entries(), Vec::<Offer>::new());
    for row in read.device {
        let profile = row.profile.unwrap_or_else(|| row.name.clone());
        let Some(entry) = entries.iter().find(|entry| entry.name == profile) else {
            let advice = advice(&profile, "models are", entries.iter().map(|entry| entry.name.as_str()));
            return Err(CatalogueError::Unknown { file: named(), device: row.name, profile, advice });
        };
        let (usd, count_max) = (row.usd.unwrap_or(entry.price_usd()), row.count_max.unwrap_or(COUNT_MAX));
        if !(usd.is_finite() && usd > 0.0) {
            return Err(CatalogueError::Price { file: named(), device: row.name, usd });
        }
        if count_max == 0 {
            return Err(CatalogueError::Count(row.name, named()));
        }
        if offers.iter().any(|offer| offer.name == row.name) {
            return Err(CatalogueError::Twice { file: named(), device: row.name });
        }
        offers.push(Offer { name: row.name, usd, count_max, role: row.role, ..Offer::of(entry) });
    }
    if offers.is_empty() { Err(CatalogueError::Empty(named())) } else { Ok(offers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_name_price_count_and_role_of_a_model() {
        let text = "[[device]]\nname = \"big\"\nprofile = \"hdd-7200-2022\"\nusd = 250.5\ncount_max = 3\nrole = \"home\"\n\
                    [[device]]\nname = \"ssd-sata-2021\"\n";
        let offers = parse("c.toml", text).unwrap();
        let all = builtin();
        let disk = all.iter().find(|offer| offer.name == "hdd-7200-2022").unwrap();
        let big = Offer { name: "big".to_string(), usd: 250.5, count_max: 3, role: OfferRole::Home, ..disk.clone() };
        let flash = all.iter().find(|offer| offer.name == "ssd-sata-2021").unwrap();
        assert_eq!(offers, [big, flash.clone()]);
        assert!(disk.active_w > disk.idle_w && disk.idle_w > 0.0 && disk.bytes > 19_000_000_000_000);
        let rest = disk.rest.unwrap();
        assert!(rest.watts < disk.idle_w && rest.spin_up_ns > 1e9 && rest.spin_up_j > 10.0 && flash.rest.is_none());
    }

    #[test]
    fn what_cannot_be_bought_is_refused_with_what_to_do() {
        let refused = |text: &str| parse("c.toml", text).unwrap_err().to_string();
        assert!(refused("").contains("holds no device; add [[device]]"));
        let unknown = refused("[[device]]\nname = \"hdd-7200-2012\"");
        assert!(unknown.contains("did you mean \"hdd-7200-20"), "{unknown}");
        assert!(refused("[[device]]\nname = \"ssd-sata-2021\"\nusd = 0").contains("a price of 0 is none"));
        assert!(refused("[[device]]\nname = \"ssd-sata-2021\"\ncount_max = 0").contains("count_max is 0"));
        assert!(refused("[[device]]\nname = \"ssd-sata-2021\"\nusd_each = 3").contains("usd_each"));
        let twice = "[[device]]\nname = \"a\"\nprofile = \"ssd-sata-2021\"\n";
        assert!(refused(&format!("{twice}{twice}")).contains("two devices are called \"a\""));
    }
}
