//! No input makes a reader take more memory than the input is worth.
//!
//! An allocator that counts what this thread holds is the judge.

use super::values::{self, Written, WrittenKind};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tenure_model::acl::Acl;
use tenure_model::codec::put_varint;

/// A value takes at most so many times the bytes it was read from: the smallest `Piece` has four bytes and takes 64 in
/// a list, which has twice the room it needs while it grows, and half as much of the room before.
const TIMES_MAX: usize = 64;
/// What a list, or a string, may have at once beyond that.
const BESIDES: usize = 1024;

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counts any more, and nothing to count.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one only counts"
)]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the most bytes that were held at once while `run` ran, beyond those before.
fn peak(run: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    run();
    (PEAK.get() - before).cast_unsigned()
}

fn is_bounded(kind: WrittenKind, bytes: &[u8]) {
    let most = peak(|| drop(kind.rewritten(bytes)));
    assert!(
        most <= bytes.len() * TIMES_MAX + BESIDES,
        "{kind:?}: {most} bytes for {}",
        bytes.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_lie_about_a_length_costs_nothing(
        Written { bytes, kind } in values::written(),
        at in any::<prop::sample::Index>(),
        lie in prop_oneof![Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 40), 0u64..5000],
    ) {
        is_bounded(kind, &bytes);
        let at = at.index(bytes.len());
        let mut lying = bytes[..at].to_vec();
        put_varint(&mut lying, lie);
        lying.extend_from_slice(&bytes[at..]);
        is_bounded(kind, &lying);
        lying.resize(lying.len() + 5000, 1);
        is_bounded(kind, &lying);
    }
}

#[test]
fn a_list_of_the_smallest_values_takes_what_they_take() {
    // Op 8 is a write; its list has as many pieces of one byte as there is room for.
    let mut write = vec![8, 7, 0, 0];
    put_varint(&mut write, 20_000);
    (0..20_000).for_each(|_| write.extend_from_slice(&[1, 0, 1, b'x']));
    assert!(WrittenKind::Op.rewritten(&write).is_some());
    is_bounded(WrittenKind::Op, &write);
}

#[test]
fn an_access_control_list_takes_what_its_value_takes() {
    let mut value = vec![2, 0, 0, 0];
    (0..8000).for_each(|_| value.extend_from_slice(&[1, 0, 7, 0, 0, 0, 0, 0]));
    let most = peak(|| drop(Acl::parse(&value)));
    assert!(
        most <= value.len() * 4 + BESIDES,
        "{most} bytes for {}",
        value.len()
    );
}
