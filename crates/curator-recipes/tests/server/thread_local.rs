//! Guards in thread-local variables: they are dropped when tokio's own thread-local variables are gone.

use std::any::Any;
use std::cell::RefCell;
use std::thread;

use curator_recipes::InterProcessSemaphoreV2;
use curator_test::TestingServer;
use tokio::runtime::Builder;

use crate::support::{alone, connect, mutex, nothing_left, path, polled_until, queue_of};

thread_local! {
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// A panic in the destructor of a thread-local variable aborts the process.
#[test]
fn what_a_thread_has_in_thread_local_variables_is_released_when_it_ends() {
    alone("thread_local::what_a_thread_has_in_thread_local_variables_is_released_when_it_ends", || {
        let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, other) = home.block_on(async {
            let connect_string = TestingServer::shared().await.connect_string();
            (connect(&connect_string).await, connect(&connect_string).await)
        });
        let [held, leased, lost] = ["held", "leased", "waited-for"].map(path);
        let blocker = home.block_on(mutex(&other, &lost).acquire()).unwrap();
        let held_by_thread = (client, held.clone(), leased.clone(), lost.clone());
        let thread = thread::spawn(move || {
            let (client, held, leased, waited_for) = held_by_thread;
            // Those that are used first are dropped last.
            HELD.with(|_| ());
            let keep = |value: Box<dyn Any>| HELD.with(|held| held.borrow_mut().push(value));
            keep(Box::new(mutex(&client, &held).blocking_acquire().unwrap()));
            let semaphore = InterProcessSemaphoreV2::new(&client, &leased, 2).unwrap();
            keep(Box::new(semaphore.blocking_acquire().unwrap()));
            let waiting = mutex(&client, &waited_for);
            let waiting = polled_until(async move { waiting.acquire().await }, queue_of(&client, &waited_for, 2));
            keep(Box::new(client.block_on(waiting)));
            keep(Box::new(client));
        });
        thread.join().unwrap();
        home.block_on(async {
            nothing_left(&other, &[held, format!("{leased}/leases"), format!("{leased}/locks")]).await;
            blocker.release().await.unwrap();
            nothing_left(&other, &[lost]).await;
        });
    });
}
