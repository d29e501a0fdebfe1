//! Java Curator.
