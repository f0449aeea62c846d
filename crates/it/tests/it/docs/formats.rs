//! The table of the formats of block traces.

use esker_testkit::generated::Block;
use esker_trace_block::Format;

use super::table;

pub fn block() -> Block {
    let rows = Format::ALL.into_iter().map(|format| {
        let about = format.about();
        let read_only = if format.is_written() { "" } else { ", only read" };
        let texts = [about.form, about.times, about.operations, about.volumes, about.addresses].map(str::to_string);
        let [form, times, operations, volumes, addresses] = texts;
        [format!("`{format}`"), format!("{}{read_only}", about.file), form, times, operations, volumes, addresses]
    });
    let head = ["name", "file", "form", "time unit", "operations", "volumes", "address unit"];
    Block {
        page: "docs/reference/formats/block-traces.md".into(),
        name: "formats of block traces".into(),
        text: table(head, rows),
    }
}
