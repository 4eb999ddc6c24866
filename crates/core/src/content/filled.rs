//! A file's bytes from its pieces.

use tenure_model::Piece;

/// Fills `out` with what pieces hold from `offset` on: `read` gives the bytes of each, and what none covers is zeros. The pieces lie
/// within, in order.
pub fn fill<E>(
    pieces: &[Piece],
    offset: u64,
    out: &mut [u8],
    read: impl Fn(&Piece, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut end = 0;
    for piece in pieces {
        let from = (piece.offset - offset) as usize;
        out[end..from].fill(0);
        end = from + piece.extent.len() as usize;
        read(piece, &mut out[from..end])?;
    }
    out[end..].fill(0);
    Ok(())
}
