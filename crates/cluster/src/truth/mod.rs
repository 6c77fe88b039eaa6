//! What the real kube-proxy does, cell by cell: recorded, and measured again.
