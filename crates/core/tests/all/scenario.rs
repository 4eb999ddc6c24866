//! Scenarios: what is asked of a branch, and what becomes of it, as text under `tests/scenarios/`.
//!
//! A file has blocks: commands, a line `----`, and the trace: for each command whether it was done or why not, and
//! below it everything that can be seen to have changed, times included. Each scenario is lived through three times: in
//! memory, with nothing in memory before each command, and with a page for each record as well; the trace is the same.
//!
//! With `UPDATE_SCENARIOS=1` in the environment the traces are written anew, for a person to read.

mod command;
mod notation;
mod script;
mod trace;
mod world;

use script::Script;
use std::path::{Path, PathBuf};
use world::{Residence, World};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Returns the trace of each block.
fn live_through(script: &Script, residence: Residence) -> Vec<String> {
    let mut world = World::new(residence);
    let run = |commands: &Vec<String>| commands.iter().map(|command| world.run(command)).collect();
    script.blocks().map(run).collect()
}

fn plays_out(path: &Path, faults: &mut Vec<String>) {
    let text = std::fs::read_to_string(path).expect("scenarios are text");
    let script = Script::parse(&text);
    let traces = live_through(&script, Residence::Memory);
    for residence in [Residence::Nowhere, Residence::Sparse] {
        assert_eq!(live_through(&script, residence), traces, "{path:?} {residence:?}");
    }
    let played = script.with_traces(&traces);
    if played == text {
        return;
    }
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        std::fs::write(path, &played).expect("scenarios can be written");
    }
    let differs = |(_, (is, was)): &(usize, (&str, &str))| is != was;
    let lines = played.lines().zip(text.lines());
    let (line, (is, was)) = lines
        .enumerate()
        .find(differs)
        .unwrap_or((0, ("longer", "or shorter")));
    faults.push(format!(
        "{path:?}, line {}:\n  it is  {is}\n  it was {was}",
        line + 1
    ));
}

#[test]
fn every_scenario_plays_out_as_it_is_written() {
    let mut paths: Vec<_> = folder()
        .read_dir()
        .expect("the scenarios are there")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    assert!(paths.len() > 10, "the scenarios are there");
    let mut faults = Vec::new();
    paths.iter().for_each(|path| plays_out(path, &mut faults));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
