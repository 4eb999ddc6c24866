//! A small Cargo workspace without dependencies: six crates of generated, ordinary Rust, one above the other.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{count, make_once};
use crate::bench::command::require;
use crate::bench::named;

const CRATES: usize = 6;
const MODULES: usize = 6;
const SHAPES: usize = 5;

/// Makes the workspace in `folder` and returns where it is.
pub(super) fn make(folder: &Path) -> Result<PathBuf> {
    require("cargo", "cargo")?;
    let files = files();
    let made_from: String = files
        .iter()
        .map(|(path, text)| format!("{path}\n{text}"))
        .collect();
    make_once(folder, &made_from, |partial| {
        for (path, text) in &files {
            let path = partial.join("source").join(path);
            if let Some(parent) = path.parent() {
                named::create_dir_all(parent)?;
            }
            named::write(path, text)?;
        }
        count(partial)
    })?;
    Ok(folder.join("source"))
}

/// Returns each file's path and text.
fn files() -> Vec<(String, String)> {
    let mut files = vec![(
        "Cargo.toml".to_owned(),
        "[workspace]\nresolver = \"2\"\nmembers = [\"part*\"]\n".to_owned(),
    )];
    for part in 0..CRATES {
        let mut manifest = format!(
            "[package]\nname = \"part{part}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n"
        );
        if let Some(below) = part.checked_sub(1) {
            let _ = writeln!(manifest, "part{below} = {{ path = \"../part{below}\" }}");
        }
        files.push((format!("part{part}/Cargo.toml"), manifest));
        let modules: String = (0..MODULES)
            .map(|module| format!("pub mod module{module};\n"))
            .collect();
        files.push((format!("part{part}/src/lib.rs"), modules));
        files.extend((0..MODULES).map(|module| {
            (
                format!("part{part}/src/module{module}.rs"),
                module_text(part, module),
            )
        }));
    }
    files
}

fn module_text(part: usize, module: usize) -> String {
    let mut text = String::from("use std::collections::BTreeMap;\n");
    for shape in 0..SHAPES {
        let below = part.checked_sub(1).map_or_else(
            || format!("{shape} + self.size as u64"),
            |below| format!("part{below}::module{module}::Shape{shape}::new(self.size).area()"),
        );
        let _ = write!(
            text,
            "
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape{shape} {{ size: u32, names: BTreeMap<String, Vec<u32>> }}

impl Shape{shape} {{
    pub fn new(size: u32) -> Self {{
        let names = (0..size % 7).map(|n| (format!(\"name {{n}}\"), (0..n).collect())).collect();
        Shape{shape} {{ size, names }}
    }}

    pub fn area(&self) -> u64 {{
        let inner: u64 = self.names.values().flatten().map(|n| u64::from(*n)).sum();
        inner.wrapping_mul({module}).wrapping_add({below})
    }}

    pub fn rename(&mut self, from: &str, to: &str) -> Option<Vec<u32>> {{
        let old = self.names.remove(from)?;
        self.names.insert(to.to_owned(), old)
    }}
}}
"
        );
    }
    text
}
