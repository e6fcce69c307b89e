//! A Kubernetes API server as a library: the machinery, over a [`Store`](apistore::Store), with kinds and admission injected.
//!
//! It knows nothing of any project's kinds.
