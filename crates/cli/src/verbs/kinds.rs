//! `esker kinds`: what devices and layers there are, their parameters, from their manifests, and the devices of the
//! catalogue that a model can be.

use esker_block::kind::{Arity, Durability, Kind, Param, ParamType, Role, Worlds};
use esker_dev_sim::catalogue::{self, Entry};
use esker_stack::text::check::advice;
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::{Terminal, indented, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Kinds>(About {
    words: &["kinds"],
    summary: "List kinds of devices and layers, or the parameters of one",
    details: "Without a name: every kind with one sentence. With a name: what the kind stands on, what it does to \
              durability, and its parameters. For a model of a device it also lists the profiles: the products \
              whose numbers it can take, with their capacity and price.",
    examples: &[
        Example { line: "esker kinds", does: "lists all kinds" },
        Example { line: "esker kinds memory", does: "tells all about one" },
        Example { line: "esker kinds ssd-model", does: "lists the drives that the model can be" },
    ],
});

#[derive(clap::Args)]
struct Kinds {
    /// Name of a kind
    #[arg(value_name = "KIND")]
    name: Option<String>,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("unknown kind \"{name}\"\ntip: {advice}")]
struct UnknownKind {
    name: String,
    advice: String,
}

impl UnknownKind {
    fn of(name: &str) -> UnknownKind {
        let kinds = esker_kinds::ALL.iter().map(|kind| kind.name);
        UnknownKind { name: name.to_string(), advice: advice(name, "the kinds are", kinds) }
    }
}

impl Run for Kinds {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let all = esker_kinds::ALL;
        let Some(name) = self.name else {
            return if self.json {
                terminal.say(&all.iter().map(|kind| json_of(kind)).collect::<serde_json::Value>().to_string())
            } else {
                let rows = all.iter().map(|kind| [kind.name.to_string(), kind.summary.to_string()]);
                terminal.say(&columns(&rows.collect::<Vec<_>>()))
            };
        };
        let kind = all.iter().find(|kind| kind.name == name).ok_or_else(|| UnknownKind::of(&name))?;
        terminal.say(&if self.json { json_of(kind).to_string() } else { page(kind) })
    }
}

/// A kind for people.
fn page(kind: &Kind) -> String {
    let mut rows = facts(kind).map(|(name, value)| [name.to_string(), value]).to_vec();
    if kind.params.is_empty() {
        rows.push(["parameters".to_string(), "none".to_string()]);
    }
    let mut text = format!("{}: {}\n\n{}", kind.name, kind.summary, columns(&rows));
    if !kind.params.is_empty() {
        let params = kind.params.iter().map(|p| [p.name.to_string(), type_shown(p), given(p), p.doc.to_string()]);
        text += &format!("\n\nparameters\n{}", columns(&params.collect::<Vec<_>>()));
    }
    let profiles = catalogue::profiles(kind.name);
    if !profiles.is_empty() {
        let row = |e: &Entry| [e.name.clone(), e.what.clone(), e.capacity_text(), e.price_text(), e.notes(kind)];
        let rows = profiles.iter().map(row);
        text += &format!("\n\nprofiles\n{}\n\n{PRICES}", columns(&rows.collect::<Vec<_>>()));
    }
    text
}

/// What the prices of a list of profiles are.
const PRICES: &str = "A price is of the year beside it, in which the device was sold. The source of each number stands in\n\
                      crates/dev-sim/catalogue.";

/// The type in a table of parameters. Profiles have a table of their own.
fn type_shown(param: &Param) -> String {
    if param.name == catalogue::PROFILE { "a profile, see below".to_string() } else { type_text(param.ty) }
}

fn facts(kind: &Kind) -> [(&'static str, String); 5] {
    let on = match kind.lowers {
        Arity::None => "nothing: it ends a chain".to_string(),
        Arity::One => "one device".to_string(),
        Arity::AtLeast(n) => format!("{n} devices or more"),
    };
    let role = match kind.role {
        Role::Accessor => "passes everything unchanged",
        Role::Modifier => "changes requests, answers or data",
    };
    let durability = match kind.durability {
        Durability::Keeps => "as below",
        Durability::Strengthens => "earlier than below",
        Durability::Weakens => "later than below, or never",
    };
    let worlds = match kind.worlds {
        Worlds::Both => "real and virtual time",
        Worlds::RealOnly => "real time only",
    };
    let live = if kind.transparent { "can be inserted, removed and moved while serving" } else { "no" };
    [
        ("stands on", on),
        ("role", if kind.lowers == Arity::None { "a device".to_string() } else { role.to_string() }),
        ("durable", durability.to_string()),
        ("worlds", worlds.to_string()),
        ("live", live.to_string()),
    ]
}

fn type_text(ty: ParamType) -> String {
    match ty {
        ParamType::Size => "size".to_string(),
        ParamType::Span => "time".to_string(),
        ParamType::Count => "whole number".to_string(),
        ParamType::Ratio => "0 to 1".to_string(),
        ParamType::Number => "number".to_string(),
        ParamType::Flag => "true, false".to_string(),
        ParamType::Choice(words) => words.join(", "),
        ParamType::Text => "text".to_string(),
        ParamType::Secret => "secret".to_string(),
    }
}

/// Its default, or whether it must be given.
fn given(param: &Param) -> String {
    match (param.default, param.optional) {
        (Some(""), _) => "\"\"".to_string(),
        (Some(default), _) => default.to_string(),
        (None, true) => "optional".to_string(),
        (None, false) => "required".to_string(),
    }
}

fn json_of(kind: &Kind) -> serde_json::Value {
    let param = |p: &Param| json!({ "name": p.name, "type": type_text(p.ty), "default": p.default, "optional": p.optional, "doc": p.doc });
    let facts = facts(kind).map(|(name, value)| (name.replace(' ', "_"), value.into()));
    let mut object = serde_json::Map::from_iter(facts);
    object.insert("name".to_string(), kind.name.into());
    object.insert("summary".to_string(), kind.summary.into());
    object.insert("parameters".to_string(), kind.params.iter().map(param).collect());
    let profiles = catalogue::profiles(kind.name);
    if !profiles.is_empty() {
        object.insert("profiles".to_string(), profiles.iter().map(|entry| json_of_profile(kind, entry)).collect());
    }
    object.into()
}

fn json_of_profile(kind: &Kind, entry: &Entry) -> serde_json::Value {
    json!({
        "name": entry.name, "kind": entry.kind, "product": entry.what, "note": entry.note, "year": entry.year,
        "capacity_bytes": entry.capacity(), "price_usd": entry.price_usd(),
        "price_is_estimated": entry.is_estimated("price_usd"), "power_is_estimated": entry.power_is_estimated(),
        "default": entry.is_default(kind),
    })
}

/// Rows with their columns below each other, indented.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    indented(&table(&[], &rows))
}
