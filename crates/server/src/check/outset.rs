//! Looking whether all is there to which the manifests lead that the next owner may begin with.

use super::{FAULTS_MAX, Packed, fault};
use crate::drive::Inner;
use crate::outset::{Outset, Which};
use crate::state::State;
use crate::usage::Survey;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_journal::manifest;
use tenure_model::{Address, Seq};
use tenure_wire::Error;

impl Inner {
    /// Returns a sentence for each thing to which a manifest leads and that is not there, but for what a line of now needs as well: that
    /// was looked at.
    pub(super) fn check_outsets(&self, state: State, packed: &Packed) -> Result<Vec<String>, Error> {
        let outsets = {
            let _no_fold = self.folding.lock();
            match self.outsets(Which::All) {
                Err(Error::Failed(failure)) => return Ok(vec![fault(&failure)]),
                outsets => outsets?,
            }
        };
        let mut survey = Survey::begin(state, Vec::new());
        if self.walk(&mut survey).is_err() {
            // What cannot be read of the lines is told with them.
            return Ok(Vec::new());
        }
        let (mut faults, mut told) = (Vec::new(), BTreeSet::new());
        // One that is no manifest is told as such.
        let is_whole = |seq: &Seq| manifest::read(&*self.bucket, &self.name, *seq).is_ok();
        for (seq, outset) in outsets.into_iter().filter(|(seq, _)| is_whole(seq)) {
            let walked = outset.and_then(|outset: Outset| {
                survey.add_outset(outset);
                self.walk(&mut survey)
            });
            if let Err(error) = walked {
                let why = match error {
                    Error::Failed(failure) => fault(&failure),
                    Error::Refused(refusal) => refusal.to_string(),
                };
                faults.push(format!("{}: {why}", begun_with(seq)));
                survey.pass_over();
            }
            let bad = survey.of_recovery().filter(|at| !told.contains(*at));
            let bad: Vec<_> = bad
                .filter_map(|at| Some((*at, self.why_gone(at, packed)?)))
                .collect();
            let more = bad.len().saturating_sub(FAULTS_MAX);
            faults.extend(
                bad.iter()
                    .take(FAULTS_MAX)
                    .map(|(_, why)| format!("{}: {why}", begun_with(seq))),
            );
            if more > 0 {
                faults.push(format!("{}: and {more} more", begun_with(seq)));
            }
            told.extend(bad.into_iter().map(|(at, _)| at));
        }
        Ok(faults)
    }

    fn walk(&self, survey: &mut Survey) -> Result<(), Error> {
        while !survey.go_on(self, Duration::MAX)? {}
        Ok(())
    }

    fn why_gone(&self, at: &Address, packed: &Packed) -> Option<String> {
        if packed.corrupt.contains(&at.pack) || self.packs.is_lost(at.pack) {
            return None;
        }
        match self.packs.find(*at) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("pack {} does not hold {}", at.pack, at.digest)),
            Err(failure) => Some(fault(&failure)),
        }
    }
}

fn begun_with(seq: Seq) -> String {
    format!("what the manifest at record {seq} leads to, with which the next owner may begin")
}
