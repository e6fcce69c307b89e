//! Why a webhook could not be asked, in the words of kube-apiserver: people search for them.

use std::error::Error as _;
use std::io;

use http::StatusCode;
use rustls::CertificateError;
use serde::Deserialize as _;
use serde_json::Value;

use super::client::Answer;

/// A connection that was not made.
pub(super) fn of_connect(host: &str, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        // Names that are not found have no number of the system's.
        _ if error.raw_os_error().is_none() => return format!("dial tcp: lookup {host}: no such host"),
        _ => error.to_string(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("dial tcp {host}:{port}: connect: {why}")
}

/// A connection that is not secure.
pub(super) fn of_tls(error: &io::Error, name: &str) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let x509 = |why: String| format!("tls: failed to verify certificate: x509: {why}");
    match inner {
        Some(rustls::Error::InvalidCertificate(certificate)) => x509(match certificate {
            // Another authority of the same name is another authority.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "certificate signed by unknown authority".into()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "certificate has expired or is not yet valid".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "certificate has expired or is not yet valid".into()
            }
            CertificateError::NotValidForName => format!("certificate is not valid for {name}"),
            CertificateError::NotValidForNameContext { presented, .. } => not_valid_for(name, presented),
            other => other.to_string(),
        }),
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(rustls::Error::InvalidMessage(_)) => {
            "tls: first record does not look like a TLS handshake".into()
        }
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".into(),
        None => error.to_string(),
    }
}

/// `presented` has names as `DnsName("a.example.com")`.
fn not_valid_for(name: &str, presented: &[String]) -> String {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return format!("cannot validate certificate for {name} because it doesn't contain any IP SANs");
    }
    let names = presented.iter().filter_map(|one| one.strip_prefix("DnsName(\"")?.strip_suffix("\")"));
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return format!("certificate is not valid for any names, but wanted to match {name}");
    }
    format!("certificate is valid for {}, not {name}", names.join(", "))
}

/// A connection that broke.
pub(super) fn of_hyper(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        return "EOF".into();
    }
    match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// An answer whose code says that it is none. Absent if the code is fine.
pub(super) fn of_answer(answer: &Answer) -> Option<String> {
    if (200..=206).contains(&answer.code.as_u16()) {
        return None;
    }
    let told = serde_json::from_slice::<Value>(&answer.body).ok();
    let told = told.filter(|body| body["kind"] == "Status" && body["status"] == "Failure");
    if let Some(status) = told.and_then(|body| apimachinery::Status::deserialize(body).ok()) {
        return Some(status.message);
    }
    let is_text = answer.content_type.is_empty() || answer.content_type.starts_with("text/");
    let body = String::from_utf8_lossy(&answer.body);
    let body = if is_text && !body.is_empty() { body.trim() } else { "unknown" };
    Some(match answer.code {
        StatusCode::BAD_REQUEST => "the server rejected our request for an unknown reason".into(),
        StatusCode::UNAUTHORIZED => "the server has asked for the client to provide credentials".into(),
        StatusCode::FORBIDDEN => body.to_owned(),
        StatusCode::NOT_FOUND => "the server could not find the requested resource".into(),
        StatusCode::METHOD_NOT_ALLOWED => "the server does not allow this method on the requested resource".into(),
        StatusCode::CONFLICT => "the server reported a conflict".into(),
        StatusCode::UNPROCESSABLE_ENTITY => {
            "the server rejected our request due to an error in our request".into()
        }
        StatusCode::TOO_MANY_REQUESTS => {
            "the server has received too many requests and has asked us to try again later".into()
        }
        StatusCode::SERVICE_UNAVAILABLE => "the server is currently unable to handle the request".into(),
        StatusCode::GATEWAY_TIMEOUT => {
            "the server was unable to return a response in the time allotted, but may still be processing the request".into()
        }
        code if code.as_u16() >= 500 => {
            format!("an error on the server ({body:?}) has prevented the request from succeeding")
        }
        code => format!(
            "the server responded with the status code {} but did not return more information",
            code.as_u16()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_with_their_text() {
        let told = |code: u16, content_type: &str, body: &str| {
            of_answer(&Answer {
                code: StatusCode::from_u16(code).unwrap(),
                content_type: content_type.into(),
                body: body.to_owned().into(),
            })
        };
        assert_eq!(told(200, "", ""), None);
        assert_eq!(
            told(500, "text/plain", "oh no\n").unwrap(),
            r#"an error on the server ("oh no") has prevented the request from succeeding"#
        );
        assert_eq!(
            told(500, "application/json", "{}").unwrap(),
            r#"an error on the server ("unknown") has prevented the request from succeeding"#
        );
        assert_eq!(told(404, "", "").unwrap(), "the server could not find the requested resource");
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"mine"}"#;
        assert_eq!(told(503, "application/json", status).unwrap(), "mine");
    }

    #[test]
    fn a_certificate_for_others_says_for_whom() {
        let presented = [r#"DnsName("a.b.c")"#.to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        assert_eq!(not_valid_for("localhost", &presented), "certificate is valid for a.b.c, not localhost");
    }

    #[test]
    fn connection_errors_have_the_texts_of_go() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(of_connect("127.0.0.1", 1, &refused), "dial tcp 127.0.0.1:1: connect: connection refused");
        assert_eq!(of_connect("::1", 1, &refused), "dial tcp [::1]:1: connect: connection refused");
        let lookup = io::Error::other("failed to lookup address information");
        assert_eq!(of_connect("no.such", 443, &lookup), "dial tcp: lookup no.such: no such host");
    }
}
