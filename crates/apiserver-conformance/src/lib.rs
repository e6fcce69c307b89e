//! What clients of a Kubernetes API server rely on, as cases that run against any server; the expectations are recorded from
//! kube-apiserver, never written by hand.
