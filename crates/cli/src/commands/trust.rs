//! `tenure trust`: which certificates of servers this user has seen, and a person's word about them.

use crate::error::Told;
use crate::output;
use crate::pins::Known;
use crate::servers;
use anyhow::Result;
use tenure_wire::ServerAddress;
use tenure_wire::web::Fingerprint;

/// Show, set and forget the certificates by which servers are known
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure trust                                  the servers that are known\n  tenure trust box:7430 sha256:4f1c...          expect this certificate, before or after the server was first seen\n  tenure trust box:7430 --forget                believe the next one that is seen\n\nA server prints its fingerprint when it begins. Who names it here before the first mount\nneed not trust the network once."
)]
pub(crate) struct Args {
    /// The server, as it is named to other commands
    #[arg(value_name = "ADDR", value_parser = servers::address)]
    server: Option<ServerAddress>,
    /// The fingerprint of its certificate, as `openssl x509 -fingerprint -sha256` says it, too
    fingerprint: Option<Fingerprint>,
    /// Forget what is known of it
    #[arg(long, requires = "server", conflicts_with = "fingerprint")]
    forget: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["fingerprint", "forget"])]
    json: bool,
}

/// Shows, sets or forgets.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = Known::of_this_user()?;
    let Some(server) = &args.server else {
        return show(&known, args.json);
    };
    if !matches!(server, ServerAddress::Tls(_)) {
        return Err(Told::refused(
            format!("{server} has no certificate"),
            "tenure trust HOST:PORT [FINGERPRINT]",
        ));
    }
    match (&args.fingerprint, args.forget) {
        (Some(fingerprint), _) => {
            known.set(server, Some(*fingerprint))?;
            output::line(format_args!("{server} is known by {fingerprint}"))
        }
        (None, true) => {
            known.set(server, None)?;
            output::line(format_args!(
                "{server} is not known any more; the next certificate that is seen counts"
            ))
        }
        (None, false) => match known.all()?.get(&server.to_string()) {
            Some(fingerprint) => output::line(fingerprint),
            None => Err(Told::refused(
                format!("{server} was not seen yet"),
                format!("tenure trust {server} sha256:... with what the server has printed"),
            )),
        },
    }
}

fn show(known: &Known, json: bool) -> Result<()> {
    let all = known.all()?;
    if json {
        let rows: Vec<_> = all
            .iter()
            .map(|(server, fingerprint)| serde_json::json!({ "server": server, "fingerprint": fingerprint.to_string() }))
            .collect();
        return output::json(&rows);
    }
    all.iter()
        .try_for_each(|(server, fingerprint)| output::line(format_args!("{server} {fingerprint}")))
}
