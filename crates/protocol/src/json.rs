//! JSON that is carried as it came: a tool's input, a message's content, a frame nobody knows.

mod same;

pub(crate) use same::same_value;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::wire::repair::{Half, lone_surrogates};

/// A JSON value kept as the text it arrived in, so that nothing is lost: not the order of keys, not a
/// number out of range, not a lone surrogate, not deep nesting.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text, exactly as it came.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value into a type of the caller's.
    pub fn parse<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Writes a value as JSON text. One that has no JSON form, such as a map with keys that are not text,
    /// becomes null.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> RawJson {
        RawJson(serde_json::value::to_raw_value(value).unwrap_or_default())
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

/// JSON text whose strings Rust can hold: half a character, which JSON can hold, becomes U+FFFD.
pub fn readable(json: &str) -> Cow<'_, str> {
    lone_surrogates(json, Half::Replaced).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// The value, if it is an object: the check at the wire's edge for whatever clients are promised one.
pub(crate) fn object(value: &RawValue) -> Option<&RawValue> {
    value.get().starts_with('{').then_some(value)
}

/// An object with the last member of each key, as the CLI reads one in which a key occurs twice; none if the text is no
/// object.
pub(crate) fn with_last_members(json: &str) -> Option<String> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json).ok()?;
    serde_json::to_string(&members).ok()
}

/// One member of an object, as it came; none if there is none, or if it is null.
pub(crate) fn member(object: &RawJson, name: &str) -> Option<RawJson> {
    let members: HashMap<Cow<'_, str>, &RawValue> = object.parse().ok()?;
    let value = members.get(name)?;
    (value.get() != "null").then(|| RawJson::copied(value))
}

/// Text that is not one JSON value is kept as a JSON string, so that it is shown rather than lost.
impl From<&str> for RawJson {
    fn from(text: &str) -> RawJson {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => RawJson(value.to_owned()),
            Err(_) => RawJson::of(text),
        }
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
