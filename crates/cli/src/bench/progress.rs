//! What a person sees while the bench works: a live line on a terminal, plain lines anywhere else. Always on standard
//! error, so that `--json` on standard output stays clean.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Where progress is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    is_terminal: bool,
}

/// One step that is going on; gone from the screen when dropped.
#[derive(Debug)]
pub(crate) struct Step {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows progress on standard error, live if that is a terminal.
    pub(crate) fn on_stderr() -> Progress {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Says something that stays on the screen.
    pub(crate) fn say(self, line: &str) {
        output::note(line);
    }

    /// Begins a step of unknown length.
    pub(crate) fn step(self, what: &str) -> Step {
        if !self.is_terminal {
            self.say(&format!("  {what}"));
            return Step { bar: None };
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        Step { bar: Some(bar) }
    }

    /// Begins a step that is over after `total` bytes.
    pub(crate) fn bytes(self, what: &str, total: u64) -> Step {
        if !self.is_terminal {
            return self.step(what);
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes}")
            .expect("the template is well-formed");
        Step {
            bar: Some(
                ProgressBar::new(total)
                    .with_style(style)
                    .with_message(what.to_owned()),
            ),
        }
    }
}

impl Step {
    /// Says what the step is doing now.
    pub(crate) fn now(&self, what: String) {
        match &self.bar {
            Some(bar) => bar.set_message(what),
            None => output::note(format_args!("  {what}")),
        }
    }

    /// Moves the step on by `part` of its total.
    pub(crate) fn advance(&self, part: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(part);
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
