//! Locks and caches on old servers and other dialects, which the embedded server imitates: these
//! tests need no installed release of ZooKeeper.

mod cache_names;
mod cache_watches;
mod dialects;
mod old_server;
