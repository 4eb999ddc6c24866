//! Access control lists: which are valid, and what they and the nine permission bits say to each other.

use proptest::prelude::*;
use tenure_model::acl::{Acl, Tag};

/// Lines of a list as they are written: tag, permission, number.
type Line = (u16, u16, u32);

pub(super) fn value(lines: &[Line]) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    for (tag, perm, id) in lines {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&perm.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

const NOBODY: u32 = u32::MAX;

/// A valid list.
pub(super) fn list() -> impl Strategy<Value = Acl> {
    let names = || prop::collection::btree_map(any::<u32>(), 0u16..8, 0..4);
    (
        [0u16..8, 0u16..8, 0u16..8, 0u16..8],
        names(),
        names(),
        any::<bool>(),
    )
        .prop_map(|([owner, group, mask, other], users, groups, masked)| {
            let mut lines = vec![(1, owner, NOBODY)];
            lines.extend(users.iter().map(|(id, perm)| (2, *perm, *id)));
            lines.push((4, group, NOBODY));
            lines.extend(groups.iter().map(|(id, perm)| (8, *perm, *id)));
            if masked || lines.len() > 2 {
                lines.push((16, mask, NOBODY));
            }
            lines.push((32, other, NOBODY));
            Acl::parse(&value(&lines)).expect("the list is valid")
        })
}

#[test]
fn a_list_without_owner_group_or_other_or_with_two_of_them_is_refused() {
    let whole = [(1, 7, NOBODY), (4, 5, NOBODY), (32, 1, NOBODY)];
    assert!(Acl::parse(&value(&whole)).is_ok());
    for at in 0..whole.len() {
        let mut less = whole.to_vec();
        less.remove(at);
        assert!(Acl::parse(&value(&less)).is_err(), "without line {at}");
        let mut more = whole.to_vec();
        more.insert(at, whole[at]);
        assert!(Acl::parse(&value(&more)).is_err(), "with line {at} twice");
        let mut turned = whole.to_vec();
        turned.rotate_left(at);
        assert_eq!(Acl::parse(&value(&turned)).is_ok(), at == 0, "turned by {at}");
    }
    assert!(Acl::parse(&value(&[])).is_err());
    assert!(Acl::parse(&[]).is_err());
}

#[test]
fn a_list_with_a_named_user_or_group_needs_a_mask() {
    for named in [(2, 7, 5), (8, 7, 5)] {
        let mut lines = vec![(1, 7, NOBODY), (4, 5, NOBODY), named, (32, 1, NOBODY)];
        lines.sort();
        assert!(Acl::parse(&value(&lines)).is_err());
        lines.push((16, 7, NOBODY));
        lines.sort();
        assert!(Acl::parse(&value(&lines)).is_ok());
    }
}

#[test]
fn named_users_come_in_any_order_as_the_kernel_takes_them() {
    let lines = [
        (1, 7, NOBODY),
        (2, 6, 9),
        (2, 4, 5),
        (4, 5, NOBODY),
        (16, 7, NOBODY),
        (32, 1, NOBODY),
    ];
    let acl = Acl::parse(&value(&lines)).expect("posix_acl_valid looks at tags only");
    assert_eq!(acl.to_value(), value(&lines));
}

#[test]
fn a_value_of_another_version_or_length_or_with_odd_permissions_is_refused() {
    let good = value(&[(1, 7, NOBODY), (4, 5, NOBODY), (32, 1, NOBODY)]);
    let changed = |at: usize, byte: u8| {
        let mut value = good.clone();
        value[at] = byte;
        value
    };
    assert!(Acl::parse(&changed(0, 1)).is_err(), "version 1");
    assert!(Acl::parse(&changed(4, 3)).is_err(), "tag 3");
    assert!(Acl::parse(&changed(6, 8)).is_err(), "permission 8");
    assert!(Acl::parse(&good[..good.len() - 1]).is_err(), "one byte less");
    let numbered = Acl::parse(&changed(8, 5)).expect("the number of the owner's line means nothing");
    assert_eq!(numbered.to_value(), good);
}

proptest! {
    #[test]
    fn the_mask_stands_for_the_group_in_the_mode(acl in list(), mode in 0u32..0o1000) {
        let line = |acl: &Acl, tag: Tag| acl.entries().iter().find(|entry| entry.tag == tag).map(|entry| entry.perm);
        let group_tag = if line(&acl, Tag::Mask).is_some() { Tag::Mask } else { Tag::GroupObj };
        let said = |acl: &Acl| {
            let [owner, group, other] = [Tag::UserObj, group_tag, Tag::Other].map(|tag| line(acl, tag).map(u32::from));
            owner.zip(group).zip(other).map(|((owner, group), other)| owner << 6 | group << 3 | other)
        };
        prop_assert_eq!(Some(acl.mode()), said(&acl));
        prop_assert_eq!(acl.is_mode_alone(), acl.entries().len() == 3);

        let mut set = acl.clone();
        set.set_mode(mode);
        prop_assert_eq!(set.mode(), mode);
        let untouched = |acl: &Acl| -> Vec<_> {
            let is_touched = |tag| tag == Tag::UserObj || tag == Tag::Other || tag == group_tag;
            acl.entries().iter().filter(|entry| !is_touched(entry.tag)).copied().collect()
        };
        prop_assert_eq!(untouched(&set), untouched(&acl));

        let mut narrowed = acl.clone();
        prop_assert_eq!(narrowed.narrow(mode), acl.mode() & mode);
        prop_assert_eq!(narrowed.mode(), acl.mode() & mode);
        prop_assert_eq!(untouched(&narrowed), untouched(&acl));
    }
}
