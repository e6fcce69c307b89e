//! Where a database server listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::sync::watch;

/// One way to reach a server, as OVS writes it: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// TCP, in the clear.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// TLS over TCP.
    Ssl {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The servers of a database: always the same, or those of which a channel tells, which may be none for a while.
#[derive(Clone, Debug)]
pub struct Endpoints(watch::Receiver<Vec<Endpoint>>);

impl Endpoints {
    /// Whether there is no server, and will be none.
    pub fn is_none(&self) -> bool {
        self.0.borrow().is_empty() && self.0.has_changed().is_err()
    }

    /// Those that there are now.
    pub fn now(&self) -> Vec<Endpoint> {
        self.0.borrow().clone()
    }

    /// Whether there are others than were taken last.
    pub(crate) fn have_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// The same, as those that were taken last.
    pub(crate) fn take(&mut self) -> Vec<Endpoint> {
        self.0.borrow_and_update().clone()
    }

    /// Waits until there are others than were taken last.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody tells any more: they stay as they are.
            std::future::pending::<()>().await;
        }
    }
}

impl From<watch::Receiver<Vec<Endpoint>>> for Endpoints {
    fn from(told: watch::Receiver<Vec<Endpoint>>) -> Self {
        Endpoints(told)
    }
}

impl From<Vec<Endpoint>> for Endpoints {
    fn from(always: Vec<Endpoint>) -> Self {
        Endpoints(watch::channel(always).1)
    }
}

impl<const N: usize> From<[Endpoint; N]> for Endpoints {
    fn from(always: [Endpoint; N]) -> Self {
        Vec::from(always).into()
    }
}

/// The text does not name an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an endpoint: {reason}")]
pub struct EndpointError {
    text: String,
    reason: &'static str,
}

impl Endpoint {
    /// Parses a list separated by commas, as OVN's `--db` options take it.
    pub fn parse_list(text: &str) -> Result<Vec<Endpoint>, EndpointError> {
        text.split(',').map(str::trim).map(str::parse).collect()
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let error = |reason| EndpointError { text: text.to_owned(), reason };
        let (scheme, rest) = text.split_once(':').ok_or(error("it has no unix:, tcp: or ssl: in front"))?;
        if scheme == "unix" {
            return if rest.is_empty() {
                Err(error("the path is empty"))
            } else {
                Ok(Endpoint::Unix(rest.into()))
            };
        }
        let (host, port) = rest.rsplit_once(':').ok_or(error("it has no port"))?;
        let port = port.parse().map_err(|_| error("the port is not a number from 0 to 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or(error("the closing bracket is missing"))?,
            None if host.contains(':') => return Err(error("an IPv6 address needs brackets")),
            None => host,
        };
        if host.is_empty() {
            return Err(error("the host is empty"));
        }
        let host = host.to_owned();
        match scheme {
            "tcp" => Ok(Endpoint::Tcp { host, port }),
            "ssl" => Ok(Endpoint::Ssl { host, port }),
            _ => Err(error("it has no unix:, tcp: or ssl: in front")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Endpoint::Unix(path) => return write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { host, port } => ("tcp", host, port),
            Endpoint::Ssl { host, port } => ("ssl", host, port),
        };
        if host.contains(':') {
            write!(f, "{scheme}:[{host}]:{port}")
        } else {
            write!(f, "{scheme}:{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_and_print_alike() {
        let text = "unix:/run/ovn/ovnnb_db.sock,tcp:127.0.0.1:6641,ssl:[fd00::1]:6641,ssl:nb.example:1";
        let list = Endpoint::parse_list(text).unwrap();
        assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), text);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Endpoint>().unwrap_err().to_string();
        assert_eq!(
            error("localhost"),
            r#""localhost" is not an endpoint: it has no unix:, tcp: or ssl: in front"#
        );
        assert_eq!(
            error("http:a:1"),
            r#""http:a:1" is not an endpoint: it has no unix:, tcp: or ssl: in front"#
        );
        assert_eq!(error("unix:"), r#""unix:" is not an endpoint: the path is empty"#);
        assert_eq!(error("tcp:a"), r#""tcp:a" is not an endpoint: it has no port"#);
        assert_eq!(
            error("tcp:a:70000"),
            r#""tcp:a:70000" is not an endpoint: the port is not a number from 0 to 65535"#
        );
        assert_eq!(
            error("tcp:::1:6640"),
            r#""tcp:::1:6640" is not an endpoint: an IPv6 address needs brackets"#
        );
        assert_eq!(
            error("ssl:[::1:6640"),
            r#""ssl:[::1:6640" is not an endpoint: the closing bracket is missing"#
        );
        assert_eq!(error("tcp::1"), r#""tcp::1" is not an endpoint: the host is empty"#);
    }
}
