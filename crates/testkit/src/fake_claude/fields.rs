//! A JSON object that preserves the order and the spelling of its members.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object: each a name and the text of a JSON value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Fields, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// This object with a string added.
    pub(super) fn text(self, name: &str, value: &str) -> Fields {
        self.json(name, quoted(value))
    }

    /// This object with a value added, or replaced if the name exists.
    pub(super) fn json(mut self, name: &str, value: impl Into<String>) -> Fields {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
        self
    }

    /// This object with all members of another, which take precedence.
    pub(super) fn merged(self, other: Fields) -> Fields {
        other.0.into_iter().fold(self, |fields, (name, value)| fields.json(&name, value))
    }

    /// The text of a member's JSON value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A member that is a string, without its quotes.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// A member that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Fields> {
        Fields::parse(self.get(name)?).ok()
    }
}

/// A text as a JSON string, with its quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl fmt::Display for Fields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("{")?;
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{}:{value}", quoted(name))?;
        }
        formatter.write_str("}")
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fields, A::Error> {
                let mut found = Vec::new();
                while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
                    found.push((name, value.get().to_owned()));
                }
                Ok(Fields(found))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
