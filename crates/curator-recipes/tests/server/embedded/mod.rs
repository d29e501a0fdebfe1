//! The locks and caches on old servers, which the embedded server imitates. Only this suite finds,
//! on every machine, what fails on such servers.

mod cache_watches;
mod old_server;
