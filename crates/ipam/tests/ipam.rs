//! What others can rely on: decisions, their words, and that no address is ever given twice.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod ipam {
    mod decisions;
    mod two_deciders;
}
