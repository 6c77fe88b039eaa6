//! The workspace as cargo sees it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// The folder that holds the root `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_path_buf()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |d| root().join(d))
}

/// A package of `cargo metadata`.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression; absent if the manifest has none.
    pub(crate) licence: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// The names of its integration tests.
    pub(crate) tests: Vec<String>,
}

/// A dependency as the manifest writes it.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Of tests, examples and benches only.
    pub(crate) dev: bool,
}

/// This workspace's own packages.
pub(crate) fn members() -> Result<Vec<Package>> {
    metadata(&["--no-deps"])
}

/// Everything that a build for this machine may link, ours included.
pub(crate) fn everything(host: &str) -> Result<Vec<Package>> {
    metadata(&["--filter-platform", host])
}

fn metadata(arguments: &[&str]) -> Result<Vec<Package>> {
    let mut command = run::cargo(&root());
    command.args(["metadata", "--format-version", "1", "--locked"]).args(arguments);
    let text = run::output_of(&mut command)?;
    let json: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let packages = json["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(package).collect()
}

fn package(json: &Value) -> Result<Package> {
    let text = |field: &str| json[field].as_str().map(str::to_owned);
    let manifest = PathBuf::from(text("manifest_path").context("a package without a manifest")?);
    let list = |field: &str| json[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_test = |target: &&Value| target["kind"][0] == "test";
    let target_name = |target: &Value| target["name"].as_str().map(str::to_owned);
    Ok(Package {
        name: text("name").context("a package without a name")?,
        version: text("version").unwrap_or_default(),
        licence: text("license"),
        folder: manifest.parent().context("a manifest without a folder")?.to_path_buf(),
        tests: list("targets").iter().filter(is_test).filter_map(target_name).collect(),
        dependencies: list("dependencies")
            .iter()
            .map(|dependency| Dependency {
                name: dependency["name"].as_str().unwrap_or_default().to_owned(),
                dev: dependency["kind"].as_str() == Some("dev"),
            })
            .collect(),
    })
}
