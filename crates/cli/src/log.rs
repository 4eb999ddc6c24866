//! What the rooms log: lines with the time for who keeps a process running, and sentences for who has typed a command that is done soon.

use std::fmt::{self, Debug, Write};
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The variable that says how much is logged (`info`, `tenure_server=debug`).
const LEVEL: &str = "TENURE_LOG";

/// For whom it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Who looks into the log of a process that goes on.
    Keeper,
    /// Who waits for a command, and has not asked for a log.
    Asker,
}

/// Sends what the rooms log to standard error.
pub(crate) fn to_stderr(reader: Reader) {
    let filter = EnvFilter::try_from_env(LEVEL).unwrap_or_else(|_| EnvFilter::new("warn"));
    let for_a_person = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(for_a_person)
        // Else a log on a full disk would be complained of on the same disk, with a panic.
        .log_internal_errors(false);
    // A second call finds the first one's subscriber, which is the same.
    let _ = match reader {
        Reader::Asker if std::env::var_os(LEVEL).is_none() => lines.event_format(Sentences).try_init(),
        Reader::Asker | Reader::Keeper => lines.try_init(),
    };
}

/// Writes of an event what it says, and why.
struct Sentences;

impl<S, N> FormatEvent<S, N> for Sentences
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let Sentence { what, why } = sentence;
        writeln!(out, "note: {what}{why}")
    }
}

#[derive(Default)]
struct Sentence {
    what: String,
    why: String,
}

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing into memory does not fail.
        let _ = match field.name() {
            "message" => write!(self.what, "{value:?}"),
            "failure" | "error" | "why" | "refusal" => write!(self.why, ": {value:?}"),
            _ => Ok(()),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_has_typed_a_command_reads_a_sentence() {
        let page = Page::default();
        let written = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || written.clone())
            .event_format(Sentences)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let why = "no space left";
            tracing::warn!(why, epoch = 7, "the drive is closed unfolded");
            tracing::error!(error = %io::Error::from_raw_os_error(28), "it waits");
        });
        let said = page.0.lock().expect("nobody panics").clone();
        assert_eq!(
            String::from_utf8(said).expect("it is text"),
            "note: the drive is closed unfolded: no space left\nnote: it waits: No space left on device (os error 28)\n"
        );
    }
}
