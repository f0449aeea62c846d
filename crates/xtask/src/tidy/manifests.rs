//! Manifests: versions and reasons of dependencies stand once, in the root; members inherit them and the lint table.

use toml::{Table, Value};

use super::Report;
use super::tree::Tree;

const ROOT: &str = "Cargo.toml";
const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub fn check(tree: &Tree, report: &mut Report) {
    check_reasons(tree.texts.get(ROOT).map_or("", String::as_str), report);
    for (path, text) in &tree.texts {
        let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        match text.parse::<Table>() {
            Ok(manifest) => check_member(path, name, &manifest, report),
            Err(error) => report.find(path, 1, format!("not TOML: {}", error.message()), "make cargo accept it"),
        }
    }
}

/// Each entry of `[workspace.dependencies]` that is not ours ends in a comment.
fn check_reasons(text: &str, report: &mut Report) {
    let is_header = |line: &str| line.starts_with('[');
    let lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != "[workspace.dependencies]").skip(1);
    for (at, line) in lines.take_while(|(_, line)| !is_header(line)) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let is_ours = name.trim().starts_with("esker") || name.trim_start().starts_with('#');
        let reason = value.rsplit_once('#').map_or("", |(_, reason)| reason.trim());
        if !is_ours && reason.len() < 3 {
            let what = format!("dependency `{}` has no reason", name.trim());
            report.find(ROOT, at + 1, what, "write it on one line and end it with `# why`");
        }
    }
}

fn check_member(path: &str, name: &str, manifest: &Table, report: &mut Report) {
    let package = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    // The library has the project's name.
    let expected = if name == "esker" { name.to_string() } else { format!("esker-{name}") };
    if package != Some(&expected) {
        let what = format!("the package of crates/{name} is not {expected}");
        report.find(path, 1, what, "folder and package share a name");
    }
    if !inherits(manifest.get("lints")) {
        report.find(path, 1, "does not inherit the lint table", "add `[lints]` with `workspace = true`");
    }
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(|targets| targets.values());
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    for (dep, value) in tables.flat_map(dependencies) {
        if !inherits(Some(value)) {
            let fix = "write `workspace = true` and put the version into the root manifest";
            report.find(path, 1, format!("`{dep}` does not come from the workspace"), fix);
        }
    }
}

fn dependencies(table: &Table) -> impl Iterator<Item = (&String, &Value)> {
    SECTIONS.iter().filter_map(|section| table.get(*section)?.as_table()).flatten()
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const PATH: &str = "crates/a/Cargo.toml";
    const HEAD: &str = "[package]\nname = \"esker-a\"\n[lints]\nworkspace = true\n";

    #[test]
    fn each_foreign_dependency_has_its_reason() {
        let fine = "[workspace.dependencies]\nesker-a = { path = \"a\" }\n\nserde = \"1\" # stack files\n[profile.dev]\nx = 1\n";
        assert_silent(check, &[(ROOT, fine)]);
        assert_fires(check, &[(ROOT, "[workspace.dependencies]\n# Why not.\nserde = \"1\"\n")], "Cargo.toml:3 ");
    }

    #[test]
    fn members_inherit() {
        let with = |rest: &str| format!("{HEAD}{rest}");
        let fine = with(
            "[dependencies]\nserde = { workspace = true, features = [] }\n[dev-dependencies]\nx.workspace = true\n",
        );
        assert_silent(check, &[(PATH, &fine)]);
        assert_fires(check, &[(PATH, &with("[dependencies]\nserde = \"1\"\n"))], "`serde` does not come");
        let on_target = with("[target.'cfg(loom)'.dependencies]\nloom = { version = \"0.7\" }\n");
        assert_fires(check, &[(PATH, &on_target)], "`loom` does not come");
        assert_fires(check, &[(PATH, "[package]\nname = \"esker-a\"\n")], "lint table");
        assert_fires(check, &[(PATH, &HEAD.replace("esker-a", "a"))], "is not esker-a");
        assert_fires(check, &[(PATH, "a = ")], "not TOML");
    }
}
