//! `portolan apiserver` as a process: killed in the middle of writes again and again, sent malformed requests, and used by clients
//! that connect without a request, do not read, or are not authenticated.

mod anonymous;
mod audit;
mod certificates;
mod connections;
mod full_disk;
mod killed;
mod malformed;
mod server;
mod watchers;
