//! Names: what `parse` takes is exactly what a name may be, and it is kept as it is.

use proptest::collection::vec;
use proptest::prelude::*;
use tenure_model::{BranchName, CheckpointName, DriveName, Name, Ref, Refusal, XattrName};

proptest! {
    #[test]
    fn a_name_is_any_bytes_but_slash_nul_dot_and_dot_dot(
        bytes in vec(prop_oneof![any::<u8>(), Just(b'.'), Just(b'a')], 0..300),
    ) {
        let expected = match &bytes[..] {
            long if long.len() > 255 => Err(Refusal::NameTooLong),
            b"" | b"." | b".." => Err(Refusal::InvalidName),
            bytes if bytes.contains(&0) || bytes.contains(&b'/') => Err(Refusal::InvalidName),
            bytes => Ok(bytes),
        };
        let parsed = Name::parse(&bytes);
        prop_assert_eq!(parsed.as_ref().map(Name::as_bytes), expected.as_ref().copied());
    }

    #[test]
    fn the_name_of_an_attribute_is_any_bytes_but_nul(bytes in vec(any::<u8>(), 0..300)) {
        let expected = match &bytes[..] {
            b"" => Err(Refusal::InvalidArgument),
            bytes if bytes.contains(&0) => Err(Refusal::InvalidArgument),
            long if long.len() > 255 => Err(Refusal::Range),
            bytes => Ok(bytes),
        };
        let parsed = XattrName::parse(&bytes);
        prop_assert_eq!(parsed.as_ref().map(XattrName::as_bytes), expected.as_ref().copied());
    }

    #[test]
    fn the_name_of_a_drive_branch_or_checkpoint_can_be_part_of_a_key(
        text in prop_oneof!["[A-Za-z0-9._-]{0,12}", ".{0,12}", "[a-z]{95,105}"],
    ) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let expected = text.chars().next().is_some_and(|first| first.is_ascii_alphanumeric())
            && text.len() <= 100
            && text.chars().all(is_plain);
        let parsed = [
            DriveName::parse(&text).map(|name| name.to_string()),
            BranchName::parse(&text).map(|name| name.as_str().to_owned()),
            CheckpointName::parse(&text).map(|name| name.to_string()),
        ];
        for parsed in parsed {
            match parsed {
                Ok(kept) => prop_assert!(expected && kept == text),
                Err(why) => prop_assert!(!expected && why.contains(&format!("{text:?}")), "{}", why),
            }
        }
    }

    #[test]
    fn a_reference_is_a_drive_and_what_stands_behind_the_first_at(text in "[a-z@.]{0,12}") {
        let (drive, at) = match text.split_once('@') {
            Some((drive, at)) => (drive, Some(at)),
            None => (&text[..], None),
        };
        let is_name = |text: &str| DriveName::parse(text).is_ok();
        let expected = is_name(drive) && at.is_none_or(is_name);
        match Ref::parse(&text) {
            Ok(parsed) => {
                prop_assert!(expected);
                prop_assert_eq!((parsed.drive.as_str(), parsed.at.as_deref()), (drive, at));
            }
            Err(_) => prop_assert!(!expected),
        }
    }
}

#[test]
fn names_are_shown_so_that_any_byte_can_be_seen() {
    let name = Name::parse(b"a\x01\xff\"").expect("it is a name");
    assert_eq!(format!("{name:?}"), r#""a\x01\xff\"""#);
}

#[test]
fn names_sort_by_their_bytes() {
    let name = |bytes: &[u8]| Name::parse(bytes).expect("it is a name");
    assert!(name(b"B") < name(b"a") && name(b"a") < name(b"a\x01") && name(b"z") < name(b"\xff"));
}

#[test]
fn a_name_is_shown_so_that_it_does_nothing_to_a_terminal_and_is_like_no_other() {
    let shown = |name: &[u8]| tenure_model::shown(name);
    assert_eq!(shown("größe 1.txt".as_bytes()), "größe 1.txt");
    assert_eq!(shown(b"a\x1b[31mred\nerror"), "a\\u{1b}[31mred\\nerror");
    assert_eq!(shown(b"a\xff\xc3b"), "a\\xff\\xc3b");
    assert_ne!(shown(b"\\xff"), shown(b"\xff"));
}
