//! Making a drive, and taking one over: lock, claim, recovery, and the end of sessions that are dead.
//!
//! Invariant: nothing is served before the drive is recovered.

use crate::admin;
use crate::drive::{Drive, Inner, Options, Threads};
use crate::health::Health;
use crate::holder::{Holder, claimant};
use crate::holds::Holds;
use crate::order::{Live, Places};
use crate::place::Filling;
use crate::proof::Proof;
use crate::reclaim::{Stale, Sweep};
use crate::recover::recover;
use crate::session::Heard;
use crate::shared::Shares;
use crate::still::Holders;
use crate::trail::Trails;
use crate::work::Work;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tenure_journal::{Claimant, Means, Opening, epoch, spare};
use tenure_model::{BranchName, DriveName, Epoch, Failure, Refusal, record::Record::DriveCreated};
use tenure_store::key::parse_number;
use tenure_store::pack::Packs;
use tenure_store::{Bucket, OpenError};
use tenure_wire::Error;

/// Times that a drive is taken over whose owner still folds it meanwhile: it stops when it looks for claims, once a second.
const TRIES_MAX: u32 = 5;

/// What a new drive begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Drawn by the caller: keys the hash of names in directories.
    pub hash_key: [u8; 16],
    /// The first branch.
    pub branch: BranchName,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
}

impl Drive {
    /// Makes a drive and opens it; refuses one that is there already.
    pub fn create(
        bucket: Arc<dyn Bucket>,
        name: &DriveName,
        beginning: &Beginning,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        if has_manifest(bucket.as_ref(), name)? {
            return Err(exists(name));
        }
        let inner = match take_over(bucket.clone(), name, options) {
            // Who has it has made it meanwhile.
            Err(Error::Refused(Refusal::Held { .. })) if has_manifest(bucket.as_ref(), name)? => {
                return Err(exists(name));
            }
            taken => taken?,
        };
        if !inner.has_begun()? {
            inner.accept(|_| {
                let record = DriveCreated {
                    hash_key: beginning.hash_key,
                    branch: beginning.branch.clone(),
                    uid: beginning.uid,
                    gid: beginning.gid,
                    time: inner.options.clock.now(),
                };
                Ok((record, ()))
            })?;
        } else if inner.replayed > 1 {
            return Err(exists(name));
        }
        // One whose maker was killed right behind its first record is finished.
        // From here on the drive has a manifest, which is what tells that it is there.
        inner.fold()?;
        inner.keep_spare();
        Ok(Self::started(inner))
    }

    /// Opens a drive: this process owns it from then on. On a disk that is full it takes the room that was set aside for that.
    pub fn open(bucket: Arc<dyn Bucket>, name: &DriveName, options: Options) -> Result<Arc<Self>, Error> {
        match Self::open_once(bucket.clone(), name, options.clone()) {
            Err(Error::Failed(Failure::NoSpace(_))) if spare::give_up(bucket.as_ref()) => {
                Self::open_once(bucket, name, options)
            }
            opened => opened,
        }
    }

    fn open_once(bucket: Arc<dyn Bucket>, name: &DriveName, options: Options) -> Result<Arc<Self>, Error> {
        if !is_there(bucket.as_ref(), name)? {
            return Err(no_such(bucket.as_ref(), name));
        }
        let began = options.clock.elapsed();
        let inner = take_over(bucket, name, options)?;
        if !inner.has_begun()? {
            return Err(Refusal::Because(format!(
                "the drive {name} was begun and never finished; make it with `tenure drive create {name}`"
            ))
            .into());
        }
        inner.end_dead_sessions()?;
        let deposed = inner.deposed()?;
        let drive = Self::started(Arc::clone(&inner));
        if let Some(from) = deposed {
            inner.tell_taken_over(&from, began);
        }
        Ok(drive)
    }
}

/// Takes a drive over: nobody else owns it any more, and everything that was acknowledged is there.
///
/// What an owner that does not know yet has done meanwhile is found by beginning again.
fn take_over(bucket: Arc<dyn Bucket>, name: &DriveName, options: Options) -> Result<Arc<Inner>, Error> {
    let mut options = options;
    let mut tries = 1;
    let mut manifests = None;
    loop {
        let taken = try_take_over(bucket.clone(), name, &mut options);
        let is_last = bucket.disk().is_some() || tries == TRIES_MAX;
        tries += 1;
        match &taken {
            Err(Error::Failed(Failure::DidNotHappen(_))) if !is_last => {}
            // What the manifest leads to with which it was begun may have been given up since another was put.
            Err(Error::Failed(Failure::Corrupt(_))) if !is_last => {
                let now = bucket.children(&format!("drives/{name}/manifests/"))?;
                if manifests.replace(now.clone()) == Some(now) {
                    admin::refuse_deleted(bucket.as_ref(), name)?;
                    return taken;
                }
            }
            Err(Error::Failed(_)) => {
                // What is left of a drive is neither damaged nor old.
                admin::refuse_deleted(bucket.as_ref(), name)?;
                return taken;
            }
            Ok(_) | Err(_) => return taken,
        }
    }
}

fn try_take_over(
    bucket: Arc<dyn Bucket>,
    name: &DriveName,
    options: &mut Options,
) -> Result<Arc<Inner>, Error> {
    let claimant = Claimant {
        who: Holder::of(options).to_string(),
        after: options.after,
        means: means(options),
    };
    let opening = Opening::begin(bucket.clone(), name, claimant).map_err(refused)?;
    let opening = opening.with_sizes(options.journal_sizes);
    if opening.manifest().is_none() {
        admin::refuse_deleted(bucket.as_ref(), name)?;
    }
    let (epoch, health) = (opening.epoch(), Arc::new(Health::default()));
    // Whoever begins again follows on itself.
    options.after = options.after.map(|_| epoch);
    let packs = Packs::with_sizes(bucket.clone(), name.clone(), options.pack_sizes);
    let packs = packs.cached(options.cache.clone());
    let found = health.guard(epoch, || recover(bucket.as_ref(), name, (opening, packs)))?;
    let journal = Arc::downgrade(&found.journal);
    let closed = || Failure::DidNotHappen("the drive was closed".into());
    found
        .packs
        .guard(move || journal.upgrade().ok_or_else(closed)?.check_lock());
    if options.threads == Threads::Started {
        found.journal.start_threads()?;
        found.packs.start_thread()?;
    }
    let trails = Trails::new(name.clone(), bucket.as_ref());
    // A file holds many records; where each segment is an object, there may be one for each record.
    let inherited = if found.packs.are_held() {
        (found.records, found.epochs)
    } else {
        (0, 0)
    };
    let condemned = found.state.condemned().into_iter();
    let shut = condemned.map(|(name, _)| name.number).collect();
    let stale = Arc::<Stale>::default();
    let mut inner = Inner {
        name: name.clone(),
        epoch,
        filling: Filling::new(
            found.packs.clone(),
            epoch,
            (health.clone(), trails, stale.clone()),
            options.threads,
        ),
        holds: Holds::new(epoch, shut),
        sweep: Mutex::new(Sweep::begin(found.doomed, options.clock.elapsed())),
        stale,
        proof: Proof::new(bucket.as_ref(), &found.journal, options),
        packs: found.packs,
        loader: found.loader,
        memory: found.memory,
        health,
        places: Arc::new(Places::new(found.journal.durable())),
        news: found.state.news(),
        live: Mutex::new(Live {
            state: found.state,
            journal: Some(found.journal),
            sessions: 0,
            heard: Heard::by(options.clock.clone()),
            shares: Shares::default(),
            holders: Holders::default(),
        }),
        unfolded: AtomicU64::new(found.record_bytes),
        work: Arc::new(Work::new(options.fold_bytes, options.page_bytes_max, inherited)),
        restoring: Mutex::default(),
        folding: Mutex::new(found.folded),
        verified: Mutex::default(),
        notices: found.notices,
        replayed: found.records,
        bucket,
        options: options.clone(),
    };
    let lost = inner.lost_notices();
    inner.notices.extend(lost);
    Ok(Arc::new(inner))
}

/// Returns by what means a drive is claimed; without threads it is read one object after the other.
fn means(options: &Options) -> Means {
    let means = Means::new(options.clock.clone(), options.draw.clone());
    match options.threads {
        Threads::Started => means,
        Threads::None => Means {
            reads_at_once: 1,
            ..means
        },
    }
}

impl Inner {
    /// Returns who owned the drive before, where that owner had not closed it.
    fn deposed(&self) -> Result<Option<String>, Error> {
        if self.with(|live| Ok(live.journal()?.sealed_since()))?.is_none() {
            return Ok(None);
        }
        let before = Epoch(self.epoch.0.saturating_sub(1));
        // It is only told: the drive is open without it.
        let holder = claimant(self.bucket.as_ref(), &self.name, before).ok().flatten();
        Ok(Some(
            holder.map_or("an owner that is not known".to_owned(), |holder| {
                holder.to_string()
            }),
        ))
    }

    /// Logs that the drive was taken over, now that it is.
    fn tell_taken_over(&self, from: &str, began: Duration) {
        let took_ms = self.options.clock.elapsed().saturating_sub(began).as_millis();
        let (drive, epoch, records) = (&self.name, self.epoch.0, self.replayed);
        tracing::warn!(%drive, %from, epoch, records, took_ms, "took a drive over that its owner had not closed");
    }

    /// Sets room aside for the next owner, should the disk be full by then.
    pub(crate) fn keep_spare(&self) {
        spare::keep(self.bucket.as_ref(), self.options.journal_sizes.first);
    }

    /// Tells whether the drive's first record is there.
    fn has_begun(&self) -> Result<bool, Error> {
        self.with(|live| Ok(live.state.head().is_some()))
    }
}

/// Tells whether a drive of that name is there, and was finished.
pub(crate) fn has_manifest(bucket: &dyn Bucket, name: &DriveName) -> Result<bool, Failure> {
    let names = bucket.children(&format!("drives/{name}/manifests/"))?;
    Ok(names.iter().any(|name| parse_number(name).is_some()))
}

/// Tells whether there is anything of a drive. A group alone is nothing: services name one for a while after its last object
/// is gone.
pub(crate) fn is_there(bucket: &dyn Bucket, name: &DriveName) -> Result<bool, Failure> {
    let is_claimed = epoch::newest(bucket, name)? > Epoch(0);
    Ok(is_claimed || !bucket.list(&format!("drives/{name}/"))?.is_empty())
}

fn exists(name: &DriveName) -> Error {
    Refusal::Because(format!(
        "there is a drive {name} already; choose another name, or mount that one: `tenure mount {name} DIR`"
    ))
    .into()
}

fn no_such(bucket: &dyn Bucket, name: &DriveName) -> Error {
    Refusal::Because(format!("there is no drive {name} in {}", bucket.describe())).into()
}

pub(crate) fn refused(error: OpenError) -> Error {
    match error {
        OpenError::Refused(refusal) => refusal.into(),
        OpenError::Failed(failure) => failure.into(),
    }
}
