//! Opens a drive, runs core behind the journal, lends authority and folds.
