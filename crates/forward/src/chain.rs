//! The chains that frontends share, by name.

use crate::Lane;

/// A chain that frontends share: which ones there are depends on the Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    /// Picks an endpoint: `c3`, `l1`, `nc3`, `gcs`.
    Pick(Pick),
    /// Remembers a client's endpoint for so many seconds: `t10800`.
    Learn(u32),
}

/// How an endpoint is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pick {
    /// By which key.
    pub by: By,
    /// Of which endpoints.
    pub lane: Lane,
    /// How.
    pub choice: Choice,
}

/// The key of a frontend in the maps of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The address that the packet asks.
    Address,
    /// The same, for allowed sources only.
    Guarded,
    /// The family's address of all zeros: the packet asks one of this node's.
    Node,
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// At random, of so many.
    Random(u32),
    /// By the client's address: the one that it had, else one that every node would choose.
    Sticky,
}

impl By {
    pub(crate) const fn unguarded(self) -> Self {
        match self {
            Self::Address | Self::Guarded => Self::Address,
            Self::Node => Self::Node,
        }
    }

    const ALL: [Self; 3] = [Self::Address, Self::Guarded, Self::Node];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Address => "",
            Self::Guarded => "g",
            Self::Node => "n",
        }
    }
}

impl Chain {
    pub(crate) fn name(self) -> Box<str> {
        match self {
            Self::Pick(Pick { by, lane, choice: Choice::Random(count) }) => {
                format!("{}{}{count}", by.prefix(), letter(lane)).into()
            }
            Self::Pick(Pick { by, lane, choice: Choice::Sticky }) => {
                format!("{}{}s", by.prefix(), letter(lane)).into()
            }
            Self::Learn(timeout_s) => format!("t{timeout_s}").into(),
        }
    }

    /// The chain of a name, if it is one of these.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let chain = match name.strip_prefix('t') {
            Some(timeout) => Self::Learn(timeout.parse().ok().filter(|s| *s > 0)?),
            None => Self::Pick(pick(name)?),
        };
        // "c01" and "c+1" parse as well, and are not our names.
        (*chain.name() == *name).then_some(chain)
    }
}

fn pick(name: &str) -> Option<Pick> {
    for by in By::ALL {
        let Some(rest) = name.strip_prefix(by.prefix()) else { continue };
        for lane in Lane::ALL {
            let Some(choice) = rest.strip_prefix(letter(lane)) else { continue };
            if choice == "s" {
                return Some(Pick { by, lane, choice: Choice::Sticky });
            }
            let count: u32 = choice.parse().ok()?;
            return (count > 0).then_some(Pick { by, lane, choice: Choice::Random(count) });
        }
    }
    None
}

const fn letter(lane: Lane) -> char {
    match lane {
        Lane::Cluster => 'c',
        Lane::Local => 'l',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_chain() {
        let mut all = vec![Chain::Learn(1), Chain::Learn(10_800)];
        for by in By::ALL {
            for lane in Lane::ALL {
                for choice in [Choice::Random(1), Choice::Random(12), Choice::Sticky] {
                    all.push(Chain::Pick(Pick { by, lane, choice }));
                }
            }
        }
        for chain in all {
            assert_eq!(Chain::named(&chain.name()), Some(chain), "{}", chain.name());
        }
        for foreign in ["c0", "c01", "c+1", "t0", "t", "cs1", "nodes", "x1", "", "external", "own"]
        {
            assert_eq!(Chain::named(foreign), None, "{foreign}");
        }
    }
}
