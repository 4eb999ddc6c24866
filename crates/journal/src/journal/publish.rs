//! Publishing a manifest, and deleting what no recovery needs any more.
//!
//! Invariant: from each of the two newest manifests every later record can be read, so that one of them may be damaged.

use super::order::{Kept, Order};
use crate::manifest::{self, Manifest};
use crate::mark::Mark;
use tenure_model::{Failure, Seq};

/// Manifests that are kept: the newest, and one for when that is damaged.
const MANIFESTS_KEPT: usize = 2;

pub(super) fn publish(order: &Order, manifest: &Manifest) -> Result<(), Failure> {
    check(order, manifest)?;
    manifest::put(&*order.bucket, manifest)?;
    let unneeded = unneeded(order, manifest.at.seq);
    if let Err(failure) = delete(order, unneeded) {
        // The manifest is durable; what could not be deleted is tried again after the next one.
        tracing::warn!(%failure, "old parts of the journal could not be deleted");
    }
    Ok(())
}

fn check(order: &Order, manifest: &Manifest) -> Result<(), Failure> {
    let claim = &order.claim;
    let seq = manifest.at.seq;
    let durable = order.durable();
    let why = if manifest.drive != claim.drive || manifest.epoch != claim.epoch {
        "it is of another drive or epoch".to_owned()
    } else if seq < order.began.seq || seq > durable.seq {
        format!("records {} to {} may be its last", order.began.seq, durable.seq)
    } else {
        return Ok(());
    };
    Err(Failure::DidNotHappen(format!(
        "the manifest at record {seq} is not published: {why}"
    )))
}

/// Takes out of what is kept all that no recovery needs once the manifest at `seq` is there.
fn unneeded(order: &Order, seq: Seq) -> Kept {
    let in_use = order.writer.lock().segment_in_use();
    let end = in_use.unwrap_or(order.began.seq.next());
    let mut kept = order.kept.lock();
    if kept.manifests.last() != Some(&seq) {
        kept.manifests.push(seq);
    }
    let old = kept.manifests.len().saturating_sub(MANIFESTS_KEPT);
    let manifests = kept.manifests.drain(..old).collect();
    let reached = match kept.manifests[..] {
        [oldest, _] => oldest.next(),
        _ => Seq(0),
    };
    // The next segment tells where one ends.
    let firsts = kept
        .segments
        .iter()
        .skip(1)
        .map(|segment| segment.first)
        .chain([end]);
    let old = firsts
        .take_while(|next| *next <= reached)
        .count()
        .min(kept.segments.len());
    let segments = kept.segments.drain(..old).collect();
    Kept { segments, manifests }
}

/// Deletes; what could not be deleted is kept again.
fn delete(order: &Order, mut old: Kept) -> Result<(), Failure> {
    let deleted = delete_each(order, &mut old);
    let mut kept = order.kept.lock();
    kept.segments.splice(..0, old.segments);
    kept.manifests.splice(..0, old.manifests);
    deleted
}

/// Deletes marks before their segments, and segments before manifests: the oldest manifest tells the next owner how far back to look for them.
fn delete_each(order: &Order, old: &mut Kept) -> Result<(), Failure> {
    while let Some(segment) = old.segments.first() {
        let mark = Mark {
            epoch: segment.epoch,
            first: segment.first,
        };
        mark.remove(&*order.disk, &order.claim.drive)?;
        order.disk.remove(&segment.key)?;
        old.segments.remove(0);
    }
    while let Some(seq) = old.manifests.first() {
        order.bucket.delete(&manifest::key(&order.claim.drive, *seq))?;
        old.manifests.remove(0);
    }
    Ok(())
}
