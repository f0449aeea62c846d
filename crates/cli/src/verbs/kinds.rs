//! `esker kinds`: what devices and layers there are, and their parameters, from their manifests.

use esker_block::kind::{Arity, Durability, Kind, Param, ParamType, Role, Worlds};
use serde_json::json;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Kinds>(About {
    words: &["kinds"],
    summary: "List kinds of devices and layers, or the parameters of one",
    details: "Without a name: every kind with one sentence. With a name: what the kind is on, what it does to \
              durability, and its parameters.",
    examples: &[
        Example { line: "esker kinds", does: "lists all kinds" },
        Example { line: "esker kinds memory", does: "tells all about one" },
        Example { line: "esker kinds memory --markdown", does: "prints the parameter table of its page" },
    ],
});

#[derive(clap::Args)]
struct Kinds {
    /// Name of a kind
    #[arg(value_name = "KIND")]
    name: Option<String>,
    /// The parameter table as Markdown
    #[arg(long, requires = "name", conflicts_with = "json")]
    markdown: bool,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("unknown kind \"{0}\"; run `esker kinds` for the list")]
struct UnknownKind(String);

impl Run for Kinds {
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
        let kind = all.iter().find(|kind| kind.name == name).ok_or(UnknownKind(name))?;
        terminal.say(&match (self.json, self.markdown) {
            (true, _) => json_of(kind).to_string(),
            (_, true) => markdown(kind),
            _ => page(kind),
        })
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
        let params = kind.params.iter().map(|p| [p.name.to_string(), type_text(p.ty), given(p), p.doc.to_string()]);
        text += &format!("\n\nparameters\n{}", columns(&params.collect::<Vec<_>>()));
    }
    text
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

/// The parameter table of a kind's page.
fn markdown(kind: &Kind) -> String {
    let mut text = "| parameter | type | default | meaning |\n|---|---|---|---|".to_string();
    for p in kind.params {
        let default = p.default.map_or_else(|| given(p), |default| format!("`{default}`"));
        text += &format!("\n| `{}` | {} | {default} | {} |", p.name, type_text(p.ty), p.doc.replace('|', "\\|"));
    }
    text
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
    object.into()
}

/// Rows with their columns below each other, two blanks apart, indented.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_string()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
