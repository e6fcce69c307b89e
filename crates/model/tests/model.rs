//! What others can rely on: the World, its answers, and the words that users get.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod model {
    mod guest;
    mod primary;
    mod properties;
    mod rates;
    mod requests;
    mod services;
    mod tenants;
    mod unreadable;
    mod validation;
    mod world;
}
