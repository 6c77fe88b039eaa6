//! Netlink: a message writer, a socket, nf_tables, route and conntrack.
