//! `metadata`.

use std::collections::BTreeMap;

use signpost_plan::ServiceKey;

use crate::read::{Bad, optional, required, text, texts};
use crate::tree::Tree;

/// RFC 1123 and Kubernetes' `apimachinery/pkg/util/validation`.
const NAME_MAX: usize = 253;

/// What an object is called. Read first: what else is wrong with it can be told by name then.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

/// What `metadata` says.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) name: Name,
    /// Seconds since the epoch.
    pub(crate) created: Option<i64>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
}

impl Name {
    pub(crate) fn read(tree: &Tree<'_>) -> Result<Self, Bad> {
        required(tree, "metadata", |meta| {
            Ok(Self {
                // Where kubectl would put it.
                namespace: optional(meta, "namespace", name)?.unwrap_or_else(|| "default".into()),
                name: required(meta, "name", name)?,
            })
        })
    }

    pub(crate) fn service_key(&self) -> ServiceKey {
        ServiceKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl Meta {
    pub(crate) fn read(tree: &Tree<'_>, name: Name) -> Result<Self, Bad> {
        required(tree, "metadata", |meta| {
            let labels = optional(meta, "labels", texts)?.unwrap_or_default();
            Ok(Self {
                name,
                created: optional(meta, "creationTimestamp", timestamp)?,
                labels: labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            })
        })
    }
}

/// A name as Kubernetes allows it; also keeps control characters out of everything we print.
pub(crate) fn name(tree: &Tree<'_>) -> Result<Box<str>, Bad> {
    let name = text(tree)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(allowed) {
        let cure = "use lowercase letters, digits, '-' and '.'";
        return Err(Bad::new(tree, format!("{name:?} is not a name"), cure));
    }
    Ok(name.into())
}

fn timestamp(tree: &Tree<'_>) -> Result<i64, Bad> {
    let written = text(tree)?;
    match written.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(time.as_second()),
        Err(_) => {
            let cure = "write it as 2026-01-31T12:00:00Z";
            Err(Bad::new(tree, format!("{written:?} is not a time"), cure))
        }
    }
}
