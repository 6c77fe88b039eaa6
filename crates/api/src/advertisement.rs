//! metallb.io/v1beta1 L2Advertisement.

use signpost_plan::world::{L2Advertisement, LabelSelector, Requirement};

use crate::document::Remark;
use crate::meta::{Meta, name};
use crate::read::{Bad, each, optional, required, text, texts};
use crate::tree::Tree;

/// `IFNAMSIZ` without the final zero.
const INTERFACE_NAME_MAX: usize = 15;

pub(crate) fn read(
    tree: &Tree<'_>,
    meta: Meta,
    remarks: &mut Vec<Remark>,
) -> Result<L2Advertisement, Bad> {
    let mut ad = L2Advertisement {
        name: meta.name.name,
        span: None,
        pools: Vec::new(),
        pool_selectors: Vec::new(),
        node_selectors: Vec::new(),
        interfaces: Vec::new(),
    };
    optional(tree, "spec", |spec| {
        ad.pools = each(spec, "ipAddressPools", name)?;
        ad.pool_selectors = each(spec, "ipAddressPoolSelectors", selector)?;
        ad.node_selectors = each(spec, "nodeSelectors", selector)?;
        ad.interfaces = each(spec, "interfaces", interface)?;
        if let Some(selectors) = spec.child("serviceSelectors") {
            let message =
                "spec.serviceSelectors: not applied yet: every Service of its pools is announced";
            remarks.push(Remark::warning(selectors.at, message, ""));
        }
        Ok(())
    })?;
    Ok(ad)
}

fn selector(tree: &Tree<'_>) -> Result<LabelSelector, Bad> {
    let labels = optional(tree, "matchLabels", texts)?.unwrap_or_default();
    let equal = labels.into_iter().map(|(k, v)| Requirement::In(k.into(), vec![v.into()]));
    let mut requirements: Vec<_> = equal.collect();
    requirements.extend(each(tree, "matchExpressions", requirement)?);
    Ok(LabelSelector(requirements))
}

fn requirement(tree: &Tree<'_>) -> Result<Requirement, Bad> {
    let key: Box<str> = required(tree, "key", text)?.into();
    let values = || each(tree, "values", |v| Ok(text(v)?.into()));
    let some_values = || match values()? {
        none if none.is_empty() => Err(Bad::new(tree, "is empty", "add a value").under("values")),
        some => Ok(some),
    };
    required(tree, "operator", |operator| match text(operator)? {
        "In" => Ok(Requirement::In(key, some_values()?)),
        "NotIn" => Ok(Requirement::NotIn(key, some_values()?)),
        "Exists" => Ok(Requirement::Exists(key)),
        "DoesNotExist" => Ok(Requirement::DoesNotExist(key)),
        other => {
            let message = format!("{other:?} is not an operator");
            Err(Bad::new(operator, message, "write In, NotIn, Exists or DoesNotExist"))
        }
    })
}

fn interface(tree: &Tree<'_>) -> Result<Box<str>, Bad> {
    let name = text(tree)?;
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    if name.is_empty() || name.len() > INTERFACE_NAME_MAX || !name.chars().all(allowed) {
        let message = format!("{name:?} is not a name of an interface");
        return Err(Bad::new(tree, message, "write it as `ip link` shows it"));
    }
    Ok(name.into())
}
