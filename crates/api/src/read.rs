//! Fields of a tree as values, or what is wrong with them and where.

use crate::tree::{At, Tree, Value};

/// What is wrong with a field.
#[derive(Debug)]
pub(crate) struct Bad {
    pub(crate) at: At,
    /// `spec.ports[0].port`; grows on the way up.
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) cure: String,
}

impl Bad {
    pub(crate) fn new(
        tree: &Tree<'_>,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { at: tree.at, path: String::new(), message: message.into(), cure: cure.into() }
    }

    /// The same, seen from one level up.
    pub(crate) fn under(mut self, key: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{key}{dot}{}", self.path);
        self
    }
}

/// The field under a key, if it is there and not null.
pub(crate) fn optional<'t, 'a, T>(
    tree: &'t Tree<'a>,
    key: &str,
    read: impl FnOnce(&'t Tree<'a>) -> Result<T, Bad>,
) -> Result<Option<T>, Bad> {
    expect_map(tree)?;
    tree.child(key).map(read).transpose().map_err(|bad| bad.under(key))
}

/// The field under a key, which must be there.
pub(crate) fn required<'t, 'a, T>(
    tree: &'t Tree<'a>,
    key: &str,
    read: impl FnOnce(&'t Tree<'a>) -> Result<T, Bad>,
) -> Result<T, Bad> {
    let missing = || Bad::new(tree, "is missing", "add it").under(key);
    optional(tree, key, read)?.ok_or_else(missing)
}

/// Every item of the list under a key; none if it is absent.
pub(crate) fn each<'t, 'a, T>(
    tree: &'t Tree<'a>,
    key: &str,
    mut read: impl FnMut(&'t Tree<'a>) -> Result<T, Bad>,
) -> Result<Vec<T>, Bad> {
    let items = optional(tree, key, list)?.unwrap_or_default();
    let read = |(i, item)| read(item).map_err(|bad: Bad| bad.under(&format!("[{i}]")).under(key));
    items.iter().enumerate().map(read).collect()
}

pub(crate) fn list<'t, 'a>(tree: &'t Tree<'a>) -> Result<&'t [Tree<'a>], Bad> {
    match &tree.value {
        Value::List(items) => Ok(items),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Number
        | Value::Text(_)
        | Value::Map(_) => Err(wrong_type(tree, "a list")),
    }
}

/// A map of texts, as labels and annotations are.
pub(crate) fn texts<'t>(tree: &'t Tree<'_>) -> Result<Vec<(&'t str, &'t str)>, Bad> {
    let fields = expect_map(tree)?;
    fields.iter().map(|(k, v)| Ok((&**k, text(v).map_err(|bad| bad.under(k))?))).collect()
}

pub(crate) fn text<'t>(tree: &'t Tree<'_>) -> Result<&'t str, Bad> {
    match &tree.value {
        Value::Text(text) => Ok(text),
        Value::Bool(_) | Value::Integer(_) | Value::Number => {
            Err(Bad::new(tree, "must be text", "write it in quotes"))
        }
        Value::Null | Value::List(_) | Value::Map(_) => Err(wrong_type(tree, "text")),
    }
}

pub(crate) fn boolean(tree: &Tree<'_>) -> Result<bool, Bad> {
    match &tree.value {
        Value::Bool(b) => Ok(*b),
        Value::Text(_)
        | Value::Null
        | Value::Integer(_)
        | Value::Number
        | Value::List(_)
        | Value::Map(_) => Err(wrong_type(tree, "true or false, without quotes")),
    }
}

pub(crate) fn port(tree: &Tree<'_>) -> Result<u16, Bad> {
    let cure = "write a number from 1 to 65535";
    match &tree.value {
        Value::Integer(n) => match u16::try_from(*n) {
            Ok(port) if port > 0 => Ok(port),
            Ok(_) | Err(_) => Err(Bad::new(tree, format!("{n} is not a port"), cure)),
        },
        Value::Text(text) => Err(Bad::new(
            tree,
            format!("{text:?} is text, not a number"),
            "write it without quotes",
        )),
        Value::Null | Value::Bool(_) | Value::Number | Value::List(_) | Value::Map(_) => {
            Err(Bad::new(tree, "is not a port", cure))
        }
    }
}

fn expect_map<'t, 'a>(
    tree: &'t Tree<'a>,
) -> Result<&'t [(std::borrow::Cow<'a, str>, Tree<'a>)], Bad> {
    match &tree.value {
        Value::Map(fields) => Ok(fields),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Number
        | Value::Text(_)
        | Value::List(_) => Err(wrong_type(tree, "a map of fields")),
    }
}

fn wrong_type(tree: &Tree<'_>, wanted: &str) -> Bad {
    Bad::new(tree, format!("must be {wanted}"), "see the object's API reference")
}
