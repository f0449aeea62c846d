//! `cargo xtask complexity`: how much code an extension takes, by rules that are written down in `count`, for both
//! variants of each sample extension and for the primitives.

mod count;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use count::Counts;

/// What is printed for one variant or component.
struct Row {
    name: String,
    counts: Counts,
}

/// An extension in both variants.
struct Pair {
    name: String,
    vanilla: Counts,
    able: Counts,
}

/// Prints the tables; `--json` prints one object.
pub fn main(args: &[String]) -> Result<bool, String> {
    let as_json = match args {
        [] => false,
        [flag] if flag == "--json" => true,
        _ => return Err("usage: cargo xtask complexity [--json]".to_string()),
    };
    let root = crate::root();
    let pairs = pairs(&root.join("crates/able-samples/src"))?;
    let mut components = components(&root.join("crates/layer-kit/src"))?;
    components.extend(self::components(&root.join("crates/able-samples/src/primitives"))?);
    match as_json {
        true => println!("{}", json(&pairs, &components)),
        false => print!("{}", text(&pairs, &components)),
    }
    Ok(true)
}

/// Folders that hold `vanilla.rs` and `able.rs`, in the order of their names.
fn pairs(samples: &Path) -> Result<Vec<Pair>, String> {
    let mut names: Vec<String> = entries(samples)?;
    names.retain(|name| samples.join(name).join("vanilla.rs").is_file());
    let of = |name: &str, variant: &str| count_file(&samples.join(name).join(variant));
    names
        .into_iter()
        .map(|name| Ok(Pair { vanilla: of(&name, "vanilla.rs")?, able: of(&name, "able.rs")?, name }))
        .collect()
}

/// Each module of the primitives with all its files.
fn components(folder: &Path) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for entry in entries(folder)? {
        let name = entry.trim_end_matches(".rs").to_string();
        let counts = count_tree(&folder.join(&entry))?;
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.counts.add(&counts),
            None => rows.push(Row { name, counts }),
        }
    }
    Ok(rows)
}

fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = read.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// A file, or all files below a folder but its tests. What is no Rust counts nothing.
fn count_tree(path: &Path) -> Result<Counts, String> {
    if path.is_file() {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        return if is_rust { count_file(path) } else { Ok(Counts::default()) };
    }
    let mut counts = Counts::default();
    for name in entries(path)?.iter().filter(|name| *name != "tests.rs") {
        counts.add(&count_tree(&path.join(name))?);
    }
    Ok(counts)
}

fn count_file(path: &Path) -> Result<Counts, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    count::count(&text).map_err(|error| format!("{}: {error}", path.display()))
}

const HEADS: [&str; 5] = ["lines", "cyclomatic", "runtime references", "completion lines", "critical lines"];

fn columns(counts: &Counts) -> [usize; 5] {
    [counts.lines, counts.cyclomatic, counts.runtime, counts.completion, counts.critical]
}

/// How much less `able` is, in percent of `vanilla`; none where there is nothing to save.
fn reduction(vanilla: usize, able: usize) -> Option<f64> {
    (vanilla > 0).then(|| (1.0 - able as f64 / vanilla as f64) * 100.0)
}

fn text(pairs: &[Pair], components: &[Row]) -> String {
    let mut out = format!("| extension | {} |\n|---|{}\n", HEADS.join(" | "), "---|".repeat(HEADS.len()));
    for pair in pairs {
        let cells = columns(&pair.vanilla).into_iter().zip(columns(&pair.able)).map(|(vanilla, able)| {
            let saved = reduction(vanilla, able).map_or(String::new(), |saved| format!(" ({saved:.0} %)"));
            format!("{vanilla} -> {able}{saved}")
        });
        out += &format!("| {} | {} |\n", pair.name, cells.collect::<Vec<_>>().join(" | "));
    }
    out += "\n| primitives | lines | cyclomatic |\n|---|---|---|\n";
    for row in components {
        out += &format!("| {} | {} | {} |\n", row.name, row.counts.lines, row.counts.cyclomatic);
    }
    out
}

fn json(pairs: &[Pair], components: &[Row]) -> String {
    let object = |counts: &Counts| {
        let names = ["lines", "cyclomatic", "runtime", "completion", "critical"];
        let fields = names.iter().zip(columns(counts)).map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let pairs = pairs.iter().map(|pair| {
        let (vanilla, able) = (object(&pair.vanilla), object(&pair.able));
        format!("\"{}\":{{\"vanilla\":{vanilla},\"able\":{able}}}", pair.name)
    });
    let components = components.iter().map(|row| format!("\"{}\":{}", row.name, object(&row.counts)));
    format!(
        "{{\"extensions\":{{{}}},\"primitives\":{{{}}}}}",
        pairs.collect::<Vec<_>>().join(","),
        components.collect::<Vec<_>>().join(",")
    )
}
