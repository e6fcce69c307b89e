//! Of certificates.

use super::super::facts::{Certificate, Facts};
use super::super::finding::{Finding, Group};
use super::seen;

const DAY: i64 = 24 * 60 * 60;
/// Who renews certificates has done it before this is left.
const SOON: i64 = 14 * DAY;

pub(super) fn expiry(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("certificates", Vec::new());
    if facts.installed().is_none() {
        return findings;
    }
    let Some(certificates) = seen(&facts.certificates, check, &mut findings) else { return findings };
    findings.extend(certificates.iter().filter_map(|one| problem(check, one, facts)));
    if findings.is_empty() {
        let next = certificates.iter().map(|one| (one.ends - facts.now) / DAY).min();
        let found = match next {
            Some(days) => format!("{} are valid; the first ends in {days} days", certificates.len()),
            None => "there are none yet: the controller makes them when it starts".to_owned(),
        };
        findings.push(Finding::ok(Group::Cluster, check, found));
    }
    findings
}

fn problem(check: &'static str, certificate: &Certificate, facts: &Facts) -> Option<Finding> {
    let left = certificate.ends - facts.now;
    let subject = &certificate.subject;
    let why = "whoever connects to a server whose certificate or authority is not valid now refuses it";
    let remedy = match certificate.place.strip_prefix("Secret ").and_then(|place| place.split(',').next()) {
        Some(secret) => {
            let (namespace, name) = secret.split_once('/').unwrap_or((&facts.namespace, secret));
            format!(
                "`kubectl delete secret -n {namespace} {name}`, and the controller makes a new one; if you put your own authority there, renew it"
            )
        }
        None => "if a controller runs, it writes what its Secret has within seconds; its log says why not"
            .to_owned(),
    };
    let finding = if left <= 0 {
        let found = format!("{subject} ended {} days ago", -left / DAY);
        Finding::error(Group::Cluster, check, found, why, remedy)
    } else if certificate.begins > facts.now {
        let found =
            format!("{subject} begins in {} s only: is a clock wrong?", certificate.begins - facts.now);
        Finding::error(Group::Cluster, check, found, why, remedy)
    } else if left < SOON && left < (certificate.ends - certificate.begins) / 5 {
        let found = format!("{subject} ends in {} days, and was not renewed", left / DAY);
        Finding::warning(Group::Cluster, check, found, why, remedy)
    } else {
        return None;
    };
    Some(finding.of(&certificate.place))
}

#[cfg(test)]
mod tests {
    use portolan_agent::examine::facts::Outcome;

    use super::super::super::finding::Level;
    use super::super::example::{facts, levels, not_installed, only};
    use super::*;

    fn with(begins: i64, ends: i64) -> Vec<Finding> {
        let mut facts = facts();
        facts.certificates = Outcome::Found(vec![Certificate {
            place: "Secret portolan-system/portolan-webhook-ca, tls.crt".into(),
            subject: "CN=portolan-webhook".into(),
            begins: facts.now + begins,
            ends: facts.now + ends,
        }]);
        expiry(&facts)
    }

    #[test]
    fn certificates_are_valid_end_soon_or_have_ended() {
        assert_eq!(levels(&expiry(&facts())), [Level::Ok]);
        assert_eq!(levels(&with(-DAY, 100 * DAY)), [Level::Ok]);
        assert_eq!(levels(&with(-80 * DAY, 5 * DAY)), [Level::Warning]);
        assert_eq!(levels(&with(-DAY, DAY)), [Level::Ok], "one of short life");
        assert_eq!(levels(&with(DAY, 9 * DAY)), [Level::Error]);
        let ended = only(with(-9 * DAY, -2 * DAY));
        assert!(ended.level == Level::Error && ended.found.contains("ended 2 days ago"), "{ended:?}");
        assert!(
            ended.remedy.contains("kubectl delete secret -n portolan-system portolan-webhook-ca"),
            "{ended:?}"
        );
        let mut none = facts();
        none.certificates = Outcome::Found(Vec::new());
        assert_eq!(levels(&expiry(&none)), [Level::Ok]);
        assert_eq!(expiry(&not_installed()), []);
    }
}
