//! One-shot watches: [`Watch`].

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use zookeeper_client::{EventType, OneshotWatcher, WatchedEvent};

use super::task::{CountedWatch, SessionTask};
use super::unfired::Unfired;
use crate::transport::{Answer, LinkEnd, RequestError, WatchEvent};

/// See [`Watch`](crate::Watch).
pub(crate) struct Watch {
    unfired: Unfired,
    /// `None` once it has fired.
    event: Option<BoxFuture<'static, WatchedEvent>>,
    /// The task of the watch's connection.
    task: SessionTask,
    fired: Option<WatchEvent>,
    /// `None` once the event has been read.
    counted: Option<CountedWatch>,
}

impl Watch {
    fn new(watcher: OneshotWatcher, task: SessionTask, unfired: Unfired) -> Self {
        let counted = Some(task.count_watch());
        Self {
            unfired,
            event: Some(watcher.changed().boxed()),
            task,
            fired: None,
            counted,
        }
    }

    /// The event, if it was read.
    pub(crate) fn fired(&self) -> Option<WatchEvent> {
        self.fired
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        let Some(event) = &mut self.event else {
            return Poll::Ready(self.fired.unwrap_or(WatchEvent::Interrupted));
        };
        // `zookeeper-client` panics when its task is gone. Without the task there is no event, and
        // the end of the task wakes this future.
        let event = match self.task.while_alive(|| event.poll_unpin(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(event)) => {
                self.event = None;
                translate(&event)
            }
            Err(end) => {
                // Another thread may still be polling the connection.
                if let Some(watcher) = self.event.take() {
                    self.task.drop_afterwards(watcher);
                }
                match end {
                    LinkEnd::Lost => WatchEvent::Interrupted,
                    LinkEnd::Expired | LinkEnd::AuthFailed | LinkEnd::Closed => {
                        WatchEvent::SessionEnded
                    }
                }
            }
        };
        self.fired = Some(event);
        self.unfired.end();
        self.counted = None;
        Poll::Ready(event)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(mut watcher) = self.event.take() else {
            return;
        };
        // The watch may have fired without being polled since.
        if let Ok(Some(_)) = self.task.while_alive(|| (&mut watcher).now_or_never()) {
            self.unfired.end();
        } else {
            release(&mut self.unfired, watcher, &self.task);
        }
    }
}

/// A request that sets a watch.
pub(super) struct Requested<T: 'static> {
    /// `None` once it has been read.
    answer: Option<Answer<(T, OneshotWatcher)>>,
    unfired: Option<Unfired>,
    task: SessionTask,
}

impl<T: 'static> Requested<T> {
    pub(super) fn new(
        answer: Answer<(T, OneshotWatcher)>,
        unfired: Unfired,
        task: &SessionTask,
    ) -> Self {
        Self {
            answer: Some(answer),
            unfired: Some(unfired),
            task: task.clone(),
        }
    }
}

impl<T: 'static> Future for Requested<T> {
    type Output = Result<(T, Watch), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else {
            return Poll::Pending;
        };
        let Poll::Ready(answer) = answer.poll_unpin(cx) else {
            return Poll::Pending;
        };
        self.answer = None;
        let Some(mut unfired) = self.unfired.take() else {
            return Poll::Pending;
        };
        Poll::Ready(match answer {
            Ok((found, watcher)) => {
                unfired.set();
                Ok((found, Watch::new(watcher, self.task.clone(), unfired)))
            }
            Err(error) => {
                unfired.end();
                Err(error)
            }
        })
    }
}

impl<T: 'static> Drop for Requested<T> {
    fn drop(&mut self) {
        if let (Some(answer), Some(unfired)) = (self.answer.take(), &mut self.unfired) {
            release(unfired, answer, &self.task);
        }
    }
}

/// Drops `what`, which holds the watch or the reply to its request.
fn release(unfired: &mut Unfired, what: impl Send + 'static, task: &SessionTask) {
    // The drop makes `zookeeper-client` send a request. `together` delays this until
    // `Unfired::release` has unlocked its mutex.
    let not_dropped = task.together(|| {
        if task.end().is_some() {
            Err(what)
        } else {
            unfired.release(what)
        }
    });
    if let Err(what) = not_dropped {
        task.drop_afterwards(what);
        task.abort(LinkEnd::Lost);
    }
}

fn translate(event: &WatchedEvent) -> WatchEvent {
    match event.event_type {
        EventType::NodeCreated => WatchEvent::Created,
        EventType::NodeDeleted => WatchEvent::Deleted,
        EventType::NodeDataChanged => WatchEvent::DataChanged,
        EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
        EventType::Session => WatchEvent::SessionEnded,
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::tests::assert_outlives_the_poll;
    use super::super::unfired::Kind;
    use super::*;
    use crate::path::ZPath;

    /// `zookeeper-client` treats the drop of a watcher as a request to remove the watch.
    #[test]
    fn a_watch_dropped_after_the_end_of_its_connection_outlives_the_current_poll() {
        for is_read in [false, true] {
            assert_outlives_the_poll(&format!("a watcher, read: {is_read}"), |task, watcher| {
                let event = async {
                    let _watcher = watcher;
                    std::future::pending().await
                };
                let (unfired, _) = task.unfired().add(&ZPath::root(), Kind::Data);
                let mut watch = Watch {
                    unfired,
                    event: Some(event.boxed()),
                    task: task.clone(),
                    fired: None,
                    counted: None,
                };
                task.abort(LinkEnd::Lost);
                if is_read {
                    let event =
                        watch.poll_fired(&mut Context::from_waker(std::task::Waker::noop()));
                    assert_eq!(event, Poll::Ready(WatchEvent::Interrupted));
                }
            });
        }
    }
}
