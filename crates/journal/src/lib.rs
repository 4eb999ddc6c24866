//! The order of a drive: claim, seal, append, replay, manifest; fenced by epoch.
