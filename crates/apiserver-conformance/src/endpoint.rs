//! The server under test, and who may speak to it.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// A server under test. What the cases take for granted of it:
///
/// - It knows the [`USERS`] by their tokens, and authorizes by RBAC with the default roles of Kubernetes.
/// - It has had writes and has compacted its store since, so that the resource version 1 is too old.
/// - Services get addresses of 10.96.0.0/16 and node ports from 30000 to 32767.
/// - Pods need no service account, get no token, and get default tolerations and the priority 0; nodes get no taint.
/// - It is thrown away afterwards: the cases do not clean up.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it serves HTTPS, with a certificate for this address.
    pub address: SocketAddr,
    /// The authority that signed the server's certificate, in PEM.
    pub authority: String,
    /// A certificate for the user `pilot` of the group `sailors`, signed by an authority that the server trusts for clients.
    pub pilot: ClientCertificate,
}

/// A certificate and its private key, both in PEM.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// A user that the server knows by a static bearer token.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user's name; a case acts `as` it.
    pub name: &'static str,
    /// The user's uid.
    pub uid: &'static str,
    /// The user's groups.
    pub groups: &'static [&'static str],
}

/// Who the server shall know. A case that gives rights in the whole cluster gives them to a user that no other case uses.
pub const USERS: &[User] = &[
    User { name: "admin", uid: "1", groups: &["system:masters"] },
    User { name: "alice", uid: "2", groups: &["sailors"] },
    User { name: "bob", uid: "3", groups: &["sailors", "cooks"] },
    User { name: "carol", uid: "4", groups: &["carols"] },
    User { name: "dave", uid: "5", groups: &["daves"] },
    User { name: "erin", uid: "6", groups: &["erins"] },
    User { name: "frank", uid: "7", groups: &["franks"] },
    User { name: "grace", uid: "8", groups: &["graces"] },
    User { name: "heidi", uid: "9", groups: &["heidis"] },
    User { name: "ivan", uid: "10", groups: &["ivans"] },
    User { name: "judy", uid: "11", groups: &["judies"] },
];

impl User {
    /// The user's bearer token.
    pub fn token(&self) -> String {
        format!("token-of-{}", self.name)
    }
}

/// The [`USERS`] in the format of kube-apiserver's `--token-auth-file`.
pub fn token_file() -> String {
    USERS.iter().fold(String::new(), |mut file, user| {
        let _ = writeln!(file, "{},{},{},\"{}\"", user.token(), user.name, user.uid, user.groups.join(","));
        file
    })
}
