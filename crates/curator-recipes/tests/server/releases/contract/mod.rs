//! The contract of all locks: one suite, run for each kind on a server. The other tests cover what
//! is specific to one kind.
//!
//! A property is a function of the [`Kind`](subjects::Kind) of lock; the macro makes it a test of
//! each kind.

mod cancel;
mod counter;
mod exclusive;
mod participants;
mod patience;
pub(crate) mod permission;
mod revocation;
mod stage;
mod subjects;
mod transactions;

/// Declares a module of tests for one kind of lock: the contract, and properties that not all kinds
/// have.
macro_rules! contract {
    ($name:ident, $kind:ident $(, $group:ident: $property:ident)?) => {
        mod $name {
            contract!(@ $kind, exclusive, [
                twenty_sessions_acquire_in_the_order_of_their_arrival,
                a_nested_acquire_succeeds_only_if_the_lock_is_reentrant,
            ]);
            contract!(@ $kind, patience, [
                a_timed_acquire_gives_up_in_time_and_leaves_nothing_behind,
                a_zero_wait_acquire_takes_a_free_lock,
                a_timed_acquire_whose_turn_comes_in_time_acquires,
            ]);
            contract!(@ $kind, cancel, [
                an_acquire_of_a_held_lock_dropped_at_every_await_leaves_nothing,
            ]);
            contract!(@ $kind, participants, [
                participants_are_listed_with_their_data_and_ownership,
            ]);
            contract!(@ $kind, permission, [
                a_contender_that_may_not_create_gets_an_error_and_the_holder_keeps_its_lock,
                a_contender_that_may_create_and_not_list_gets_an_error_and_leaves_no_node,
                a_client_that_may_not_read_the_nodes_of_others_cannot_wait_for_them,
            ]);
            contract!(@ $kind, revocation, [
                a_holder_that_waits_for_a_revocation_request_is_notified_of_it,
                a_revocation_before_the_holder_listens_reaches_it_and_not_the_next_holder,
                a_revocation_requested_of_a_waiter_reaches_it_as_holder,
            ]);
            contract!(@ $kind, transactions, [
                a_guarded_transaction_is_applied_as_a_whole_or_its_failed_operation_is_named,
                a_transaction_is_not_applied_after_any_node_of_its_lock_was_deleted,
            ]);
            $(contract!(@ $kind, $group, [$property]);)?
        }
    };
    (@ $kind:ident, $group:ident, [$($property:ident),* $(,)?]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                super::$group::$property(super::subjects::Kind::$kind).await;
            }
        )*
    };
}

contract!(mutex, Mutex, revocation: the_release_of_one_guard_does_not_clear_the_revocation_request_to_another);
contract!(non_reentrant_mutex, NonReentrantMutex);
contract!(semaphore_mutex, SemaphoreMutex);
contract!(write_lock, Write, revocation: the_release_of_one_guard_does_not_clear_the_revocation_request_to_another);
contract!(read_lock, Read, revocation: the_release_of_one_guard_does_not_clear_the_revocation_request_to_another);
contract!(semaphore, Semaphore, revocation: the_release_of_one_guard_does_not_clear_the_revocation_request_to_another);
contract!(multi_lock_of_paths, Paths, revocation: the_release_of_one_guard_does_not_clear_the_revocation_request_to_another);
contract!(multi_lock_of_locks, Locks);
