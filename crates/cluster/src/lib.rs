//! The real Kubernetes components on a lab: an API server, its controllers, a kube-proxy for each
//! node, and a stand-in for each kubelet.

pub mod truth;
pub mod vm;
