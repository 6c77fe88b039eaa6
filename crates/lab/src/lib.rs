//! A cluster of network namespaces on this machine: nodes, pods, a router, clients, faults.
