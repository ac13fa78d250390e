//! An object of a client's line, whose members are read by name.
//!
//! This is the only path from a client's line to the CLI: a value is returned only after the check of its limits
//! (`limits.rs`), so that no check can be forgotten.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use watari_sdk::{RawJson, replace_lone_surrogates};

use super::limits::{self, CONTENT_BYTES_MAX, Excess, FIELD_BYTES_MAX, INTEGER_MAX, MEMBERS_MAX, NAME_CHARACTERS_MAX};

/// How many unknown names are reported one by one, and how much of each is quoted.
const UNKNOWN_MAX: usize = 20;
const UNKNOWN_CHARACTERS_MAX: usize = 60;

/// The members of an object, each as unparsed JSON.
pub(crate) struct Members<'a> {
    /// The prefix of a member's name in errors.
    place: &'static str,
    /// The depth of the members in their line: one for the members of the line itself.
    level: usize,
    values: BTreeMap<Cow<'a, str>, &'a RawValue>,
    /// The names that were read; all others are unknown.
    pub(crate) known: Vec<&'static str>,
}

/// A text, or blocks that are passed on unchanged.
#[derive(Debug)]
pub(crate) enum TextOrBlocks {
    Text(String),
    Blocks(RawJson),
}

impl<'a> Members<'a> {
    /// The members of a line, or an error that describes what is wrong.
    pub(crate) fn of_line(line: &'a str) -> Result<Members<'a>, String> {
        let object = serde_json::from_str(line).map_err(|_| match line.starts_with('{') {
            true if serde_json::from_str::<Object<'_>>(&replace_lone_surrogates(line)).is_ok() => {
                format!("the name of a member {UNPAIRED_SURROGATE}")
            }
            true => "the line is not JSON".to_owned(),
            false => "the line is not a JSON object".to_owned(),
        })?;
        Members::of(object, "", 1).map_err(|excess| format!("the line {excess}"))
    }

    /// No members, for an absent object.
    pub(crate) fn none() -> Members<'a> {
        Members { place: "", level: 1, values: BTreeMap::new(), known: Vec::new() }
    }

    fn of(object: Object<'a>, place: &'static str, level: usize) -> Result<Members<'a>, Excess> {
        let Object { values, count } = object;
        match count > MEMBERS_MAX {
            true => Err(Excess::Members { count }),
            false => Ok(Members { place, level, values, known: Vec::new() }),
        }
    }

    /// One member; null counts as absent.
    pub(crate) fn optional<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Result<Option<T>, String> {
        let value = self.value(name, FIELD_BYTES_MAX)?;
        value.map(|value| self.parse(value, name, what)).transpose()
    }

    pub(crate) fn required<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Result<T, String> {
        self.optional(name, what)?.ok_or_else(|| self.missing(name, what))
    }

    /// A text of the conversation, which may be long.
    pub(crate) fn content(&mut self, name: &'static str) -> Result<String, String> {
        let what = "a string";
        let value = self.value(name, CONTENT_BYTES_MAX)?.ok_or_else(|| self.missing(name, what))?;
        self.parse(value, name, what)
    }

    /// A member that is an object; `place` is the prefix of its members' names in errors.
    pub(crate) fn object(
        &mut self,
        name: &'static str,
        place: &'static str,
        what: &str,
    ) -> Result<Option<Members<'a>>, String> {
        // Only its members are returned, and each is checked then.
        let Some(value) = self.unchecked(name) else { return Ok(None) };
        let object = self.parse(value, name, what)?;
        Members::of(object, place, self.level + 1).map(Some).map_err(|excess| self.exceeds(name, excess))
    }

    /// A member that is a list of objects; `place` is the prefix of their members' names in errors.
    pub(crate) fn objects(
        &mut self,
        name: &'static str,
        place: &'static str,
        what: &str,
    ) -> Result<Vec<Members<'a>>, String> {
        // Only the members of its objects are returned, and each is checked then.
        let value = self.unchecked(name).ok_or_else(|| self.missing(name, what))?;
        let mut objects = Vec::new();
        for value in self.list(value, name, what)? {
            let object = self.parse(value, name, what)?;
            let members = Members::of(object, place, self.level + 2);
            objects.push(members.map_err(|excess| self.exceeds(name, excess))?);
        }
        Ok(objects)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, String> {
        self.optional(name, "a string")
    }

    /// A name that the client chooses for itself or for a line. It is short, because it is stored.
    pub(crate) fn name(&mut self, name: &'static str) -> Result<Option<String>, String> {
        let text = self.text(name)?;
        match text.as_ref().is_some_and(|text| text.chars().count() > NAME_CHARACTERS_MAX) {
            true => Err(format!("{}{name} may have at most {NAME_CHARACTERS_MAX} characters", self.place)),
            false => Ok(text),
        }
    }

    pub(crate) fn strings(&mut self, name: &'static str) -> Result<Vec<String>, String> {
        Ok(self.optional(name, "a list of strings")?.unwrap_or_default())
    }

    pub(crate) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, String> {
        self.optional(name, "true or false")
    }

    /// A whole number.
    pub(crate) fn integer<T: TryFrom<u64>>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        let what = "a whole number";
        let Some(number) = self.optional::<Number>(name, what)? else { return Ok(None) };
        let number = integer(&number).and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.must_be(name, what))
    }

    /// A member that is an object and is passed on unchanged.
    pub(crate) fn raw_object(&mut self, name: &'static str) -> Result<Option<RawJson>, String> {
        self.raw(name, '{', "an object")
    }

    /// A member that is a list and is passed on unchanged.
    pub(crate) fn raw_list(&mut self, name: &'static str) -> Result<Option<RawJson>, String> {
        self.raw(name, '[', "a list")
    }

    /// A member that is an object of objects, which are passed on unchanged.
    pub(crate) fn raw_objects(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<BTreeMap<String, RawJson>>, String> {
        let Some(value) = self.value(name, FIELD_BYTES_MAX)? else { return Ok(None) };
        let Object { values, count } = self.parse(value, name, what)?;
        if count > MEMBERS_MAX {
            return Err(self.exceeds(name, Excess::Members { count }));
        }
        if !values.values().all(|value| is_object(value)) {
            return Err(self.must_be(name, what));
        }
        Ok(Some(values.into_iter().map(|(name, value)| (name.into_owned(), RawJson::from(value.get()))).collect()))
    }

    /// A member that is a list of content blocks.
    pub(crate) fn blocks(&mut self, name: &'static str, what: &str) -> Result<Vec<&'a RawValue>, String> {
        let Some(value) = self.value(name, CONTENT_BYTES_MAX)? else { return Ok(Vec::new()) };
        let blocks = self.list(value, name, what)?;
        match blocks.iter().all(|block| is_object(block)) {
            true => Ok(blocks),
            false => Err(self.must_be(name, what)),
        }
    }

    /// A member that is a text or a list of content blocks.
    pub(crate) fn text_or_blocks(&mut self, name: &'static str, what: &str) -> Result<TextOrBlocks, String> {
        let value = self.value(name, CONTENT_BYTES_MAX)?.ok_or_else(|| self.missing(name, what))?;
        if value.get().starts_with('"') {
            return self.parse(value, name, what).map(TextOrBlocks::Text);
        }
        self.blocks(name, what)?;
        Ok(TextOrBlocks::Blocks(RawJson::from(value.get())))
    }

    /// Errors for the unknown members.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let names = self.values.keys().map(AsRef::as_ref).filter(|name| !self.known.contains(name));
        let short = |name: &str| name.chars().take(UNKNOWN_CHARACTERS_MAX).collect::<String>();
        let mut errors: Vec<String> = names
            .clone()
            .take(UNKNOWN_MAX)
            .map(|name| format!("{}{} is unknown and was ignored", self.place, short(name)))
            .collect();
        let more = names.count().saturating_sub(UNKNOWN_MAX);
        if more > 0 {
            errors.push(format!(
                "{more} more members of {} are unknown and were ignored",
                self.place.trim_end_matches('.')
            ));
        }
        errors
    }

    fn raw(&mut self, name: &'static str, first: char, what: &str) -> Result<Option<RawJson>, String> {
        match self.value(name, FIELD_BYTES_MAX)? {
            Some(value) if value.get().starts_with(first) => Ok(Some(RawJson::from(value.get()))),
            Some(_) => Err(self.must_be(name, what)),
            None => Ok(None),
        }
    }

    /// A value within the limits; null counts as absent.
    fn value(&mut self, name: &'static str, bytes_max: usize) -> Result<Option<&'a RawValue>, String> {
        let Some(value) = self.unchecked(name) else { return Ok(None) };
        limits::check(value.get(), self.level, bytes_max).map_err(|excess| self.exceeds(name, excess))?;
        Ok(Some(value))
    }

    fn unchecked(&mut self, name: &'static str) -> Option<&'a RawValue> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.values.get(name).copied().filter(|value| value.get() != "null")
    }

    fn list(&self, value: &'a RawValue, name: &str, what: &str) -> Result<Vec<&'a RawValue>, String> {
        let List { values, count } = self.parse(value, name, what)?;
        match count > MEMBERS_MAX {
            true => Err(self.exceeds(name, Excess::Members { count })),
            false => Ok(values),
        }
    }

    fn parse<T: Deserialize<'a>>(&self, value: &'a RawValue, name: &str, what: &str) -> Result<T, String> {
        serde_json::from_str(value.get()).map_err(|_| match has_unpaired_surrogate(value.get()) {
            true => format!("{}{name} {UNPAIRED_SURROGATE}", self.place),
            false => self.must_be(name, what),
        })
    }

    fn must_be(&self, name: &str, what: &str) -> String {
        format!("{}{name} must be {what}", self.place)
    }

    fn missing(&self, name: &str, what: &str) -> String {
        format!("{}{name} is missing; it must be {what}", self.place)
    }

    fn exceeds(&self, name: &str, excess: Excess) -> String {
        format!("{}{name} {excess}", self.place)
    }
}

/// The error for a text with an unpaired surrogate, which JSON can hold but Rust cannot.
const UNPAIRED_SURROGATE: &str =
    "contains an unpaired surrogate: an escape such as \\ud800 without its other half; send whole characters";

fn has_unpaired_surrogate(json: &str) -> bool {
    matches!(replace_lone_surrogates(json), Cow::Owned(_))
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// The members of an object: at most `MEMBERS_MAX` are stored, all are counted.
struct Object<'a> {
    values: BTreeMap<Cow<'a, str>, &'a RawValue>,
    count: usize,
}

/// The elements of a list: at most `MEMBERS_MAX` are stored, all are counted.
struct List<'a> {
    values: Vec<&'a RawValue>,
    count: usize,
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<'a>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Object<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object<'de>, M::Error> {
                let mut object = Object { values: BTreeMap::new(), count: 0 };
                while object.count < MEMBERS_MAX
                    && let Some((Name(name), value)) = map.next_entry()?
                {
                    object.values.insert(name, value);
                    object.count += 1;
                }
                while let Some((IgnoredAny, IgnoredAny)) = map.next_entry()? {
                    object.count += 1;
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for List<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<'a>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = List<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<List<'de>, S::Error> {
                let mut list = List { values: Vec::new(), count: 0 };
                while list.count < MEMBERS_MAX
                    && let Some(value) = sequence.next_element()?
                {
                    list.values.push(value);
                    list.count += 1;
                }
                while let Some(IgnoredAny) = sequence.next_element()? {
                    list.count += 1;
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}

/// A whole number; also one that a language wrote as `10.0`.
pub(crate) fn integer(number: &Number) -> Option<u64> {
    let rounded = number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=INTEGER_MAX as f64).contains(number));
    number.as_u64().or(rounded.map(|number| number as u64)).filter(|number| *number <= INTEGER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_are_counted_and_not_stored() {
        let line = |count: usize| {
            let members: Vec<String> = (0..count).map(|number| format!("\"{number}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(Members::of_line(&line(MEMBERS_MAX)).is_ok());
        let problem = Members::of_line(&line(100_000)).err();
        assert_eq!(problem.as_deref(), Some("the line has 100000 members; the limit is 1000"));
        let broken = line(100_000).replace("99999", "99999\":}");
        assert_eq!(Members::of_line(&broken).err().as_deref(), Some("the line is not JSON"));
        let text = line(MEMBERS_MAX);
        let unknown = Members::of_line(&text).unwrap().unknown();
        assert_eq!((unknown.len(), unknown[0].as_str()), (UNKNOWN_MAX + 1, "0 is unknown and was ignored"));
        assert_eq!(unknown[UNKNOWN_MAX], "980 more members of  are unknown and were ignored");
    }

    #[test]
    fn a_list_of_too_many_blocks_or_objects_is_refused_by_its_name() {
        let line = format!(r#"{{"images":[{}{{}}],"text":"a"}}"#, "{},".repeat(MEMBERS_MAX));
        let mut members = Members::of_line(&line).unwrap();
        assert_eq!(members.blocks("images", "blocks").unwrap_err(), "images has 1001 members; the limit is 1000");
        let problem = members.objects("images", "images[].", "objects").err();
        assert_eq!(problem.as_deref(), Some("images has 1001 members; the limit is 1000"));
    }

    #[test]
    fn a_field_that_is_too_long_is_refused_by_its_name_and_content_may_be_longer() {
        let line = format!(r#"{{"field":"{}"}}"#, "x".repeat(FIELD_BYTES_MAX - 1));
        let mut members = Members::of_line(&line).unwrap();
        assert_eq!(members.text("field").unwrap_err(), "field has 4194305 bytes; the limit is 4194304");
        assert!(members.content("field").is_ok());
        let line = format!(r#"{{"field":"{}"}}"#, "x".repeat(CONTENT_BYTES_MAX - 1));
        let problem = Members::of_line(&line).unwrap().content("field").unwrap_err();
        assert_eq!(problem, "field has 33554433 bytes; the limit is 33554432");
    }
}
