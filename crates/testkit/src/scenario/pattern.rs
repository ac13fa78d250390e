//! The match rule of expected messages; anything that is not expected is skipped.

use serde_json::Value;

/// Whether a message matches: every expected key is there and matches, lists match by position, and a placeholder such
/// as `<text>` matches any value of its kind.
pub(super) fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().all(|(key, value)| found.get(key).is_some_and(|found| matches(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => expected
            .iter()
            .enumerate()
            .all(|(place, value)| found.get(place).is_some_and(|found| matches(value, found))),
        (Value::String(word), found) => match kind_of(word) {
            Some(is_of_kind) => is_of_kind(found),
            None => expected == found,
        },
        (expected, found) => expected == found,
    }
}

fn kind_of(word: &str) -> Option<fn(&Value) -> bool> {
    match word {
        "<text>" => Some(Value::is_string),
        "<number>" => Some(Value::is_number),
        "<bool>" => Some(Value::is_boolean),
        "<list>" => Some(Value::is_array),
        "<object>" => Some(Value::is_object),
        "<anything>" => Some(|_| true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_expected_must_be_there_and_the_rest_does_not_matter() {
        let found = json!({"type": "result", "is_error": false, "content": [{"text": "a", "more": 1}, {"text": "b"}]});
        for (expected, holds) in [
            (json!({}), true),
            (json!({"type": "result"}), true),
            (json!({"type": "Result"}), false),
            (json!({"is_error": false}), true),
            (json!({"is_error": null}), false),
            (json!({"content": []}), true),
            (json!({"content": [{"text": "a"}]}), true),
            (json!({"content": [{"text": "b"}]}), false),
            (json!({"content": [{}, {}, {}]}), false),
            (json!({"content": "<list>", "type": "<text>", "is_error": "<bool>"}), true),
            (json!({"content": "<number>"}), false),
            (json!({"missing": "<anything>"}), false),
        ] {
            assert_eq!(matches(&expected, &found), holds, "{expected}");
        }
    }
}
