//! Caches under faults.
