//! Who a client certificate names: the common name is the user, the organizations are the groups.

use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::UserInfo;

/// The user that a certificate names; absent if it names none.
pub fn user_of_certificate(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok().map(String::from));
    Some(UserInfo::new(name, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(common_name: Option<&str>, organizations: &[&str]) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = common_name {
            parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        }
        for organization in organizations {
            parameters.distinguished_name.push(rcgen::DnType::OrganizationName, *organization);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_is_user_and_groups() {
        let user = user_of_certificate(&certificate(Some("admin"), &["system:masters"])).unwrap();
        assert_eq!(user, UserInfo::new("admin", ["system:masters".into()]));
    }

    #[test]
    fn a_certificate_without_a_common_name_authenticates_nobody() {
        assert_eq!(user_of_certificate(&certificate(None, &["x"])), None);
        assert_eq!(user_of_certificate(b"no certificate"), None);
    }
}
