//! YAML as a tree in which every value knows its place, so that an error can name it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, NonFiniteFloatPolicy, Options, Spanned};

use crate::TEXT_MAX;

/// Kubernetes' own objects nest less than 20 deep.
const DEPTH_MAX: usize = 48;

/// A list of 10,000 EndpointSlices of 10 endpoints has 4 million.
const NODES_MAX: usize = 16_000_000;

/// A file with a `---` an object.
const DOCUMENTS_MAX: usize = 200_000;

/// People write an anchor or two; machines none.
const ALIASES_MAX: usize = 10_000;

/// What aliases may blow a file up to ("billion laughs").
const REPLAYED_MAX: usize = 100_000;

/// Maps' keys under which nothing is read and much is written.
const SKIPPED: [&str; 2] = ["managedFields", "images"];

/// A place in the text, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) at: At,
    pub(crate) value: Value<'a>,
}

/// A YAML value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    /// Everything numeric that is not an `i64`.
    Number,
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    Map(Vec<(Cow<'a, str>, Tree<'a>)>),
}

/// Why a text is not YAML.
pub(crate) struct Malformed {
    pub(crate) at: At,
    pub(crate) message: String,
}

/// Every document of a text; empty ones are left out.
pub(crate) fn documents<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>, Malformed> {
    if text.len() > TEXT_MAX {
        let message = format!("is larger than {} MiB", TEXT_MAX >> 20);
        return Err(Malformed { at: At::default(), message });
    }
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| {
        let message = e.without_snippet().to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(m, _)| m);
        Malformed {
            at: e.location().map(At::from).unwrap_or_default(),
            message: format!("not YAML: {message}"),
        }
    })
}

fn options() -> Options {
    let mut o = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_documents: DOCUMENTS_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_recorded_anchor_events: REPLAYED_MAX,
            max_recorded_anchor_bytes: 8 << 20,
        },
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
        emit_comments: false,
    };
    o.alias_limits.max_total_replayed_events = REPLAYED_MAX;
    o
}

impl Tree<'_> {
    /// The value under a key of a map, if it is there and not null.
    pub(crate) fn child(&self, key: &str) -> Option<&Self> {
        let Value::Map(fields) = &self.value else { return None };
        let (_, value) = fields.iter().find(|(k, _)| k == key)?;
        (!matches!(value.value, Value::Null)).then_some(value)
    }

    /// The text under a key, if that is what is there.
    pub(crate) fn child_text(&self, key: &str) -> Option<&str> {
        match &self.child(key)?.value {
            Value::Text(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Number
            | Value::List(_)
            | Value::Map(_) => None,
        }
    }
}

impl From<Location> for At {
    fn from(l: Location) -> Self {
        let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: clamp(l.line()), column: clamp(l.column()) }
    }
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value<'de>>::deserialize(d)?;
        Ok(Self { at: spanned.referenced.into(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_any(self)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(n).map_or(Value::Number, Value::Integer))
    }

    fn visit_i128<E>(self, n: i128) -> Result<Self::Value, E> {
        Ok(i64::try_from(n).map_or(Value::Number, Value::Integer))
    }

    fn visit_u128<E>(self, n: u128) -> Result<Self::Value, E> {
        Ok(i64::try_from(n).map_or(Value::Number, Value::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Value::Number)
    }

    fn visit_str<E>(self, s: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(s.to_owned())))
    }

    fn visit_borrowed_str<E>(self, s: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(s)))
    }

    fn visit_string<E>(self, s: String) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(s)))
    }

    fn visit_bytes<E>(self, b: &[u8]) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(String::from_utf8_lossy(b).into_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            if SKIPPED.contains(&&*key) {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.push((key, map.next_value()?));
            }
        }
        Ok(Value::Map(fields))
    }
}

/// A map's key, borrowed where the text allows it.
pub(crate) struct Key<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is text")
    }

    fn visit_str<E>(self, s: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(s.to_owned())))
    }

    fn visit_borrowed_str<E>(self, s: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(s)))
    }
}
