//! On whose behalf something is done, and what they should be told.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::authn::UserInfo;
use crate::authz::Authorizer;

/// On whose behalf something is done, and what they should be told besides the answer.
#[derive(Debug)]
pub struct Context {
    /// Who asks.
    pub user: UserInfo,
    /// What they ask with.
    pub user_agent: String,
    /// When they asked.
    pub now: Timestamp,
    /// Who is asked whether they may do what only turns out on the way: to make what a replacement did not find. Nobody is
    /// for what the server does by itself.
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

    /// The same, with somebody to ask what else they may do.
    pub fn asking(mut self, authorizer: Arc<dyn Authorizer>) -> Context {
        self.authorizer = Some(authorizer);
        self
    }

    /// Something that the server does by itself.
    pub fn internal(name: &str) -> Context {
        let user = UserInfo::new(format!("system:apiserver:{name}"), ["system:masters".into()]);
        Context::new(user, name)
    }

    /// Tells the client something. What it was told before is not repeated.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Tells the client several things.
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
