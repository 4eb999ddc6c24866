//! The tree against a sorted map, a bucket that loses nothing, and threads.

mod diff;
mod format;
mod model;
mod pages;
mod shelf;
mod threads;
