//! Writing the dirty pages of a tree out, children before parents, so that each page can name those below it.
//!
//! It works on a tree that nobody changes: fold a clone while the original goes on. Both see what was written, as
//! far as they still share it.

use super::bytes::encode;
use super::page::{Body, Page};
use std::sync::Arc;
use tenure_model::Address;

/// Writes the dirty pages at and below `edge`, and returns where the page rests.
pub(super) fn fold<E>(
    edge: &Arc<Page>,
    scratch: &mut Vec<u8>,
    put: &mut dyn FnMut(&[u8]) -> Result<Address, E>,
) -> Result<Address, E> {
    if let Some(at) = edge.address() {
        return Ok(*at);
    }
    let body = edge.peek().expect("a dirty page has its body");
    if let Body::Branch(branch) = &*body {
        for child in &branch.children {
            fold(child, scratch, put)?;
        }
    }
    let at = put(encode(&body, scratch))?;
    Ok(edge.settle(at, &body))
}
