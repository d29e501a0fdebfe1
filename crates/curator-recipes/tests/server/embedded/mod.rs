//! Locks and caches on old servers, which the embedded server imitates: these tests need no
//! installed release of ZooKeeper.

mod cache_watches;
mod old_server;
