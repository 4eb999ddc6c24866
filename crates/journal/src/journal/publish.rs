//! Publishing a manifest, and deleting what no recovery needs any more.
//!
//! Invariant: from each of the two newest manifests every later record can be read, so that one of them may be damaged.

use super::order::Order;
use crate::manifest::{self, Manifest};
use tenure_model::{Failure, Seq};

/// Manifests that are kept, and that an owner may begin with: the newest, and one for when that is damaged.
pub const MANIFESTS_KEPT: usize = 2;

pub(super) fn publish(order: &Order, manifest: &Manifest) -> Result<(), Failure> {
    check(order, manifest)?;
    manifest::put(&*order.bucket, manifest)?;
    if let Err(failure) = delete_unneeded(order, manifest.at.seq) {
        // The manifest is durable; what could not be deleted is tried again after the next one.
        tracing::warn!(%failure, "old parts of the journal could not be deleted");
    }
    Ok(())
}

/// Returns the record that the older of the manifests follows that are kept.
pub(super) fn reached(order: &Order) -> Option<Seq> {
    let manifests = order.manifests.lock();
    let before = manifests.len().checked_sub(MANIFESTS_KEPT)?;
    Some(manifests[before])
}

/// Deletes the manifests before the newest that are not kept.
pub(super) fn remove_others(order: &Order) -> Result<(), Failure> {
    let (kept, drive) = (order.manifests.lock().clone(), &order.claim.drive);
    let kept = &kept[kept.len().saturating_sub(MANIFESTS_KEPT)..];
    for seq in manifest::list(&*order.bucket, drive)? {
        if kept.last() > Some(&seq) && !kept.contains(&seq) {
            order.bucket.delete(&manifest::key(drive, seq))?;
        }
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

/// Deletes what no recovery needs once the manifest at `seq` is there: records before manifests, since the oldest manifest
/// tells the next owner how far back to look for them.
fn delete_unneeded(order: &Order, seq: Seq) -> Result<(), Failure> {
    let (reached, mut old) = unneeded(order, seq);
    let deleted = order.tier.forget(reached).and_then(|()| {
        while let Some(seq) = old.first() {
            order.bucket.delete(&manifest::key(&order.claim.drive, *seq))?;
            old.remove(0);
        }
        Ok(())
    });
    order.manifests.lock().splice(..0, old);
    deleted
}

/// Returns from which record on the journal is needed once the manifest at `seq` is there, and takes out of those that are
/// kept the manifests that are not.
fn unneeded(order: &Order, seq: Seq) -> (Seq, Vec<Seq>) {
    let mut manifests = order.manifests.lock();
    if manifests.last() != Some(&seq) {
        manifests.push(seq);
    }
    let old = manifests.len().saturating_sub(MANIFESTS_KEPT);
    let old = manifests.drain(..old).collect();
    let reached = match manifests[..] {
        [oldest, _] => oldest.next(),
        _ => Seq(0),
    };
    (reached, old)
}
