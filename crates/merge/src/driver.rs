//! Which ways of merging there are, and which one a file has.

use crate::attributes::Attributes;
use crate::limits::PROBE_LEN;
use std::fmt::{self, Display};

/// A way to merge the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// By lines.
    Text,
    /// By the keys of objects and the elements of lists; comments may be in it.
    Json,
    /// By tables, keys and the elements of lists.
    Toml,
    /// By the keys of mappings and the elements of lists.
    Yaml,
    /// What each side appended, one behind the other.
    Union,
    /// Not at all: both sides are kept.
    Binary,
}

/// What a file is by the end of its name; the first that fits counts.
const ENDINGS: &[(&str, Driver)] = &[
    ("package-lock.json", Driver::Json),
    ("composer.lock", Driver::Json),
    ("flake.lock", Driver::Json),
    ("Pipfile.lock", Driver::Json),
    ("bun.lock", Driver::Json),
    ("Cargo.lock", Driver::Toml),
    ("poetry.lock", Driver::Toml),
    ("uv.lock", Driver::Toml),
    ("Pipfile", Driver::Toml),
    (".clang-format", Driver::Yaml),
    (".json", Driver::Json),
    (".jsonc", Driver::Json),
    (".geojson", Driver::Json),
    (".webmanifest", Driver::Json),
    (".code-workspace", Driver::Json),
    (".ipynb", Driver::Json),
    (".toml", Driver::Toml),
    (".yaml", Driver::Yaml),
    (".yml", Driver::Yaml),
    (".log", Driver::Union),
    (".jsonl", Driver::Union),
    (".ndjson", Driver::Union),
];

impl Driver {
    /// Every driver.
    pub const ALL: [Self; 6] = [
        Self::Text,
        Self::Json,
        Self::Toml,
        Self::Yaml,
        Self::Union,
        Self::Binary,
    ];

    /// Returns its name, as attributes say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Toml => "toml",
            Self::Yaml => "yaml",
            Self::Union => "union",
            Self::Binary => "binary",
        }
    }

    /// Returns the driver of a name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|driver| driver.name().as_bytes() == name)
    }
}

impl Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the driver of the file at `path` from the top of a tree: what attributes say, else what its name says, unless it is no text.
///
/// `contents` are those of its sides, or their first 8,000 bytes.
pub fn choose(path: &[u8], attributes: &Attributes, contents: &[&[u8]]) -> Driver {
    if let Some(driver) = attributes.driver(path) {
        return driver;
    }
    if contents.iter().any(|content| !is_text(content)) {
        return Driver::Binary;
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let fits = |ending: &str| {
        let from = name.len().checked_sub(ending.len());
        from.is_some_and(|from| {
            // A name as a whole, or what stands behind a dot.
            (from == 0 || ending.starts_with('.')) && name[from..].eq_ignore_ascii_case(ending.as_bytes())
        })
    };
    let known = ENDINGS.iter().find(|(ending, _)| fits(ending));
    known.map_or(Driver::Text, |(_, driver)| *driver)
}

/// Returns whether a file is text, as git decides it: by a zero among its first bytes.
pub(crate) fn is_text(content: &[u8]) -> bool {
    !content.iter().take(PROBE_LEN).any(|byte| *byte == 0)
}
