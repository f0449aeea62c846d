//! The documents say what the code does.

use std::fs;
use std::path::Path;

use esker_block::kind::{Kind, Param};

fn page(kind: &Kind) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/layers").join(format!("{}.md", kind.name));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; write the page", path.display()))
}

/// Rows of the first table with a parameter column: name and default without back quotes. A row may name several; then
/// its words say together what holds without them.
fn rows(page: &str) -> Vec<(String, Option<String>)> {
    let bare = |text: &str| text.trim_matches(['|', ' ', '`']).to_string();
    let table = page.lines().skip_while(|line| !line.starts_with("| parameter |")).skip(2);
    let mut rows = Vec::new();
    for line in table.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let default = cells.get(2).filter(|_| !cells[0].contains(',')).map(|cell| bare(cell));
        rows.extend(cells[0].split(',').map(|name| (bare(name), default.clone())));
    }
    rows
}

fn check_row(kind: &Kind, param: &Param, (name, default): &(String, Option<String>)) {
    assert_eq!(name, param.name, "{}: the page's parameters are not the manifest's, in its order", kind.name);
    if let (Some(told), Some(text)) = (default, param.default.filter(|text| !text.is_empty())) {
        assert_eq!(told, text, "{}: the page's default of {name}", kind.name);
    }
}

#[test]
fn each_kind_has_its_page_with_the_parameters_of_its_manifest() {
    for kind in esker_kinds::ALL {
        let page = page(kind);
        assert!(page.starts_with(&format!("# {}\n", kind.name)), "{}: the title is the kind's name", kind.name);
        let rows = rows(&page);
        assert_eq!(rows.len(), kind.params.len(), "{}: rows of the page: {rows:?}", kind.name);
        kind.params.iter().zip(&rows).for_each(|(param, row)| check_row(kind, param, row));
    }
}
