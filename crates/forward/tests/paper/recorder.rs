//! A kernel on paper that remembers every state it was in, and refuses what it is told to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use signpost_forward::{Kernel, Paper};
use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::{CommitError, Elements, Refusal};
use signpost_nft::{Change, Element, Family, Table};

/// What every commit left, and the kernel itself, shared with the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(pub(crate) Rc<RefCell<Recorded>>);

#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) paper: Paper,
    pub(crate) states: BTreeMap<Family, Vec<(Table, Elements)>>,
    /// Changes that are refused, and the errno.
    pub(crate) refuses: Option<fn(&Change) -> Option<i32>>,
    /// The next commits end like this, without effect.
    pub(crate) fails: Vec<CommitError>,
}

impl Kernel for Recorder {
    fn commit(
        &mut self,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<(), CommitError> {
        let mut recorded = self.0.borrow_mut();
        if let Some(error) = recorded.fails.pop() {
            return Err(error);
        }
        let refuses = recorded.refuses.unwrap_or(|_| None);
        let refused = changes.iter().enumerate().filter_map(|(index, change)| {
            Some(Refusal { index, element: None, errno: refuses(change)? })
        });
        let refused: Vec<_> = refused.collect();
        if !refused.is_empty() {
            return Err(CommitError::Refused(refused));
        }
        recorded.paper.commit(family, table, changes)?;
        let state = recorded.paper.contents(family);
        recorded.states.entry(family).or_default().extend(state);
        Ok(())
    }

    fn read(&mut self, family: Family, name: &str) -> Result<Option<(Table, Elements)>, ReadError> {
        self.0.borrow_mut().paper.read(family, name)
    }

    fn learned(
        &mut self,
        family: Family,
        name: &str,
        set: &str,
    ) -> Result<Vec<Element>, ReadError> {
        self.0.borrow_mut().paper.learned(family, name, set)
    }
}
