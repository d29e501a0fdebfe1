//! A future that is not polled for most of a client's life.

use std::time::Duration;

use curator_recipes::InterProcessMutex;

use super::must_succeed;
use crate::dropped::DropAt;
use crate::life::Life;

/// Begins to acquire a mutex, and neither polls nor drops the future until the end of the life. It
/// must not delay anything but the mutex.
pub(super) async fn keep_unpolled(life: &Life, root: &str) {
    let path = format!("{root}-unpolled/{}", life.name().replace('/', "-"));
    let Some(mutex) = must_succeed(
        life,
        "make a mutex",
        InterProcessMutex::non_reentrant(life.client(), path),
    ) else {
        return;
    };
    life.think_for(Duration::from_secs(20)).await;
    let mut acquire = Box::pin(mutex.acquire());
    let polled = DropAt::new(&mut acquire, 1 + life.below(4));
    // It may also wait for a connection.
    let _ = tokio::time::timeout(Duration::from_secs(1), polled).await;
    life.note(|| "polls an acquire no more".to_owned());
    if life.at_rest().await {
        life.idle().await;
    }
    drop(acquire);
}
