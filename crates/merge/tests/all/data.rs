//! What a merge by structure says, as other readers of the formats read it.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value};
use tenure_merge::{Driver, Outcome, merge};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Maps of maps, of which both sides change some values, written in any layout.
    #[test]
    fn json_says_what_both_sides_say(base in tree(), ours in changes(), theirs in changes(), is_pretty in any::<[bool; 3]>()) {
        let [ours, theirs] = [ours, theirs].map(|changes| changed(&base, &changes));
        let expected = merged(Some(&base), Some(&ours), Some(&theirs));
        let write = |value: &Value, is_pretty: bool| {
            if is_pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) }.expect("a value can be written")
        };
        let [base, ours, theirs] = [(&base, is_pretty[0]), (&ours, is_pretty[1]), (&theirs, is_pretty[2])].map(|(value, is_pretty)| write(value, is_pretty));
        match (merge(Driver::Json, Some(&base), &ours, &theirs), expected) {
            (Outcome::Merged(merged), Ok(Some(expected))) => {
                prop_assert_eq!(merged.by, Driver::Json);
                let said: Value = serde_json::from_slice(&merged.content).expect("what comes of JSON is JSON");
                prop_assert_eq!(said, expected);
            }
            (Outcome::Conflict(conflict), Err(())) => prop_assert_eq!(conflict.by, Driver::Json),
            (outcome, expected) => prop_assert!(false, "{outcome:?}, and not {expected:?}"),
        }
    }

    /// The same as tables and mappings: what is merged by structure says it, and a conflict is one.
    #[test]
    fn toml_and_yaml_say_it_too(base in tree(), ours in changes(), theirs in changes()) {
        let [ours, theirs] = [ours, theirs].map(|changes| changed(&base, &changes));
        let expected = merged(Some(&base), Some(&ours), Some(&theirs));
        for (driver, write) in [(Driver::Toml, as_toml as fn(&Value) -> String), (Driver::Yaml, as_yaml)] {
            let [base, ours, theirs] = [&base, &ours, &theirs].map(write);
            match (merge(driver, Some(base.as_bytes()), ours.as_bytes(), theirs.as_bytes()), &expected) {
                (Outcome::Merged(merged), Ok(Some(expected))) => {
                    let said = String::from_utf8(merged.content).expect("it is text");
                    // Entries may be in another order.
                    let sorted = |text: &str| {
                        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                        lines.sort();
                        lines
                    };
                    prop_assert_eq!(merged.by, driver, "{}", said);
                    prop_assert_eq!(sorted(&said), sorted(&write(expected)), "{}", said);
                }
                (Outcome::Conflict(conflict), Err(())) => prop_assert_eq!(conflict.by, driver),
                // What is empty is written on one line, and goes from or to another form.
                (Outcome::Conflict(conflict), Ok(_)) => prop_assert!(conflict.unfit.is_some(), "{:?}", conflict),
                (outcome, expected) => prop_assert!(false, "{outcome:?}, and not {expected:?}"),
            }
        }
    }

    /// What JSON is, is what another reader takes for it; but for last commas, which it has not, and keys that are there twice.
    #[test]
    fn json_is_what_others_take_for_it(text in "(\\{|\\}|\\[|\\]|,|:|\"a\"|\"b\"|\"\\\\u00e9\"|\"\\\\x\"|1|-0|01|1\\.5|1E-5|1e|true|nul|null| |\n){1,12}") {
        let text = format!("[{text}]");
        let is_json = serde_json::from_str::<Value>(&text).is_ok();
        let (ours, theirs) = (format!("{text} "), format!("{text}\n"));
        let unfit = match merge(Driver::Json, Some(text.as_bytes()), ours.as_bytes(), theirs.as_bytes()) {
            Outcome::Merged(merged) => merged.unfit,
            Outcome::Conflict(conflict) => conflict.unfit,
        };
        let packed = text.replace([' ', '\n'], "");
        let ends_with_comma = packed.contains(",]") || packed.contains(",}");
        match unfit {
            None => prop_assert!(is_json || ends_with_comma, "{}", text),
            Some(unfit) => prop_assert!(!is_json || unfit.reason.ends_with("twice"), "{}: {}", text, unfit.reason),
        }
    }
}

/// What merging maps by key gives; a conflict is an error.
fn merged(base: Option<&Value>, ours: Option<&Value>, theirs: Option<&Value>) -> Result<Option<Value>, ()> {
    if ours == theirs || base == theirs {
        return Ok(ours.cloned());
    }
    if base == ours {
        return Ok(theirs.cloned());
    }
    let empty = Value::Object(Map::new());
    let (Some(Value::Object(ours)), Some(Value::Object(theirs)), Value::Object(base)) =
        (ours, theirs, base.unwrap_or(&empty))
    else {
        return Err(());
    };
    let mut map = Map::new();
    for key in ours.keys().chain(theirs.keys()) {
        if let Some(value) = merged(base.get(key), ours.get(key), theirs.get(key))? {
            map.insert(key.clone(), value);
        }
    }
    Ok(Some(Value::Object(map)))
}

/// A map with maps in it.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = (0..4_u8).prop_map(Value::from);
    let inner = btree_map("[a-e]", leaf, 1..4).prop_map(|map| Value::Object(map.into_iter().collect()));
    let value = prop_oneof![(0..4_u8).prop_map(Value::from), inner];
    btree_map("[f-j]", value, 1..5).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Keys on two levels, and what is put there; none removes.
type Changes = Vec<(String, Option<String>, Option<u8>)>;

fn changes() -> impl Strategy<Value = Changes> {
    vec(
        (
            "[f-j]",
            proptest::option::of("[a-e]"),
            proptest::option::of(4..9_u8),
        ),
        0..4,
    )
}

fn changed(base: &Value, changes: &Changes) -> Value {
    let mut root = base.as_object().expect("it is a map").clone();
    for (key, inner, value) in changes {
        match (inner, root.get_mut(key)) {
            (Some(inner), Some(Value::Object(map))) => {
                put(map, inner, *value);
                if map.is_empty() {
                    root.remove(key);
                }
            }
            _ => put(&mut root, key, *value),
        }
    }
    // One that is empty is written in another form.
    if root.is_empty() {
        base.clone()
    } else {
        Value::Object(root)
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<u8>) {
    match value {
        Some(value) => map.insert(key.to_owned(), Value::from(value)),
        None => map.remove(key),
    };
}

fn as_toml(value: &Value) -> String {
    let (mut keys, mut tables) = (String::new(), String::new());
    for (key, value) in value.as_object().expect("it is a map") {
        if let Value::Object(map) = value {
            tables.push_str(&format!("[{key}]\n"));
            map.iter()
                .for_each(|(inner, value)| tables.push_str(&format!("{inner} = {value} # {key}.{inner}\n")));
        } else {
            keys.push_str(&format!("{key} = {value} # {key}\n"));
        }
    }
    keys + &tables
}

fn as_yaml(value: &Value) -> String {
    let mut text = String::new();
    for (key, value) in value.as_object().expect("it is a map") {
        if let Value::Object(map) = value {
            text.push_str(&format!("{key}:\n"));
            map.iter()
                .for_each(|(inner, value)| text.push_str(&format!("  {inner}: {value} # {key}.{inner}\n")));
        } else {
            text.push_str(&format!("{key}: {value} # {key}\n"));
        }
    }
    text
}
