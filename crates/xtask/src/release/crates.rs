//! The crates that are published: each is packed with what a reader of an index needs.

use std::path::PathBuf;

use cargo_metadata::{MetadataCommand, Package};

use super::{Figures, Release, mib, output};

/// What an index takes at most.
const CRATE_MIB_MAX: f64 = 10.0;

/// Where cargo puts packed crates.
pub(super) fn folder(release: &Release) -> PathBuf {
    release.out.join("package")
}

/// Packs all published crates, and judges them.
pub(super) fn check(release: &Release) -> Result<Figures, String> {
    let changes = super::read(&release.root.join("CHANGELOG.md"))?;
    let minor = release.version.rsplit_once('.').map_or("", |(minor, _)| minor);
    if !changes.contains(&format!("## {minor}")) {
        return Err(format!("CHANGELOG.md has no part on {minor}: write what changes for users"));
    }
    let packages = published(release)?;
    let mut cargo = release.cargo();
    cargo.args(["package", "--no-verify", "--allow-dirty", "--quiet", "--target-dir"]).arg(&release.out);
    cargo.args(packages.iter().flat_map(|package| ["-p", &package.name]));
    output(&mut cargo)?;
    let mut largest_mib: f64 = 0.0;
    for package in &packages {
        complain(package).map_or(Ok(()), |what| Err(format!("{}: {what}", package.name)))?;
        let size_mib = mib(&folder(release).join(format!("{}-{}.crate", package.name, release.version)))?;
        if size_mib > CRATE_MIB_MAX {
            return Err(format!("{} has {size_mib:.1} MiB, more than {CRATE_MIB_MAX}", package.name));
        }
        largest_mib = largest_mib.max(size_mib);
    }
    Ok(vec![("crates", packages.len() as f64), ("largest_crate_mib", largest_mib)])
}

/// The members of the workspace that may be published.
pub(super) fn published(release: &Release) -> Result<Vec<Package>, String> {
    let mut command = MetadataCommand::new();
    command.manifest_path(release.root.join("Cargo.toml")).no_deps();
    let packages = command.exec().map_err(|error| error.to_string())?.packages;
    Ok(packages.into_iter().filter(|package| package.publish.is_none()).collect())
}

/// What a crate lacks, if it lacks something.
fn complain(package: &Package) -> Option<&'static str> {
    if package.description.as_deref().is_none_or(str::is_empty) {
        return Some("no description");
    }
    if package.readme.is_none() {
        return Some("no readme");
    }
    if package.license.is_none() {
        return Some("no license");
    }
    (!(1..=5).contains(&package.keywords.len())).then_some("not one to five keywords")
}
