//! What is written is read back as it was, alone and with something behind it.

use super::values;
use proptest::prelude::*;
use std::fmt::Debug;
use tenure_model::acl::Acl;
use tenure_model::codec::{Codec, Reader, put_bytes, put_list, put_option, put_signed, put_varint};

fn round_trip<T: Codec + PartialEq + Debug>(value: &T, behind: &[u8]) {
    let mut bytes = value.written();
    assert_eq!(T::parsed(&bytes).as_ref(), Ok(value));
    bytes.extend_from_slice(behind);
    let mut input = Reader::new(&bytes);
    assert_eq!(T::read(&mut input).as_ref(), Ok(value));
    assert_eq!(input.remaining(), behind.len(), "a value says where it ends");
    assert_eq!(
        T::parsed(&bytes).is_ok(),
        behind.is_empty(),
        "what is left over is refused"
    );
}

macro_rules! round_trips {
    ($($test:ident: $strategy:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $test(value in $strategy, behind in prop::collection::vec(any::<u8>(), 0..3)) {
                    round_trip(&value, &behind);
                }
            )*
        }
    };
}

round_trips! {
    a_timestamp_is_read_as_it_was_written: values::time();
    attributes_are_read_as_they_were_written: values::attr();
    a_change_of_attributes_is_read_as_it_was_written: values::attr_change();
    an_address_is_read_as_it_was_written: values::address();
    an_extent_is_read_as_it_was_written: values::extent();
    a_piece_is_read_as_it_was_written: values::piece();
    a_new_node_is_read_as_it_was_written: values::node();
    a_rename_mode_is_read_as_it_was_written: values::rename_mode();
    an_attribute_mode_is_read_as_it_was_written: values::xattr_mode();
    a_name_is_read_as_it_was_written: values::name();
    the_name_of_an_attribute_is_read_as_it_was_written: values::xattr_name();
    an_op_is_read_as_it_was_written: values::op();
    a_place_of_a_chunk_is_read_as_it_was_written: values::chunk_place();
    a_batch_is_read_as_it_was_written: values::batch();
    a_source_is_read_as_it_was_written: values::source();
    a_record_is_read_as_it_was_written: values::record();
}

proptest! {
    #[test]
    fn numbers_lists_options_and_strings_are_read_as_they_were_written(
        number in values::number(),
        signed in any::<i64>(),
        list in prop::collection::vec(values::ino(), 0..9),
        option in prop::option::of(values::time()),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        text in ".{0,30}",
    ) {
        let mut out = Vec::new();
        put_varint(&mut out, number);
        put_signed(&mut out, signed);
        put_list(&mut out, &list);
        put_option(&mut out, option.as_ref());
        put_bytes(&mut out, &bytes);
        put_bytes(&mut out, text.as_bytes());
        let mut input = Reader::new(&out);
        prop_assert_eq!(input.varint(), Ok(number));
        prop_assert_eq!(input.signed(), Ok(signed));
        prop_assert_eq!(input.list(), Ok(list));
        prop_assert_eq!(input.option(), Ok(option));
        prop_assert_eq!(input.bytes(), Ok(&bytes[..]));
        prop_assert_eq!(input.text(), Ok(&text[..]));
        prop_assert_eq!(input.end(), Ok(()));
    }

    #[test]
    fn a_part_of_an_extent_is_those_bytes_of_it(
        extent in values::extent(),
        cut in any::<[prop::sample::Index; 2]>(),
    ) {
        let [from, len] = cut;
        let from = from.index(extent.len() as usize) as u64;
        let len = len.index((extent.len() - from) as usize) as u64 + 1;
        let part = extent.part(from, len);
        prop_assert_eq!(part.len(), len);
        match (&extent, &part) {
            (tenure_model::Extent::Inline(whole), tenure_model::Extent::Inline(part)) => {
                prop_assert_eq!(&whole[from as usize..(from + len) as usize], &part[..]);
            }
            (
                tenure_model::Extent::Chunk { at: whole, start, .. },
                tenure_model::Extent::Chunk { at, start: part_start, .. },
            ) => {
                prop_assert_eq!(whole, at);
                prop_assert_eq!(u64::from(*start) + from, u64::from(*part_start));
            }
            _ => prop_assert!(false, "a part is of the same kind"),
        }
    }

    #[test]
    fn an_access_control_list_is_read_as_it_was_written(acl in super::access::list()) {
        let value = acl.to_value();
        prop_assert_eq!(Acl::parse(&value), Ok(acl));
    }
}
