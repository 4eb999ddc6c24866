//! What a person is told who cannot mount what was named: why, and the command that would.

use super::Args;
use crate::error::Told;
use crate::output::quoted;
use crate::reach::MAIN;

/// Says what makes the branch, where there is none of that name.
pub(super) fn without_a_branch(args: &Args, name: &str, error: anyhow::Error) -> anyhow::Error {
    if !error.to_string().contains("has no branch or checkpoint") {
        return error;
    }
    let (drive, options) = (&args.what.drive, args.place.options());
    Told::refused(
        error.to_string(),
        format!(
            "tenure mount {drive}@{name} {}{options} --fork-from {MAIN} makes it of {MAIN}",
            quoted(&args.dir)
        ),
    )
}

/// Says what would help where there is no such drive.
pub(super) fn not_reached(args: &Args, error: anyhow::Error) -> anyhow::Error {
    // What is wrong with a drive is no reason to make one.
    let has_failed = matches!(error.downcast_ref(), Some(tenure_wire::Error::Failed(_)));
    let is_being_deleted = error.to_string().contains("is being deleted, and");
    if args.place.server.is_named() || has_failed || is_being_deleted {
        return error;
    }
    let known = args
        .place
        .kept()
        .and_then(|kept| kept.open())
        .and_then(|bucket| Ok(tenure_server::list(bucket.as_ref())?.drives));
    match known {
        Ok(known) if !known.contains(&args.what.drive) => Told::refused(
            error.to_string(),
            format!(
                "tenure mount {} {}{} --create",
                args.what.drive,
                quoted(&args.dir),
                args.place.options()
            ),
        ),
        Ok(_) | Err(_) => error,
    }
}

/// Refuses to mount a branch to be changed whose bucket cannot be written.
pub(super) fn only_read(args: &Args, name: &str, notice: &str) -> anyhow::Error {
    Told::failed(
        format!(
            "{}@{name} cannot be mounted to be changed: {notice}",
            args.what.drive
        ),
        format!(
            "mend that, and mount it again; or look at it as it is: tenure mount {}@{name} {}{} --read-only",
            args.what.drive,
            quoted(&args.dir),
            args.place.options()
        ),
    )
}

/// Refuses to share what never changes.
pub(super) fn no_branch(args: &Args, name: &str) -> anyhow::Error {
    let (drive, at, options) = (&args.what.drive, quoted(&args.dir), args.place.options());
    Told::refused(
        format!("{name} is a checkpoint and never changes, so there is nothing to share"),
        format!(
            "tenure mount {drive}@{name} {at}{options} looks at it, as many as like; tenure fork {drive}@{name} NEW{options} makes a branch of it"
        ),
    )
}
