//! Blocks of the pages of kinds: what their manifests say.

use esker_block::kind::{Kind, Param, ParamType};
use esker_block::{OrderInfo, StatInfo};
use esker_dev_sim::catalogue::{self, PROFILE};
use esker_testkit::generated::Block;

use super::table;

const PAGES: &str = "docs/reference/kinds";

pub fn blocks() -> Vec<Block> {
    let rows = esker_kinds::ALL.iter().map(|kind| [format!("[{0}]({0}.md)", kind.name), kind.summary.to_string()]);
    let index = block("README", "kinds".to_string(), table(["kind", "purpose"], rows));
    std::iter::once(index).chain(esker_kinds::ALL.iter().flat_map(|kind| blocks_of(kind))).collect()
}

fn block(page: &str, name: String, text: String) -> Block {
    Block { page: format!("{PAGES}/{page}.md"), name, text }
}

/// The blocks that are not empty.
fn blocks_of(kind: &Kind) -> Vec<Block> {
    let tables = [
        ("parameters", (!kind.params.is_empty()).then(|| parameters(kind.params))),
        ("profiles", (!catalogue::profiles(kind.name).is_empty()).then(|| profiles(kind))),
        ("statistics", (!kind.stats.is_empty()).then(|| statistics(kind.stats))),
        ("orders", (!kind.orders.is_empty()).then(|| orders(kind.orders))),
    ];
    let block =
        |(what, text): (&str, Option<String>)| Some(block(kind.name, format!("{what} of {}", kind.name), text?));
    tables.into_iter().filter_map(block).collect()
}

fn parameters(params: &[Param]) -> String {
    let row =
        |param: &Param| [format!("`{}`", param.name), type_text(param), default_text(param), param.doc.to_string()];
    table(["parameter", "type", "default", "meaning"], params.iter().map(row))
}

fn type_text(param: &Param) -> String {
    let word = match param.ty {
        ParamType::Choice(_) if param.name == PROFILE => "profile",
        ParamType::Choice(words) => return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        ParamType::Size => "size",
        ParamType::Span => "span",
        ParamType::Count => "count",
        ParamType::Ratio => "ratio",
        ParamType::Number => "number",
        ParamType::Flag => "flag",
        ParamType::Text => "text",
        ParamType::Secret => "secret",
    };
    word.to_string()
}

fn default_text(param: &Param) -> String {
    match param.default {
        Some(default) => format!("`{default}`"),
        None if param.optional => "optional".to_string(),
        None => "required".to_string(),
    }
}

fn profiles(kind: &Kind) -> String {
    let rows = catalogue::profiles(kind.name).into_iter().map(|entry| {
        let (capacity, price, notes) = (entry.capacity_text(), entry.price_text(), entry.notes(kind));
        [format!("`{}`", entry.name), entry.what, capacity, price, notes]
    });
    table(["profile", "product", "capacity", "price", "notes"], rows)
}

fn statistics(stats: &[StatInfo]) -> String {
    table(["statistic", "meaning"], stats.iter().map(|stat| [format!("`{}`", stat.name), stat.doc.to_string()]))
}

fn orders(orders: &[OrderInfo]) -> String {
    table(["order", "effect"], orders.iter().map(|order| [format!("`{order}`"), order.doc.to_string()]))
}
