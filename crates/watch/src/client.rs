//! The client that followers and writers share.

use std::time::Duration;

use kube::client::ClientBuilder;

use crate::Error;
use crate::deadline::DeadlineLayer;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// A client of this API server. Every request but a watch ends within [`ANSWER`](crate::ANSWER), with an error that says so if there was
/// no answer. It repeats nothing by itself: a client that silently waits out a 503 or 429 makes its caller's pauses add up, and hides
/// from it that the API server is not there.
///
/// # Errors
/// When the configuration is of no use, for example because a certificate cannot be read.
pub fn client(mut config: kube::Config) -> Result<kube::Client, Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    let builder = ClientBuilder::try_from(config).map_err(|error| {
        // kube reports every client certificate that rustls does not take as an invalid private key.
        let is_version_1 = format!("{error:?}").contains("UnsupportedCertVersion");
        if is_version_1 { Error::CertificateVersion } else { error.into() }
    })?;
    Ok(builder.with_layer(&DeadlineLayer).build())
}
