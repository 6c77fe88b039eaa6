//! A document: an object, or a list of objects that is read item by item.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use signpost_plan::NodeName;
use signpost_plan::world::SliceKey;
use signpost_report::Severity;

use crate::meta::{Meta, Name};
use crate::read::Bad;
use crate::tree::{At, Key, Tree, Value};
use crate::{Identity, Object, advertisement, node, pool, service, slice};

/// What was found in a document.
#[derive(Debug)]
pub(crate) enum Finding {
    /// An object of a kind that counts, well written or not.
    Draft(Box<Draft>),
    /// An object of another kind.
    UnknownKind { kind: String, at: At },
    /// Something that is no object at all.
    NoObject { at: At, message: String, cure: String },
}

/// An object of a kind that counts, with what there is to say about it.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) at: At,
    /// `Service demo/web`.
    pub(crate) label: String,
    pub(crate) identity: Option<Identity>,
    pub(crate) object: Option<Object>,
    /// Badly written, not left out on purpose.
    pub(crate) broken: bool,
    pub(crate) remarks: Vec<Remark>,
}

/// One thing to say about an object.
#[derive(Debug)]
pub(crate) struct Remark {
    pub(crate) severity: Severity,
    pub(crate) at: At,
    pub(crate) message: String,
    pub(crate) cure: String,
}

impl Remark {
    pub(crate) fn note(at: At, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(Severity::Note, at, message.into(), cure.into())
    }

    pub(crate) fn warning(at: At, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(Severity::Warning, at, message.into(), cure.into())
    }

    pub(crate) fn error(at: At, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(Severity::Error, at, message.into(), cure.into())
    }

    fn new(severity: Severity, at: At, message: String, cure: String) -> Self {
        Self { severity, at, message, cure }
    }
}

/// What a document holds. Converted while it is read, so that a list of thousands never stands in
/// memory as a tree.
pub(crate) struct Document(pub(crate) Vec<Finding>);

enum Item<'a> {
    Read(Finding),
    /// Without a kind of its own: the list's says it (`ServiceList`, as the API serves it).
    Bare(Tree<'a>),
}

/// The kinds that count.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Service,
    EndpointSlice,
    Node,
    IpAddressPool,
    L2Advertisement,
}

impl Kind {
    fn find(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("v1", "Service") => Some(Self::Service),
            ("v1", "Node") => Some(Self::Node),
            ("discovery.k8s.io/v1", "EndpointSlice") => Some(Self::EndpointSlice),
            ("metallb.io/v1beta1", "IPAddressPool") => Some(Self::IpAddressPool),
            ("metallb.io/v1beta1", "L2Advertisement") => Some(Self::L2Advertisement),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
            Self::IpAddressPool => "IPAddressPool",
            Self::L2Advertisement => "L2Advertisement",
        }
    }

    fn identity(self, name: &Name) -> Identity {
        match self {
            Self::Service => Identity::Service(name.service_key()),
            Self::EndpointSlice => {
                let Name { namespace, name } = name.clone();
                Identity::Slice(SliceKey { namespace, name })
            }
            Self::Node => Identity::Node(NodeName(name.name.clone())),
            Self::IpAddressPool => Identity::Pool(name.name.clone()),
            Self::L2Advertisement => Identity::Advertisement(name.name.clone()),
        }
    }
}

/// An object is itself; a list is its items.
fn findings(root: &Tree<'_>, items: Vec<Item<'_>>) -> Vec<Finding> {
    let kind = root.child_text("kind").unwrap_or_default();
    // `items` of an object that is no list are nothing of ours.
    let Some(element) = kind.strip_suffix("List") else { return vec![finding(root)] };
    let api_version = root.child_text("apiVersion").unwrap_or_default();
    let read = |item| match item {
        Item::Read(finding) => finding,
        Item::Bare(tree) if element.is_empty() => finding(&tree),
        Item::Bare(tree) => finding_of(&tree, api_version, element),
    };
    items.into_iter().map(read).collect()
}

fn finding(tree: &Tree<'_>) -> Finding {
    match (tree.child_text("apiVersion"), tree.child_text("kind")) {
        (Some(api_version), Some(kind)) => finding_of(tree, api_version, kind),
        (None, _) | (_, None) => Finding::NoObject {
            at: tree.at,
            message: "not a Kubernetes object: apiVersion and kind are missing".into(),
            cure: "add both, or move the file out of this folder".into(),
        },
    }
}

fn finding_of(tree: &Tree<'_>, api_version: &str, kind: &str) -> Finding {
    match Kind::find(api_version, kind) {
        Some(kind) => Finding::Draft(Box::new(draft(tree, kind))),
        None => Finding::UnknownKind { kind: format!("{api_version} {kind}"), at: tree.at },
    }
}

fn draft(tree: &Tree<'_>, kind: Kind) -> Draft {
    let mut draft = Draft {
        at: tree.at,
        label: kind.name().into(),
        identity: None,
        object: None,
        broken: false,
        remarks: Vec::new(),
    };
    let name = match Name::read(tree) {
        Ok(name) => name,
        Err(bad) => return draft.refuse(bad),
    };
    let identity = kind.identity(&name);
    draft.label = identity.to_string();
    draft.identity = Some(identity);
    match object(tree, kind, name, &mut draft.remarks) {
        Ok(object) => draft.object = object,
        Err(bad) => return draft.refuse(bad),
    }
    draft
}

/// The object, or `None` where it is left out on purpose.
fn object(
    tree: &Tree<'_>,
    kind: Kind,
    name: Name,
    remarks: &mut Vec<Remark>,
) -> Result<Option<Object>, Bad> {
    let meta = Meta::read(tree, name)?;
    match kind {
        Kind::Service => service::read(tree, meta, remarks).map(Object::Service).map(Some),
        Kind::EndpointSlice => {
            slice::read(tree, meta, remarks).map(|slice| slice.map(Object::Slice))
        }
        Kind::Node => node::read(tree, meta).map(Object::Node).map(Some),
        Kind::IpAddressPool => pool::read(tree, meta, remarks).map(Object::Pool).map(Some),
        Kind::L2Advertisement => {
            advertisement::read(tree, meta, remarks).map(Object::Advertisement).map(Some)
        }
    }
}

impl Draft {
    fn refuse(mut self, bad: Bad) -> Self {
        self.broken = true;
        self.remarks.push(Remark::error(
            bad.at,
            format!("{}: {}", bad.path, bad.message),
            bad.cure,
        ));
        self
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Spanned { value: Body { value, items }, referenced, .. } =
            Spanned::<Body<'de>>::deserialize(d)?;
        let root = Tree { at: referenced.into(), value };
        Ok(Self(findings(&root, items)))
    }
}

struct Body<'a> {
    value: Value<'a>,
    items: Vec<Item<'a>>,
}

impl<'de> Deserialize<'de> for Body<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(Cow<'de, str>, Tree<'de>)> = Vec::new();
        let mut items = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            if key == "items" {
                items = map.next_value::<Items<'de>>()?.0;
            } else {
                fields.push((key, map.next_value()?));
            }
        }
        Ok(Body { value: Value::Map(fields), items })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Body { value: Value::Null, items: Vec::new() })
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Body { value: Value::Null, items: Vec::new() })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Body { value: Value::Null, items: Vec::new() })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Body { value: Value::Null, items: Vec::new() })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Body { value: Value::Null, items: Vec::new() })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Body { value: Value::Null, items: Vec::new() })
    }
}

struct Items<'a>(Vec<Item<'a>>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(tree) = seq.next_element::<Tree<'de>>()? {
            items.push(match tree.child("kind") {
                Some(_) => Item::Read(finding(&tree)),
                None => Item::Bare(tree),
            });
        }
        Ok(Items(items))
    }
}
