//! How soon the next pod is served after the API server was killed.

use std::time::Instant;

use crate::pods;
use crate::side::Side;

/// Seconds from SIGKILL of the API server, which is started again at once, until a pod is ready that was made as soon as there was somebody to
/// ask.
pub(crate) fn of_api_server(side: &Side) -> f64 {
    let server = side.cluster.api_server();
    let begun = Instant::now();
    server.kill().unwrap();
    server.restart().unwrap();
    side.with_client(|client| pods::create(client, 1));
    let took = begun.elapsed().as_secs_f64();
    side.with_client(pods::delete);
    side.settle();
    took
}
