//! Which options of the kernel's configuration a refusal points to.

use std::io;

use signpost_nft::{ChainType, Change, Family, Operand, Statement};

use super::error::CommitError;

/// The CONFIG_ options of which one is probably missing, most likely first; empty: the refusal has
/// another cause. A module that can't be loaded looks the same as one that was not built.
pub fn missing_config(
    family: Family,
    changes: &[Change],
    error: &CommitError,
) -> Vec<&'static str> {
    match error {
        CommitError::Io(error) if is_missing_protocol(error) => vec!["CONFIG_NETFILTER_NETLINK"],
        CommitError::RefusedWhole { errno: libc::EOPNOTSUPP } => vec!["CONFIG_NF_TABLES"],
        CommitError::Refused(refusals) => refusals
            .first()
            .filter(|refusal| is_missing(refusal.errno))
            .and_then(|refusal| changes.get(refusal.index))
            .map_or_else(Vec::new, |change| of_change(family, change)),
        CommitError::RefusedWhole { .. } | CommitError::NoAck | CommitError::Io(_) => Vec::new(),
    }
}

/// Opening the socket fails so where the kernel has no nfnetlink.
pub(crate) fn is_missing_protocol(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT))
}

fn is_missing(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)
}

fn of_change(family: Family, change: &Change) -> Vec<&'static str> {
    match change {
        Change::AddTable { .. } => vec![of_family(family)],
        Change::AddChain(_, Some(base)) => match base.kind {
            ChainType::Nat => vec!["CONFIG_NFT_NAT", "CONFIG_NF_NAT"],
            ChainType::Filter | ChainType::Route => vec![of_family(family)],
            ChainType::Foreign => Vec::new(),
        },
        Change::AddRule(_, rule) => {
            let mut options: Vec<_> = rule.0.iter().flat_map(of_statement).collect();
            options.dedup();
            options
        }
        Change::AddChain(_, None)
        | Change::AddSet(..)
        | Change::AddElements(..)
        | Change::DeleteTable
        | Change::DeleteSet(_)
        | Change::DeleteChain(_)
        | Change::FlushChain(_)
        | Change::DeleteElements(..)
        | Change::FlushSet(_) => Vec::new(),
    }
}

fn of_family(family: Family) -> &'static str {
    match family {
        Family::Ip => "CONFIG_NF_TABLES_IPV4",
        Family::Ip6 => "CONFIG_NF_TABLES_IPV6",
        Family::Inet => "CONFIG_NF_TABLES_INET",
    }
}

fn of_statement(statement: &Statement) -> Vec<&'static str> {
    match statement {
        Statement::Match { left, .. } | Statement::MatchBits { left, .. } => of_key(&[*left]),
        Statement::InSet { key, .. } | Statement::Vmap { key, .. } => of_key(key),
        Statement::Learn { key, .. } => of_key(key),
        Statement::Dnat { key, .. } => {
            let mut options = of_key(key);
            options.push("CONFIG_NFT_NAT");
            options
        }
        Statement::Masquerade { .. } => vec!["CONFIG_NFT_MASQ"],
        Statement::Redirect => vec!["CONFIG_NFT_REDIR"],
        Statement::RejectTcpReset | Statement::RejectPortUnreachable => vec!["CONFIG_NFT_REJECT"],
        Statement::Verdict(_) | Statement::Foreign(_) => Vec::new(),
    }
}

fn of_key(key: &[Operand]) -> Vec<&'static str> {
    key.iter()
        .filter_map(|operand| match operand {
            Operand::CtState
            | Operand::CtStatus
            | Operand::CtOriginalIpSaddr
            | Operand::CtOriginalIp6Saddr
            | Operand::CtOriginalIpDaddr
            | Operand::CtOriginalIp6Daddr
            | Operand::CtReplyIpSaddr
            | Operand::CtReplyIp6Saddr
            | Operand::CtReplyProtoSrc
            | Operand::CtOriginalProtoDst => Some("CONFIG_NFT_CT"),
            Operand::JhashIpSaddr(_) | Operand::JhashIp6Saddr(_) => Some("CONFIG_NFT_HASH"),
            Operand::FibDaddrType => Some("CONFIG_NFT_FIB_IPV4 or CONFIG_NFT_FIB_IPV6"),
            Operand::NumgenRandom(_) => Some("CONFIG_NFT_NUMGEN"),
            Operand::IpSaddr
            | Operand::IpDaddr
            | Operand::Ip6Saddr
            | Operand::Ip6Daddr
            | Operand::AnyIpDaddr
            | Operand::AnyIp6Daddr
            | Operand::ThDport
            | Operand::IcmpType
            | Operand::L4Proto
            | Operand::IifName => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use signpost_nft::Rule;

    use super::*;
    use crate::nf_tables::Refusal;

    #[test]
    fn a_refused_rule_names_the_option_of_its_expression() {
        let masquerade = Rule(vec![Statement::Masquerade { fully_random: true }]);
        let changes = [Change::DeleteTable, Change::AddRule("postrouting".into(), masquerade)];
        let refused =
            |errno| CommitError::Refused(vec![Refusal { index: 1, element: None, errno }]);
        let options = missing_config(Family::Ip, &changes, &refused(libc::ENOENT));
        assert_eq!(options, ["CONFIG_NFT_MASQ"]);
        assert!(missing_config(Family::Ip, &changes, &refused(libc::EEXIST)).is_empty());
        let whole = CommitError::RefusedWhole { errno: libc::EOPNOTSUPP };
        assert_eq!(missing_config(Family::Ip, &[], &whole), ["CONFIG_NF_TABLES"]);
    }

    #[test]
    fn an_error_names_the_object_the_errno_and_the_cure() {
        let masquerade = Rule(vec![Statement::Masquerade { fully_random: true }]);
        let changes = [Change::AddRule("postrouting".into(), masquerade)];
        let refusal = Refusal { index: 0, element: None, errno: libc::ENOENT };
        assert_eq!(
            CommitError::Refused(vec![refusal]).in_words(Family::Ip, "signpost", &changes),
            "table ip signpost: add a rule to chain postrouting: No such file or directory \
             (os error 2); this kernel may lack CONFIG_NFT_MASQ"
        );
    }
}
