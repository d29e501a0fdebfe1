//! TLS files in the configuration.

mod keys;
mod rotating;
mod tls_server;
