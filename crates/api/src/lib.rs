//! Kubernetes' and MetalLB's objects, parsed into the plan's types.
