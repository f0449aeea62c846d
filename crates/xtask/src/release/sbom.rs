//! The bill of materials of the program: each crate that it is built from, as CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde_json::{Value, json};

use super::told;

/// The packages whose programs are released.
const ROOTS: [&str; 2] = ["esker-cli", "esker-hugepage-preload"];

/// Writes the bill to a file.
pub(super) fn write(root: &Path, file: &Path) -> Result<(), String> {
    let mut command = MetadataCommand::new();
    command
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--locked", "--filter-platform", target()].map(String::from));
    let metadata = command.exec().map_err(|error| error.to_string())?;
    let text = serde_json::to_string_pretty(&bill(&metadata)?).map_err(|error| error.to_string())? + "\n";
    std::fs::write(file, text).map_err(|error| told(file, error))
}

/// The target of this program, as `rustc` names it.
pub(super) fn target() -> &'static str {
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" }
}

/// Neither a time nor a serial number: equal trees have equal bills.
fn bill(metadata: &Metadata) -> Result<Value, String> {
    let needs = needs(metadata)?;
    let packages: BTreeMap<&PackageId, &Package> =
        metadata.packages.iter().map(|package| (&package.id, package)).collect();
    let parts: BTreeMap<String, (&Package, Vec<String>)> = needs
        .iter()
        .map(|(id, on)| {
            let on = on.iter().map(|id| name(packages[id])).collect::<BTreeSet<_>>();
            (name(packages[id]), (packages[id], on.into_iter().collect()))
        })
        .collect();
    let main = metadata.packages.iter().find(|package| package.name.as_str() == ROOTS[0]).ok_or("no program")?;
    let components: Vec<Value> = parts.iter().map(|(name, (package, _))| component(name, package)).collect();
    let graph: Vec<Value> = parts.iter().map(|(name, (_, on))| json!({ "ref": name, "dependsOn": on })).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "esker", "version": main.version.to_string() } },
        "components": components,
        "dependencies": graph,
    }))
}

/// All packages that the roots are built from, and what each needs itself. Tests do not count.
fn needs(metadata: &Metadata) -> Result<BTreeMap<&PackageId, Vec<&PackageId>>, String> {
    let nodes = &metadata.resolve.as_ref().ok_or("cargo resolved nothing")?.nodes;
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (&node.id, node)).collect();
    let is_root = |package: &&Package| ROOTS.contains(&package.name.as_str());
    let mut open: Vec<&PackageId> = metadata.packages.iter().filter(is_root).map(|package| &package.id).collect();
    let mut needs = BTreeMap::new();
    while let Some(id) = open.pop() {
        if needs.contains_key(id) {
            continue;
        }
        let is_built = |kind: DependencyKind| matches!(kind, DependencyKind::Normal | DependencyKind::Build);
        let on = nodes[id].deps.iter().filter(|dep| dep.dep_kinds.iter().any(|info| is_built(info.kind)));
        let on: Vec<&PackageId> = on.map(|dep| &dep.pkg).collect();
        open.extend(&on);
        needs.insert(id, on);
    }
    Ok(needs)
}

/// The package's address among all packages (purl).
fn name(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(name: &str, package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": name,
        "purl": name,
        "name": package.name,
        "version": package.version.to_string(),
    });
    if let Some(license) = &package.license {
        // Old manifests have a stroke where SPDX has a word.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    component
}
