//! Whether the server lives, and whether it is ready.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What must be so, by name. A check may come and go while the server runs.
#[derive(Debug, Default)]
pub struct Health {
    checks: Mutex<BTreeMap<String, Result<(), String>>>,
    ending: AtomicBool,
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
    /// Says how a named thing is: well, or why not.
    pub fn set(&self, name: &str, state: Result<(), String>) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), state);
    }

    /// The server takes no more requests.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Answers a probe. With a name, only of that check; absent if there is none of that name.
    pub fn check(
        &self,
        probe: Probe,
        only: Option<&str>,
        excluded: &[&str],
        verbose: bool,
    ) -> Option<Checked> {
        let mut states = vec![("ping".to_owned(), Ok(()))];
        states.extend(
            self.checks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .map(|(name, state)| (name.clone(), state.clone())),
        );
        if probe == Probe::Readyz {
            let ending = self.ending.load(Ordering::Acquire);
            states.push(("shutdown".into(), if ending { Err("the server ends".into()) } else { Ok(()) }));
        }
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
                    tracing::warn!(check = name, reason, "not healthy");
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_fails_the_probe() {
        let health = Health::default();
        assert_eq!(health.check(Probe::Readyz, None, &[], false).unwrap().text, "ok");
        health.set("bootstrap", Err("not yet".into()));
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
}
