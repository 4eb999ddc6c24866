//! A Next.js application: its manifest and lock, the warm npm cache that installs it offline, and the tree that results as
//! a tar.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{count, make_once, workshop};
use crate::bench::command::{command, require, run};
use crate::bench::measure::Content;
use crate::bench::named;
use crate::bench::progress::Progress;

const MANIFEST: &str = include_str!("../../../../../bench/next-app/package.json");
const LOCK: &str = include_str!("../../../../../bench/next-app/package-lock.json");

/// The application.
#[derive(Debug)]
pub(crate) struct App {
    folder: PathBuf,
    /// What `node_modules` holds after `npm ci`.
    pub(crate) content: Content,
}

impl App {
    /// Makes the application in `folder`: one `npm ci` from the registry fills the cache.
    pub(super) fn make(folder: &Path, progress: Progress) -> Result<App> {
        require("npm", "nodejs npm")?;
        require("tar", "tar")?;
        let content = make_once(folder, LOCK, |partial| {
            let step = progress.step("fetching a Next.js application's packages from npm's registry (once)");
            let workshop = workshop(partial)?;
            let (app, kept) = (workshop.path().join("app"), partial.join("app"));
            let registry = run(command("npm").args(["config", "get", "registry"]))?;
            let lock = resolved(LOCK, &String::from_utf8_lossy(&registry))?;
            for folder in [&app, &kept] {
                named::create_dir(folder)?;
                named::write(folder.join("package.json"), MANIFEST)?;
                named::write(folder.join("package-lock.json"), &lock)?;
            }
            run(npm_ci(&partial.join("cache"))
                .arg("--prefer-online")
                .current_dir(&app))
            .context("the packages could not be fetched; npm's registry must be reachable the first time")?;
            step.now("keeping the installed tree as a tar".to_owned());
            let tar = partial.join("node_modules.tar");
            run(command("tar")
                .arg("-cf")
                .arg(tar)
                .arg("-C")
                .arg(&app)
                .arg("node_modules"))?;
            let content = count(&app.join("node_modules"))?;
            Ok(content)
        })?;
        Ok(App {
            folder: folder.to_owned(),
            content,
        })
    }

    /// Returns the folder of npm's cache.
    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Returns the tar of the installed tree.
    pub(crate) fn tar(&self) -> PathBuf {
        self.folder.join("node_modules.tar")
    }

    /// Puts the manifest and the lock into `directory`.
    pub(crate) fn put_manifest(&self, directory: &Path) -> Result<()> {
        named::create_dir_all(directory)?;
        for file in ["package.json", "package-lock.json"] {
            named::copy(self.folder.join("app").join(file), directory.join(file))?;
        }
        Ok(())
    }

    /// Returns the command that installs the application in `directory`, offline.
    pub(crate) fn install(&self, directory: &Path) -> Command {
        let mut install = npm_ci(&self.cache());
        install.arg("--offline").current_dir(directory);
        install
    }

    /// Returns the command that unpacks the installed tree into `directory`.
    pub(crate) fn unpack(&self, directory: &Path) -> Command {
        let mut unpack = command("tar");
        unpack.arg("-xf").arg(self.tar()).arg("-C").arg(directory);
        unpack
    }
}

fn npm_ci(cache: &Path) -> Command {
    let mut npm = command("npm");
    npm.args([
        "ci",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--logs-max=0",
        "--loglevel=error",
    ]);
    npm.arg("--cache").arg(cache);
    npm
}

/// Returns `lock` with the address of each package's tarball in `registry`.
///
/// The lock that is compiled in names no host. Without addresses npm looks every package up first, offline in the cached
/// documents of all its versions; real projects' locks have them.
fn resolved(lock: &str, registry: &str) -> Result<String> {
    let registry = registry.trim().trim_end_matches('/');
    let mut lock: Value = serde_json::from_str(lock).context("the lock is not JSON")?;
    let packages = lock["packages"]
        .as_object_mut()
        .context("the lock lists no packages")?;
    for (place, package) in packages {
        let Some((_, installed_as)) = place.rsplit_once("node_modules/") else {
            continue;
        };
        let name = package["name"].as_str().unwrap_or(installed_as);
        let file = name.rsplit_once('/').map_or(name, |(_scope, file)| file);
        let version = package["version"]
            .as_str()
            .with_context(|| format!("{place} has no version"))?;
        package["resolved"] = Value::from(format!("{registry}/{name}/-/{file}-{version}.tgz"));
    }
    Ok(serde_json::to_string_pretty(&lock)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_names_no_host_and_pins_every_package() {
        assert!(!LOCK.contains("\"resolved\""));
        let lock: Value = serde_json::from_str(LOCK).expect("JSON");
        for (place, package) in lock["packages"].as_object().expect("packages") {
            let is_bundled = package["inBundle"].as_bool().unwrap_or(false);
            assert!(
                place.is_empty() || is_bundled || package["integrity"].is_string(),
                "{place} is not pinned"
            );
        }
    }

    #[test]
    fn a_scoped_package_is_found_in_the_configured_registry() {
        let lock = r#"{"packages": {"": {"name": "a"}, "node_modules/@s/p": {"version": "1.2.3"},
            "node_modules/x/node_modules/alias": {"name": "real", "version": "2.0.0"}}}"#;
        let lock: Value =
            serde_json::from_str(&resolved(lock, "https://r/\n").expect("it can")).expect("JSON");
        assert_eq!(
            lock["packages"]["node_modules/@s/p"]["resolved"],
            "https://r/@s/p/-/p-1.2.3.tgz"
        );
        let alias = &lock["packages"]["node_modules/x/node_modules/alias"]["resolved"];
        assert_eq!(alias, "https://r/real/-/real-2.0.0.tgz");
        assert!(lock["packages"][""]["resolved"].is_null());
    }
}
