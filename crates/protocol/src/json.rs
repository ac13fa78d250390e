//! JSON that is passed on unchanged: a tool's input, a message's content, an unknown frame.

mod same;
mod tagged;

pub(crate) use same::same_value;
pub(crate) use tagged::{TagWriter, TaggedObject};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::wire::repair::{LoneSurrogate, lone_surrogates};

/// A JSON value as its original text, so that nothing is lost: neither the order of keys, nor a number out of range,
/// nor a lone surrogate, nor deep nesting.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Returns the original text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the value into a type of the caller.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Serializes a value. Unlike `from`, it does not read a text as JSON: a text becomes a JSON string. A value
    /// without a JSON form, such as a map whose keys are not text, becomes null.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> RawJson {
        RawJson(serde_json::value::to_raw_value(value).unwrap_or_default())
    }

    /// Returns the text as a value, if it is one.
    pub(crate) fn read(text: String) -> Result<RawJson, serde_json::Error> {
        RawValue::from_string(text).map(RawJson)
    }

    pub(crate) fn null() -> RawJson {
        RawJson(Box::default())
    }

    pub(crate) fn is_list(&self) -> bool {
        self.as_str().starts_with('[')
    }

    pub(crate) fn copied(value: &RawValue) -> RawJson {
        RawJson(value.to_owned())
    }
}

impl AsRef<RawValue> for RawJson {
    fn as_ref(&self) -> &RawValue {
        &self.0
    }
}

/// Replaces lone surrogates in JSON text by U+FFFD, because Rust strings cannot hold them.
pub fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    lone_surrogates(json, LoneSurrogate::Replaced).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// Puts JSON text on one line. A raw value is written unchanged, and may span several lines. Within a string a line break
/// is always escaped, so these are between values, where a space means the same.
pub(crate) fn join_lines(text: &mut [u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

/// Returns the value if it is an object. Every value that clients are promised as an object is checked with this.
pub(crate) fn object(value: &RawValue) -> Option<&RawValue> {
    value.get().starts_with('{').then_some(value)
}

/// Returns the object with only the last member of each key, which is how the CLI reads repeated keys; none if the text
/// is not an object.
pub(crate) fn keep_last_of_duplicate_keys(json: &str) -> Option<String> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json).ok()?;
    serde_json::to_string(&members).ok()
}

/// Returns one member of an object, unchanged; none if it is absent or null.
pub(crate) fn member(object: &RawJson, name: &str) -> Option<RawJson> {
    let members: HashMap<Cow<'_, str>, &RawValue> = object.parse().ok()?;
    let value = members.get(name)?;
    (value.get() != "null").then(|| RawJson::copied(value))
}

/// Text that is not a single JSON value becomes a JSON string, so that it is shown rather than lost. To get an error
/// instead, use `text.parse::<RawJson>()`.
impl From<&str> for RawJson {
    fn from(text: &str) -> RawJson {
        text.parse().unwrap_or_else(|_: serde_json::Error| RawJson::of(text))
    }
}

/// Fails if the text is not a single JSON value.
impl std::str::FromStr for RawJson {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<RawJson, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(RawJson::copied)
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> RawJson {
        RawJson::of(&value)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawJson, D::Error> {
        Box::deserialize(deserializer).map(RawJson)
    }
}

/// Reads a member that is absent if it has no value: null is a value.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// Any value.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for RawJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &RawJson) -> bool {
        self.as_str() == other.as_str()
    }
}
