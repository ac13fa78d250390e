//! An object that a client wrote, whose members are asked for by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;
use watari_sdk::Raw;

/// The members of an object, each still as it came.
#[derive(Default)]
pub(crate) struct Members<'a> {
    /// What stands before a name where something is wrong with it.
    place: &'static str,
    values: BTreeMap<Cow<'a, str>, &'a RawValue>,
    /// The names that were asked for; all others mean nothing.
    pub(crate) known: Vec<&'static str>,
}

impl<'a> Members<'a> {
    pub(crate) fn read(text: &'a str) -> Result<Members<'a>, serde_json::Error> {
        Ok(Members { place: "", values: serde_json::from_str(text)?, known: Vec::new() })
    }

    /// The members of a line; else what is wrong with it.
    pub(crate) fn of_line(line: &'a str) -> Result<Members<'a>, String> {
        Members::read(line).map_err(|_| match line.starts_with('{') {
            true => "the line is not JSON".to_owned(),
            false => "the line is not a JSON object".to_owned(),
        })
    }

    /// One member; null counts as absent.
    pub(crate) fn optional<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Result<Option<T>, String> {
        self.known.push(name);
        match self.values.get(name).filter(|value| value.get() != "null") {
            None => Ok(None),
            Some(value) => match serde_json::from_str(value.get()) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(format!("{}{name} must be {what}", self.place)),
            },
        }
    }

    pub(crate) fn required<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Result<T, String> {
        let place = self.place;
        self.optional(name, what)?.ok_or_else(|| format!("{place}{name} is missing; it must be {what}"))
    }

    /// A member that is an object; `place` stands before the names in it.
    pub(crate) fn object(
        &mut self,
        name: &'static str,
        place: &'static str,
        what: &str,
    ) -> Result<Option<Members<'a>>, String> {
        let values = self.optional(name, what)?;
        Ok(values.map(|values| Members { place, values, known: Vec::new() }))
    }

    /// A member that is a list of objects; `place` stands before the names in them.
    pub(crate) fn objects(
        &mut self,
        name: &'static str,
        place: &'static str,
        what: &str,
    ) -> Result<Vec<Members<'a>>, String> {
        let values: Vec<_> = self.required(name, what)?;
        Ok(values.into_iter().map(|values| Members { place, values, known: Vec::new() }).collect())
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, String> {
        self.optional(name, "a string")
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Vec<String>, String> {
        Ok(self.optional(name, "a list of strings")?.unwrap_or_default())
    }

    pub(crate) fn switch(&mut self, name: &'static str) -> Result<Option<bool>, String> {
        self.optional(name, "true or false")
    }

    /// A whole number.
    pub(crate) fn whole<T: TryFrom<u64>>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        let what = "a whole number";
        let Some(number) = self.optional::<Number>(name, what)? else { return Ok(None) };
        let number = whole(&number).and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| format!("{}{name} must be {what}", self.place))
    }

    /// A member that is an object and is passed on as it came.
    pub(crate) fn raw_object(&mut self, name: &'static str) -> Result<Option<Raw>, String> {
        self.raw(name, '{', "an object")
    }

    /// A member that is a list and is passed on as it came.
    pub(crate) fn raw_list(&mut self, name: &'static str) -> Result<Option<Raw>, String> {
        self.raw(name, '[', "a list")
    }

    fn raw(&mut self, name: &'static str, first: char, what: &str) -> Result<Option<Raw>, String> {
        match self.optional::<&RawValue>(name, what)? {
            Some(value) if value.get().starts_with(first) => Ok(Some(Raw::from(value.get()))),
            Some(_) => Err(format!("{}{name} must be {what}", self.place)),
            None => Ok(None),
        }
    }

    /// The members that nobody asked for.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let names = self.values.keys().map(AsRef::as_ref);
        names.filter(|name| !self.known.contains(name)).map(str::to_owned).collect()
    }
}

/// A whole number; `10.0` is one too, as which some languages write it.
pub(crate) fn whole(number: &Number) -> Option<u64> {
    let rounded = number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number));
    number.as_u64().or(rounded.map(|number| number as u64))
}

/// Up to here a floating-point number has no neighbour that it could have been.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
