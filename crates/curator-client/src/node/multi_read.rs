//! Several reads in one request.

use super::REQUEST_FRAMING;
use crate::path::ZPath;

/// One operation of [`Session::read_all`](crate::Session::read_all).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOperation {
    /// The names of a node's children.
    Children(ZPath),
    /// A node's data and stat.
    Data(ZPath),
}

impl ReadOperation {
    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        match self {
            Self::Children(path) | Self::Data(path) => path,
        }
    }

    /// As the errors of the single requests name it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Children(_) => "list",
            Self::Data(_) => "get data of",
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.path().as_str().len() + REQUEST_FRAMING
    }
}

/// The result of one operation of [`Session::read_all`](crate::Session::read_all).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The names of the node's children, in no order.
    Children(Vec<String>),
    /// The node's data and stat.
    Data {
        /// The data.
        data: Vec<u8>,
        /// The stat.
        stat: crate::Stat,
    },
}
