//! A branch that one machine has given back, mounted on another.

use super::Scale;
use super::town::Town;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use anyhow::Result;
use std::time::Duration;
use tenure_store::proxy::Delays;

const DRIVE: &str = "handover";
/// What may come on top of a put and a get.
const BESIDE: f64 = 0.020;
/// A fast store, and what is wanted of a mount there.
const FAST_PUT: Duration = Duration::from_millis(3);
const FAST_MAX: f64 = 0.044;
/// Times that it is mounted.
const ROUNDS: u32 = 9;

/// Mounts a branch on the second machine that the first has unmounted, the server warm, until its root is listed.
pub(super) fn released(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    town.create(DRIVE)?;
    let rounds = ROUNDS.min(4 * scale.trials);
    let usual = town.delays();
    let seconds = mounts(town, rounds)?;
    let bound = (usual.put + usual.get).as_secs_f64() + BESIDE;
    let fact = Fact::at_most("seconds, median", median(&seconds), bound);
    let slow = row("mount_released", seconds, fact);
    town.set_delays(Delays {
        put: FAST_PUT,
        get: FAST_PUT / 2,
    });
    let seconds = mounts(town, rounds)?;
    town.set_delays(usual);
    let fact = Fact::at_most("seconds, median", median(&seconds), FAST_MAX);
    Ok(vec![slow, row("mount_released_fast", seconds, fact)])
}

fn row(name: &'static str, seconds: Vec<f64>, fact: Fact) -> Row {
    Row {
        name,
        what: "a branch that another machine has unmounted: `tenure mount` until its root is listed, server warm (_fast: a put takes 3 ms)",
        seconds,
        baseline: Vec::new(),
        facts: vec![fact],
    }
}

fn mounts(town: &mut Town, rounds: u32) -> Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for round in 0..=rounds {
        let [one, other] = &mut town.hosts[..] else {
            anyhow::bail!("there are two hosts")
        };
        one.mount(DRIVE)?;
        named::write(one.dir.join("written"), round.to_string())?;
        one.unmount()?;
        let watch = Stopwatch::start();
        other.mount_only(DRIVE)?;
        let listed = named::read_dir(&other.dir)?.count();
        let took = watch.seconds();
        other.note_mounted()?;
        anyhow::ensure!(listed > 0, "what the other machine has written is there");
        other.unmount()?;
        // The first one finds no server warm, and learns the certificate.
        if round > 0 {
            seconds.push(took);
        }
    }
    Ok(seconds)
}
