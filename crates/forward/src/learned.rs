//! Clients that were led to an endpoint which is no longer theirs.

use std::collections::BTreeSet;

use signpost_netlink::nf_tables::CommitError;
use signpost_nft::{Change, Element, Part, Type, Value};

use crate::element::ip;
use crate::kernel::Kernel;
use crate::layout::{LEARNED, Layout};
use crate::part::{Endpoint, Place};
use crate::{Frontend, TABLE};

/// An element may expire between the look and the deletion, which then fails as a whole.
const ATTEMPTS: usize = 8;

/// Endpoints of frontends that no client may be led back to.
#[derive(Debug, Default)]
pub(crate) struct Unlearned(BTreeSet<(Frontend, Endpoint)>);

/// Some of it is left.
pub(crate) struct Left;

impl Unlearned {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, more: &BTreeSet<(Frontend, Endpoint)>) {
        self.0.extend(more);
    }

    /// Deletes what the kernel has learned of them, and says in how many transactions.
    pub(crate) fn carry_out(
        &mut self,
        kernel: &mut impl Kernel,
        layout: Layout,
    ) -> Result<u32, Left> {
        if self.0.is_empty() {
            return Ok(0);
        }
        for _ in 0..ATTEMPTS {
            let all = kernel.learned(layout.nft_family(), TABLE, LEARNED).map_err(|_| Left)?;
            let stale = all.into_iter().filter(|e| self.holds(layout, e));
            let bare = |e: Element| Element { value: Value::None, ..e };
            let stale: Vec<_> = stale.map(bare).collect();
            if stale.is_empty() {
                self.0.clear();
                return Ok(0);
            }
            let change = Change::DeleteElements(LEARNED.into(), stale);
            match kernel.commit(layout.nft_family(), TABLE, &[change]) {
                Ok(()) => {
                    self.0.clear();
                    return Ok(1);
                }
                Err(CommitError::Refused(_)) => {}
                Err(CommitError::RefusedWhole { .. } | CommitError::NoAck | CommitError::Io(_)) => {
                    return Err(Left);
                }
            }
        }
        Err(Left)
    }

    fn holds(&self, layout: Layout, element: &Element) -> bool {
        let Some((asked, endpoint)) = read(layout.address(), element) else { return false };
        let of_node = Frontend { place: Place::Node(layout.family), ..asked };
        self.0.contains(&(asked, endpoint)) || self.0.contains(&(of_node, endpoint))
    }
}

/// What a client asked, and where it was led.
fn read(address: Type, element: &Element) -> Option<(Frontend, Endpoint)> {
    let types = [address, address, Type::InetProto, Type::InetService];
    let Value::Data(data) = &element.value else { return None };
    let [_, to, protocol, port] = element.key.parts(&types)?[..] else { return None };
    let [pod, Part::Port(pod_port)] = data.parts(&[address, Type::InetService])?[..] else {
        return None;
    };
    let asked = Frontend::from_parts(to, protocol, port)?;
    Some((asked, (ip(pod)?, pod_port)))
}
