//! What the store promises, over every bucket.

mod buckets;
