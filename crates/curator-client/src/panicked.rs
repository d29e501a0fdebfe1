//! Catches panics in the client's own tasks.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// A panic that was caught.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked {
    pub(crate) message: String,
}

/// Runs `future`, which may panic. The future is dropped before this returns, so state that it owns
/// is never visible half-changed; state that it borrows must be valid wherever the future can
/// panic.
///
/// The panic hook runs first. With `panic = "abort"`, the process ends instead.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref().copied());
            Panicked {
                message: text.unwrap_or("no message").to_owned(),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_with_its_message() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let (text, number) = ("on purpose", 7);
        let messages = [
            caught(async { panic!("on purpose") }).await,
            caught(async { panic!("{text}, {number}") }).await,
            caught(async { std::panic::panic_any(number) }).await,
        ];
        let messages = messages.map(|caught: Result<(), _>| caught.unwrap_err().message);
        assert_eq!(messages, ["on purpose", "on purpose, 7", "no message"]);
    }
}
