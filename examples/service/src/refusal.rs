//! Error responses.

use axum::extract::rejection::StringRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use curator_recipes::fencing::{InvalidFencingToken, StaleToken};
use curator_recipes::{Error, LockLost, client};

use crate::reservations::NoReservation;

pub(crate) struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl ToString) -> Self {
        Self {
            status,
            reason: reason.to_string(),
        }
    }

    /// Another request holds the lock. A missing connection is reported as a different error.
    pub(crate) fn taken() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "another request holds the lock of the order",
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, self.reason + "\n").into_response()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Client(client::Error::InvalidPath(_)) => StatusCode::BAD_REQUEST,
            Error::Client(
                client::Error::Closed | client::Error::ClientEnded { .. } | client::Error::Forked,
            ) => StatusCode::SERVICE_UNAVAILABLE,
            error if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error)
    }
}

/// The lock was lost, so the work under it was dropped. The store has applied only the writes that
/// it had accepted until then.
impl From<LockLost> for Refusal {
    fn from(lost: LockLost) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, lost)
    }
}

impl From<StaleToken> for Refusal {
    fn from(stale: StaleToken) -> Self {
        Self::new(StatusCode::CONFLICT, stale)
    }
}

impl From<NoReservation> for Refusal {
    fn from(none: NoReservation) -> Self {
        Self::new(StatusCode::GONE, none)
    }
}

impl From<InvalidFencingToken> for Refusal {
    fn from(invalid: InvalidFencingToken) -> Self {
        Self::new(StatusCode::BAD_REQUEST, invalid)
    }
}

impl From<StringRejection> for Refusal {
    fn from(rejection: StringRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}
