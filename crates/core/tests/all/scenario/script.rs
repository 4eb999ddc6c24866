//! A scenario's text: what is said in it, the commands, and the trace of each block.

/// Between commands and trace.
const RULE: &str = "----";

/// A scenario.
pub(super) struct Script(Vec<Part>);

enum Part {
    /// A comment or an empty line, kept as it is.
    Line(String),
    /// Commands of a block; their trace is what is looked for.
    Block(Vec<String>),
}

impl Script {
    pub(super) fn parse(text: &str) -> Self {
        let (mut parts, mut lines) = (Vec::new(), text.lines());
        let mut commands = Vec::new();
        while let Some(line) = lines.next() {
            if line == RULE {
                parts.push(Part::Block(std::mem::take(&mut commands)));
                // The trace ends at an empty line, which is kept.
                if lines.by_ref().any(str::is_empty) {
                    parts.push(Part::Line(String::new()));
                }
            } else if line.is_empty() || line.starts_with('#') {
                assert!(
                    commands.is_empty(),
                    "commands without a rule behind them: {commands:?}"
                );
                parts.push(Part::Line(line.to_owned()));
            } else {
                commands.push(line.to_owned());
            }
        }
        assert!(
            commands.is_empty(),
            "commands without a rule behind them: {commands:?}"
        );
        Self(parts)
    }

    /// Returns the commands of each block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Vec<String>> {
        self.0.iter().filter_map(|part| match part {
            Part::Line(_) => None,
            Part::Block(commands) => Some(commands),
        })
    }

    /// Returns the text with a trace for each block.
    pub(super) fn with_traces(&self, traces: &[String]) -> String {
        let (mut text, mut traces) = (String::new(), traces.iter());
        for part in &self.0 {
            match part {
                Part::Line(line) => text += &format!("{line}\n"),
                Part::Block(commands) => {
                    let trace = traces.next().expect("there is a trace for each block");
                    text += &format!("{}\n{RULE}\n{trace}", commands.join("\n"));
                }
            }
        }
        text
    }
}
