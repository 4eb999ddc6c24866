//! The proof that a store keeps what every drive rests on: that one name is given to one object, also in a race.
//!
//! It is made before a bucket is used, with objects of its own under `probes/`, which it removes. Not every store that
//! speaks S3 keeps this: some ignore the condition of a put, some look first and write then.

use crate::bucket::{Bucket, OpenError, Put};
use crate::key::Key;
use tenure_model::{Failure, Refusal};

/// Writers that race for one name.
const WRITERS: usize = 8;
/// Names for which they race: a store that loses races loses most of them.
const ROUNDS: usize = 4;

/// Puts, reads, lists and deletes objects, and refuses a bucket that does not keep what it should, by its name.
///
/// `nonce` makes the names; it is never used again. A failure leaves the question open: try again.
pub fn prove(bucket: &dyn Bucket, nonce: u64) -> Result<(), OpenError> {
    let probes = Probes {
        bucket,
        under: format!("probes/{nonce:016x}/"),
    };
    let proved = probes
        .a_name_is_given_once()
        .and_then(|()| probes.races_have_one_winner())
        .and_then(|()| probes.what_is_there_is_listed());
    let removed = probes.what_is_deleted_is_gone();
    proved.and(removed)
}

struct Probes<'a> {
    bucket: &'a dyn Bucket,
    under: String,
}

impl Probes<'_> {
    fn a_name_is_given_once(&self) -> Result<(), OpenError> {
        let key = self.key("once");
        let (first, second) = (b"the first to come".as_slice(), b"the second".as_slice());
        self.bucket.put_if_absent(&key, first)?;
        if self.bucket.put_if_absent(&key, second)? == Put::Created {
            return Err(self.refused("it puts an object over another, although it is told not to"));
        }
        match self.bucket.get(&key)? {
            Some(found) if found == first => {}
            Some(_) => {
                return Err(self.refused("it says that it does not put an object over another, and does"));
            }
            None => return Err(self.refused("an object that was put is not found")),
        }
        let mut part = [0; 5];
        self.bucket.get_range(&key, 4, &mut part)?;
        if part != first[4..9] {
            return Err(self.refused("it returns other bytes than those that are asked for"));
        }
        Ok(())
    }

    /// Has several names raced for at once: some stores settle one race in seconds.
    fn races_have_one_winner(&self) -> Result<(), OpenError> {
        let race = |round| self.one_of_many_writers_wins(round);
        std::thread::scope(|threads| {
            let races: Vec<_> = (0..ROUNDS)
                .map(|round| threads.spawn(move || race(round)))
                .collect();
            // Each is waited for, whatever has come of those before.
            let raced: Vec<_> = races.into_iter().map(|race| race.join()).collect();
            raced
                .into_iter()
                .try_for_each(|raced| raced.expect("a race does not panic"))
        })
    }

    fn one_of_many_writers_wins(&self, round: usize) -> Result<(), OpenError> {
        let key = self.key(&format!("race-{round}"));
        let puts = self.race(&key);
        let created: Vec<usize> = (0..WRITERS)
            .filter(|writer| puts[*writer] == Ok(Put::Created))
            .collect();
        if created.len() > 1 {
            let many = created.len();
            return Err(self.refused(&format!("it lets {many} writers at once create one object")));
        }
        match (created.first(), self.bucket.get(&key)?) {
            (Some(winner), Some(found)) if found == body(*winner) => Ok(()),
            // The reply to whoever won was lost.
            (None, Some(found)) if (0..WRITERS).any(|writer| found == body(writer)) => Ok(()),
            (None, None) => match puts.into_iter().find_map(Result::err) {
                Some(failure) => Err(failure.into()),
                None => Err(self.refused("it says that an object is there which is not")),
            },
            _ => Err(self.refused("of writers at once, it tells one that it won, and lets another win")),
        }
    }

    /// Has several writers put one object at once, and returns what each was told.
    fn race(&self, key: &Key) -> Vec<Result<Put, Failure>> {
        let start = std::sync::Barrier::new(WRITERS);
        let put = |writer: usize| {
            start.wait();
            self.bucket.put_if_absent(key, &body(writer))
        };
        std::thread::scope(|threads| {
            let writers = (0..WRITERS).map(|writer| threads.spawn(move || put(writer)));
            let writers: Vec<_> = writers.collect();
            let ended = writers.into_iter().map(|writer| writer.join());
            ended.map(|put| put.expect("a put does not panic")).collect()
        })
    }

    fn what_is_there_is_listed(&self) -> Result<(), OpenError> {
        let raced = (0..ROUNDS).map(|round| self.key(&format!("race-{round}")));
        let wanted: Vec<Key> = std::iter::once(self.key("once")).chain(raced).collect();
        if self.bucket.list(&self.under)? == wanted {
            return Ok(());
        }
        Err(self.refused("what was put is not listed at once"))
    }

    fn what_is_deleted_is_gone(&self) -> Result<(), OpenError> {
        for key in self.bucket.list(&self.under)? {
            self.bucket.delete(&key)?;
        }
        if self.bucket.list(&self.under)?.is_empty() && self.bucket.get(&self.key("once"))?.is_none() {
            return Ok(());
        }
        Err(self.refused("what was deleted is still there"))
    }

    fn key(&self, name: &str) -> Key {
        Key::parse(&format!("{}{name}", self.under)).expect("a literal name makes a key")
    }

    fn refused(&self, why: &str) -> OpenError {
        Refusal::Because(format!(
            "{} cannot hold drives: {why}; use a store that keeps conditional puts (`If-None-Match: *`)",
            self.bucket.describe()
        ))
        .into()
    }
}

fn body(writer: usize) -> Vec<u8> {
    format!("writer {writer}").into_bytes()
}
