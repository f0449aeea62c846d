//! The documents say what the code does.

use std::fs;
use std::path::{Path, PathBuf};

use esker_block::kind::{Kind, Param};
use esker_stack::Spec;

fn page(kind: &Kind) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kinds").join(format!("{}.md", kind.name));
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

/// Markdown files of the project's documents.
fn documents(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            out.push(path);
        }
    }
}

/// The blocks of TOML in a page, each with its first line.
fn toml_blocks(page: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut inside) = (Vec::new(), false);
    for (at, line) in page.lines().enumerate() {
        match (inside, line.trim()) {
            (false, "```toml") => {
                inside = true;
                blocks.push((at + 2, String::new()));
            }
            (true, "```") => inside = false,
            (true, _) => blocks.last_mut().expect("one was begun").1 += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// What `esker stack check` does, but for keys and media, which only their machine has.
fn check_stack(text: &str) -> Result<(), String> {
    let spec = Spec::parse("page", text).map_err(|error| error.to_string())?;
    spec.check(esker_kinds::ALL).map(drop).map_err(|error| error.to_string())
}

/// Tables that a stack has, at the beginning of a line. Other blocks of TOML configure something else.
fn is_stack(text: &str) -> bool {
    let begins =
        |line: &str| ["[device.", "[[device", "[export.", "[[export"].iter().any(|start| line.starts_with(start));
    text.lines().any(begins)
}

#[test]
fn stacks_in_the_documents_pass_the_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    documents(&root.join("docs"), &mut pages);
    let mut checked = 0;
    for page in pages {
        for (line, text) in toml_blocks(&fs::read_to_string(&page).unwrap()) {
            if is_stack(&text) {
                check_stack(&text).unwrap_or_else(|error| panic!("{}:{line}: {error}\n{text}", page.display()));
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "only {checked} blocks of TOML describe a stack");
    assert!(check_stack("[device.d]\nkind = \"memory\"\nsize = \"1GiB\"\nsized = 1\n").is_err(), "a wrong key is told");
}
