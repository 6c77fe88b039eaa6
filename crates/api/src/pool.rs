//! metallb.io/v1beta1 IPAddressPool.

use signpost_plan::world::Pool;

use crate::address::range;
use crate::document::Remark;
use crate::meta::Meta;
use crate::read::{Bad, each, required};
use crate::tree::Tree;

pub(crate) fn read(tree: &Tree<'_>, meta: Meta, remarks: &mut Vec<Remark>) -> Result<Pool, Bad> {
    required(tree, "spec", |spec| {
        let ranges = each(spec, "addresses", range)?;
        if ranges.is_empty() {
            return Err(
                Bad::new(spec, "is empty", "add a range, as 192.0.2.0/24").under("addresses")
            );
        }
        if let Some(allocation) = spec.child("serviceAllocation") {
            let message =
                "spec.serviceAllocation: not applied yet: any Service may ask for an address";
            remarks.push(Remark::warning(allocation.at, message, ""));
        }
        Ok(Pool { name: meta.name.name, span: None, labels: meta.labels, ranges })
    })
}
