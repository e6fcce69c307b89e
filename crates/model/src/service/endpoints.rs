//! EndpointSlices: where the traffic of a Service may go.

use std::net::IpAddr;

use smol_str::SmolStr;

use super::Protocol;

/// Endpoints of a Service that have ports in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// The Service's name.
    pub service: SmolStr,
    /// The ports of each endpoint.
    pub ports: Box<[SlicePort]>,
    /// The endpoints that may get traffic.
    pub endpoints: Box<[Endpoint]>,
}

/// A port of the endpoints of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name of the Service's port.
    pub name: SmolStr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The number at the endpoints.
    pub port: u16,
}

/// What serves a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// It is about to end: it gets traffic only where nothing else is left.
    pub is_terminating: bool,
    /// Its node.
    pub node: Option<SmolStr>,
    /// The zones whose clients should use it.
    pub zones: Box<[SmolStr]>,
    /// The nodes whose clients should use it.
    pub nodes: Box<[SmolStr]>,
}
