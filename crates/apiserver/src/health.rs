//! Whether the server lives, and whether it is ready.

mod dispatch;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) use dispatch::Dispatch;

/// The checks behind `/livez` and `/readyz`, by name.
#[derive(Default)]
pub struct Health {
    checks: Mutex<BTreeMap<String, Check>>,
    shutting_down: AtomicBool,
}

struct Check {
    needed_for: NeededFor,
    state: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// What a check says when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededFor {
    /// Only a restart helps: `/livez`, `/readyz` and `/healthz` fail.
    Liveness,
    /// The server may recover by itself, and should get no requests until then: `/readyz` fails.
    Readiness,
}

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
    /// `/readyz`
    Readyz,
}

impl Probe {
    fn name(self) -> &'static str {
        match self {
            Probe::Healthz => "healthz",
            Probe::Livez => "livez",
            Probe::Readyz => "readyz",
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whether all is well.
    pub ok: bool,
    /// For people.
    pub text: String,
}

impl Health {
    /// Adds a check, which is made whenever a probe asks. It must not block.
    pub fn add(
        &self,
        name: &str,
        needed_for: NeededFor,
        state: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let check = Check { needed_for, state: Box::new(state) };
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), check);
    }

    /// The server takes no more requests.
    pub(crate) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Release);
    }

    /// Answers a probe. With a name, only of that check; absent if there is none of that name.
    pub fn check(
        &self,
        probe: Probe,
        only: Option<&str>,
        excluded: &[&str],
        verbose: bool,
    ) -> Option<Checked> {
        let mut states = self.states(probe);
        if let Some(only) = only {
            states.retain(|(name, _)| name == only);
            if states.is_empty() {
                return None;
            }
        }

        let mut ok = true;
        let mut text = String::new();
        for (name, state) in states {
            let line = match state {
                _ if excluded.contains(&name.as_str()) => writeln!(text, "[+]{name} excluded: ok"),
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(reason) => {
                    ok = false;
                    tracing::warn!(probe = probe.name(), check = name, reason, "health check failed");
                    writeln!(text, "[-]{name} failed: reason withheld")
                }
            };
            line.expect("writing to memory does not fail");
        }
        if ok && !verbose {
            return Some(Checked { ok, text: "ok".into() });
        }
        let verdict = if ok { "passed" } else { "failed" };
        writeln!(text, "{} check {verdict}", probe.name()).expect("writing to memory does not fail");
        Some(Checked { ok, text })
    }

    fn states(&self, probe: Probe) -> Vec<(String, Result<(), String>)> {
        let mut states = vec![("ping".to_owned(), Ok(()))];
        for (name, check) in self.checks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if check.needed_for == NeededFor::Liveness || probe == Probe::Readyz {
                states.push((name.clone(), (check.state)()));
            }
        }
        if probe == Probe::Readyz {
            let shutting_down = self.shutting_down.load(Ordering::Acquire);
            let state = if shutting_down { Err("the server shuts down".into()) } else { Ok(()) };
            states.push(("shutdown".into(), state));
        }
        states
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Health").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_fails_the_probe() {
        let health = Health::default();
        assert_eq!(health.check(Probe::Readyz, None, &[], false).unwrap().text, "ok");
        health.add("bootstrap", NeededFor::Readiness, || Err("not yet".into()));
        let checked = health.check(Probe::Readyz, None, &[], false).unwrap();
        assert!(!checked.ok);
        assert_eq!(
            checked.text,
            "[+]ping ok\n[-]bootstrap failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
        );
        assert!(health.check(Probe::Readyz, None, &["bootstrap"], false).unwrap().ok);
        assert!(health.check(Probe::Livez, Some("ping"), &[], true).unwrap().ok);
        assert_eq!(health.check(Probe::Livez, Some("other"), &[], true), None);
    }

    #[test]
    fn what_only_readiness_needs_does_not_fail_liveness() {
        let health = Health::default();
        health.add("rbac", NeededFor::Readiness, || Err("not in sync".into()));
        assert!(health.check(Probe::Livez, None, &[], false).unwrap().ok);
        assert!(health.check(Probe::Healthz, None, &[], false).unwrap().ok);
        health.add("store", NeededFor::Liveness, || Err("the disk is full".into()));
        for probe in [Probe::Livez, Probe::Readyz, Probe::Healthz] {
            assert!(!health.check(probe, None, &[], false).unwrap().ok, "{probe:?}");
        }
    }
}
