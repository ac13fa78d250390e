//! Internally tagged enums that pass JSON values on unchanged.
//!
//! Serde's own internally tagged enums (`#[serde(tag = "type")]`) can be written with [`RawJson`](super::RawJson) in
//! them, but not read: serde first reads the object into a buffer that cannot hold a raw value. So our enums derive
//! serde's externally tagged form as inherent functions (`#[serde(remote = "Self")]`), and two adaptors present an
//! object with a tag as that form: [`TaggedObject`] for reading and [`TagWriter`] for writing. Nothing is buffered.

use std::fmt::Display;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor,
};
use serde::ser::{self, Impossible, Serialize, SerializeMap, SerializeStruct, SerializeStructVariant, Serializer};

/// The member that holds the name of the variant.
const TAG: &str = "type";

/// A JSON object that is read as an enum. The tag was found before; the variant's fields are members of the object.
/// Other members, among them the tag, are ignored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaggedObject<'tag, 'de> {
    /// The name of the variant.
    pub(crate) tag: &'tag str,
    /// The text of the object.
    pub(crate) object: &'de str,
}

impl<'de> TaggedObject<'_, 'de> {
    /// Reads the whole object with serde_json.
    fn read<T>(
        self,
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::StrRead<'de>>) -> Result<T, serde_json::Error>,
    ) -> Result<T, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(self.object);
        let value = read(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }
}

impl<'de> Deserializer<'de> for TaggedObject<'_, 'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
        self.deserialize_enum("", &[], visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, serde_json::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for TaggedObject<'_, 'de> {
    type Error = serde_json::Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), serde_json::Error> {
        let tag: de::value::StrDeserializer<'_, serde_json::Error> = self.tag.into_deserializer();
        Ok((seed.deserialize(tag)?, self))
    }
}

impl<'de> VariantAccess<'de> for TaggedObject<'_, 'de> {
    type Error = serde_json::Error;

    fn unit_variant(self) -> Result<(), serde_json::Error> {
        self.read(|object| de::IgnoredAny::deserialize(object)).map(|_| ())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, serde_json::Error> {
        self.read(|object| seed.deserialize(object))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, _visitor: V) -> Result<V::Value, serde_json::Error> {
        Err(de::Error::custom("a tuple cannot be read from an object"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, serde_json::Error> {
        self.read(|object| object.deserialize_map(visitor))
    }
}

/// Writes an enum as one object: the name of the variant as `type`, then the variant's fields.
pub(crate) struct TagWriter<S> {
    inner: S,
    /// The variant's name, while a variant with flattened fields is written: serde derives a map for it.
    variant: Option<&'static str>,
}

impl<S> TagWriter<S> {
    pub(crate) fn new(inner: S) -> TagWriter<S> {
        TagWriter { inner, variant: None }
    }
}

/// What cannot be written with a tag.
fn refused<E: ser::Error>(what: impl Display) -> E {
    E::custom(format_args!("{what} has no members, so it cannot be written with a tag"))
}

/// Methods for values that are no variants of an enum.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $result:ident;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<Self::$result, S::Error> {
            Err(refused(stringify!($method)))
        })*
    };
}

impl<S: Serializer> Serializer for TagWriter<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeMap = S::SerializeMap;
    type SerializeStruct = Impossible<S::Ok, S::Error>;
    type SerializeStructVariant = Members<S::SerializeStruct>;

    fn serialize_unit_variant(self, name: &'static str, _: u32, variant: &'static str) -> Result<S::Ok, S::Error> {
        let mut object = self.inner.serialize_struct(name, 1)?;
        object.serialize_field(TAG, variant)?;
        object.end()
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        fields: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let mut object = self.inner.serialize_struct(name, fields + 1)?;
        object.serialize_field(TAG, variant)?;
        Ok(Members(object))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        members: &T,
    ) -> Result<S::Ok, S::Error> {
        members.serialize(TagWriter { inner: self.inner, variant: Some(variant) })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<S::SerializeMap, S::Error> {
        let Some(variant) = self.variant else { return Err(refused("a map")) };
        let mut object = self.inner.serialize_map(length.map(|length| length + 1))?;
        object.serialize_entry(TAG, variant)?;
        Ok(object)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<S::Ok, S::Error> {
        Err(refused("an option"))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Result<S::Ok, S::Error> {
        Err(refused("a newtype"))
    }

    refuse! {
        serialize_bool(bool) -> Ok;
        serialize_i8(i8) -> Ok;
        serialize_i16(i16) -> Ok;
        serialize_i32(i32) -> Ok;
        serialize_i64(i64) -> Ok;
        serialize_u8(u8) -> Ok;
        serialize_u16(u16) -> Ok;
        serialize_u32(u32) -> Ok;
        serialize_u64(u64) -> Ok;
        serialize_f32(f32) -> Ok;
        serialize_f64(f64) -> Ok;
        serialize_char(char) -> Ok;
        serialize_str(&str) -> Ok;
        serialize_bytes(&[u8]) -> Ok;
        serialize_none() -> Ok;
        serialize_unit() -> Ok;
        serialize_unit_struct(&'static str) -> Ok;
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_struct(&'static str, usize) -> SerializeStruct;
    }
}

/// The fields of a variant as members of an object.
pub(crate) struct Members<S>(S);

impl<S: SerializeStruct> SerializeStructVariant for Members<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), S::Error> {
        self.0.serialize_field(name, value)
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), S::Error> {
        self.0.skip_field(name)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
