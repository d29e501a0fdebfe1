//! The numbers of the requests, as in ZooKeeper's `OpCode`.

pub(super) const DELETE: i32 = 2;
pub(super) const EXISTS: i32 = 3;
pub(super) const GET_DATA: i32 = 4;
pub(super) const SET_DATA: i32 = 5;
pub(super) const PING: i32 = 11;
pub(super) const GET_ACL: i32 = 6;
pub(super) const SET_ACL: i32 = 7;
pub(super) const GET_CHILDREN: i32 = 8;
pub(super) const SYNC: i32 = 9;
pub(super) const CHECK: i32 = 13;
pub(super) const MULTI: i32 = 14;
pub(super) const CREATE2: i32 = 15;
pub(super) const REMOVE_WATCHES: i32 = 18;
pub(super) const CREATE_CONTAINER: i32 = 19;
pub(super) const CREATE_TTL: i32 = 21;
pub(super) const MULTI_READ: i32 = 22;
pub(super) const AUTH: i32 = 100;
pub(super) const SASL: i32 = 102;
pub(super) const ADD_WATCH: i32 = 106;
pub(super) const CLOSE_SESSION: i32 = -11;

/// Only in results of a multi: a created node, without its stat.
pub(super) const CREATE: i32 = 1;
/// Only in results of a multi: an operation that failed.
pub(super) const ERROR: i32 = -1;
/// Only in a multi and in its results: the end.
pub(super) const END: i32 = -1;
