//! The user of a request, and the warnings of its answer.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::authn::UserInfo;
use crate::authz::Authorizer;

/// The user of a request, and the warnings of its answer.
#[derive(Debug)]
pub struct Context {
    /// The user.
    pub user: UserInfo,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The time of the request.
    pub now: Timestamp,
    /// Authorizes what only turns out while the request is handled: that a replacement creates the object. Absent for what the
    /// server does by itself.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    warnings: Mutex<Vec<String>>,
}

impl Context {
    /// A request that arrives now.
    pub fn new(user: UserInfo, user_agent: &str) -> Context {
        Context {
            user,
            user_agent: user_agent.into(),
            now: Timestamp::now(),
            authorizer: None,
            warnings: Mutex::default(),
        }
    }

    /// The same, with an authorizer for what only turns out while the request is handled.
    pub fn asking(mut self, authorizer: Arc<dyn Authorizer>) -> Context {
        self.authorizer = Some(authorizer);
        self
    }

    /// A request that the server makes by itself.
    pub fn internal(name: &str) -> Context {
        let user = UserInfo::new(format!("system:apiserver:{name}"), ["system:masters".into()]);
        Context::new(user, name)
    }

    /// Adds a warning to the answer, once.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Adds warnings to the answer.
    pub fn warn_all(&self, warnings: Vec<String>) {
        for warning in warnings {
            self.warn(warning);
        }
    }

    /// What the client should be told.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
