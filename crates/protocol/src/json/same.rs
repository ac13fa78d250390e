//! Comparison of JSON texts by value.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::RawJson;

/// How often the two texts may be read, counted in bytes: each level of nesting reads its content again. A tool's input
/// has a few levels; two texts that need more passes count as different.
const PASSES_MAX: usize = 8;

/// Returns whether two texts have the same value: the order of keys, whitespace and escapes do not matter. Of a
/// repeated key the last one counts, as for the CLI. Texts that cannot be compared, because they are nested too deep or
/// contain a lone surrogate, are different. This function does not recurse.
pub(crate) fn same_value(one: &RawJson, other: &RawJson) -> bool {
    let mut bytes_left = PASSES_MAX.saturating_mul(one.as_str().len() + other.as_str().len());
    let mut pairs: Vec<(&RawValue, &RawValue)> = vec![(&one.0, &other.0)];
    while let Some((one, other)) = pairs.pop() {
        if one.get() == other.get() {
            continue;
        }
        match bytes_left.checked_sub(one.get().len() + other.get().len()) {
            Some(left) => bytes_left = left,
            None => return false,
        }
        let is_same = match (one.get().as_bytes().first(), other.get().as_bytes().first()) {
            (Some(b'{'), Some(b'{')) => pair_members(one, other, &mut pairs),
            (Some(b'['), Some(b'[')) => pair_items(one, other, &mut pairs),
            (Some(b'"'), Some(b'"')) => same_text(one.get(), other.get()),
            (Some(b'-' | b'0'..=b'9'), Some(b'-' | b'0'..=b'9')) => same_number(one.get(), other.get()),
            _ => false,
        };
        if !is_same {
            return false;
        }
    }
    true
}

/// Adds the members of two objects as pairs. Returns false if the objects do not have the same keys.
fn pair_members<'a>(one: &'a RawValue, other: &'a RawValue, pairs: &mut Vec<(&'a RawValue, &'a RawValue)>) -> bool {
    let read = |value: &'a RawValue| serde_json::from_str::<HashMap<String, &'a RawValue>>(value.get());
    let (Ok(one), Ok(other)) = (read(one), read(other)) else { return false };
    one.len() == other.len()
        && one.into_iter().all(|(key, value)| {
            let same_key = other.get(&key).map(|counterpart| pairs.push((value, counterpart)));
            same_key.is_some()
        })
}

fn pair_items<'a>(one: &'a RawValue, other: &'a RawValue, pairs: &mut Vec<(&'a RawValue, &'a RawValue)>) -> bool {
    let read = |value: &'a RawValue| serde_json::from_str::<Vec<&'a RawValue>>(value.get());
    let (Ok(one), Ok(other)) = (read(one), read(other)) else { return false };
    let same_length = one.len() == other.len();
    pairs.extend(one.into_iter().zip(other));
    same_length
}

fn same_text(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<String>(text).ok();
    read(one).is_some_and(|one| read(other) == Some(one))
}

/// Integers are compared exactly, other numbers as the CLI reads them.
fn same_number(one: &str, other: &str) -> bool {
    if let (Ok(one), Ok(other)) = (one.parse::<i128>(), other.parse::<i128>()) {
        return one == other;
    }
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.is_finite() && one.to_bits() == other.to_bits(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let forth = same_value(&RawJson::from(one), &RawJson::from(other));
        assert_eq!(forth, same_value(&RawJson::from(other), &RawJson::from(one)), "{one} {other}");
        forth
    }

    #[test]
    fn spaces_order_and_escapes_do_not_make_another_value() {
        assert!(same(r#"{"a":1,"b":[{"c":"x"}]}"#, r#" { "b" : [ {"c": "\u0078"} ], "a": 1.0 } "#));
        assert!(same(r#"{"a":1,"a":2}"#, r#"{"a":2}"#));
        assert!(same(r#"{"n":1e400,"half":"\ud83d"}"#, r#"{"n":1e400, "half":"\ud83d"}"#));
        assert!(same("1e2", "100"));
    }

    #[test]
    fn another_value_is_another_whatever_it_looks_like() {
        let different = [
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[1,2,3]}"#),
            (r#"{"a":null}"#, r#"{"a":false}"#),
            (r#"{"a":{}}"#, r#"{"a":[]}"#),
            ("9007199254740993", "9007199254740992"),
            ("1e400", "2e400"),
            (r#""\ud83d""#, r#""\ud83e""#),
        ];
        for (one, other) in different {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn deep_values_are_compared_in_bounded_time_and_without_recursion() {
        let deep = |end: &str| format!("{}{end}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(same(&deep("1"), &deep("1")));
        // The limit is reached before they are known to be the same, so they count as different.
        assert!(!same(&deep("1"), &deep("1.0")));
    }
}
