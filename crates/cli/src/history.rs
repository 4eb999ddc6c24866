//! What a branch was: its checkpoints, also those that the drive has made by itself, and which of them somebody means.

use crate::clock::MachineClock;
use crate::duration;
use crate::error::Told;
use crate::mounts;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use crate::status::Mounted;
use anyhow::Result;
use std::path::Path;
use tenure_client::{BranchInfo, Lines};
use tenure_model::{Clock, DriveName, Ref, Timestamp};

/// A branch, and what it was.
pub(crate) struct History {
    /// The branch as it is.
    pub(crate) branch: BranchInfo,
    /// Its checkpoints, oldest first.
    pub(crate) points: Vec<BranchInfo>,
}

impl History {
    /// Asks for a branch and what it was.
    pub(crate) fn of(owner: &AnyOwner, place: &Place, drive: &DriveName, name: &str) -> Result<Self> {
        let branch = branch(owner, place, drive, name)?;
        let points = Lines::of(owner.clone()).checkpoints_of(&branch)?;
        Ok(History { branch, points })
    }

    /// Returns the last checkpoint that was made at or before a time.
    pub(crate) fn at(&self, time: Timestamp) -> Option<&BranchInfo> {
        self.points.iter().rev().find(|point| point.made <= time)
    }
}

/// Returns a branch, and refuses a checkpoint: it was never anything else.
pub(crate) fn branch(owner: &AnyOwner, place: &Place, drive: &DriveName, name: &str) -> Result<BranchInfo> {
    let branch = reach::line(owner, place, drive, name)?;
    if branch.branch.is_none() {
        return Err(Told::refused(
            format!("{drive}@{name} is a checkpoint, and was never anything else"),
            format!("tenure branch list {drive}{}", place.options()),
        ));
    }
    Ok(branch)
}

/// Returns the last checkpoint of a branch before a time that somebody names, or refuses.
pub(crate) fn point(
    owner: &AnyOwner,
    place: &Place,
    (drive, branch): (&DriveName, &str),
    named: &str,
) -> Result<BranchInfo> {
    let known = || format!("tenure branch list {drive} --all{}", place.options());
    let Some(time) = when(named, MachineClock.now()) else {
        return Err(Told::refused(
            format!(
                "{drive} has no branch or checkpoint {named}, and that is no time (10m, 2026-12-01T06:45)"
            ),
            known(),
        ));
    };
    let history = History::of(owner, place, drive, branch)?;
    history.at(time).cloned().ok_or_else(|| {
        Told::refused(
            format!("no checkpoint of {drive}@{branch} is as old as {}", time.stamp()),
            known(),
        )
    })
}

/// Reads how long ago something was, or when in UTC: `10m`, `2026-12-01T06:45`, `20261201T064500Z`.
pub(crate) fn when(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(ago) = duration::parse(text) {
        let secs = i64::try_from(ago.as_secs()).ok()?;
        return Some(Timestamp {
            secs: now.secs.checked_sub(secs)?,
            nanos: now.nanos,
        });
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let is_one = text
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 'Z' | ' '));
    if !is_one || !matches!(digits.len(), 8 | 12 | 14) {
        return None;
    }
    let padded = format!("{digits:0<14}");
    let number = |from: usize, to: usize| padded[from..to].parse::<i64>().ok();
    let days = days_of(number(0, 4)?, number(4, 6)?, number(6, 8)?)?;
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let secs = days * 86_400 + hour * 3600 + minute * 60 + second;
    let time = Timestamp {
        secs,
        nanos: 999_999_999,
    };
    // What no clock shows is no time.
    (hour < 24 && minute < 60 && second < 60).then_some(time)
}

/// Returns the days from 1970-01-01 to a day (`days_from_civil` by Howard Hinnant), if there is such a day.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let stamp = Timestamp {
        secs: days * 86_400,
        nanos: 0,
    }
    .stamp();
    (stamp[..8] == format!("{year:04}{month:02}{day:02}")).then_some(days)
}

/// Returns what is mounted around the directory where this command runs, if no drive is named.
pub(crate) fn meant(named: Option<&Ref>) -> Result<Ref> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let none = || {
        Told::refused(
            "no drive is named, and this directory is in no mount of one",
            "tenure drive list; or cd into a mount",
        )
    };
    let dir = mounts::around(Path::new("."))?.ok_or_else(none)?;
    let status = Mounted::at(&dir)?.status;
    Ref::parse(&format!("{}@{}", status.drive, status.branch)).map_err(|_| none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp {
        secs: 1_796_107_500,
        nanos: 5,
    };

    #[test]
    fn a_time_is_ago_or_in_utc() {
        let secs = |text| when(text, NOW).map(|time| time.secs);
        for (text, expected) in [
            ("10m", NOW.secs - 600),
            ("2d", NOW.secs - 172_800),
            ("2026-12-01T06:45", NOW.secs),
            ("2026-12-01 06:45:01", NOW.secs + 1),
            ("20261201T064500Z", NOW.secs),
            ("2000-02-29", 951_782_400),
        ] {
            assert_eq!(secs(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "main",
            "2026-13-01",
            "2026-02-29",
            "2026-12-01T24:00",
            "2026-12-01T06:4",
        ] {
            assert_eq!(secs(text), None, "{text}");
        }
    }
}
