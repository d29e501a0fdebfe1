//! If a sandbox forbids the system calls of debuggers, a pipeline is still one round trip, and the
//! process survives.
//!
//! systemd's `SystemCallFilter=@system-service` kills a process for a call that is not in its list;
//! with Docker's default profile (moby, `profiles/seccomp/default.json`), such a call fails.
//! Neither allows the calls of debuggers. The filter here is the reverse: it forbids these calls
//! and allows all others.

use std::collections::BTreeMap;

use curator_test::{FaultProxy, TestingServer};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tokio::runtime::Builder;

use crate::pipeline::{assert_pipelines_take_one_round_trip, slow_down};
use crate::support::builder;

/// `pidfd_getfd`, `ptrace`, `process_vm_readv`, `process_vm_writev`, `kcmp` and `perf_event_open`:
/// in systemd's `@debug`, or allowed by Docker only with `CAP_SYS_PTRACE`.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN: [i64; 6] = [438, 101, 310, 311, 312, 298];
/// The same calls.
#[cfg(target_arch = "aarch64")]
const FORBIDDEN: [i64; 6] = [438, 117, 270, 271, 272, 241];

/// Applies `action` to these calls of this thread, and of the threads that it starts.
pub(crate) fn forbid(calls: &[i64], action: SeccompAction) {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn a_pipeline_is_one_round_trip_in_a_sandbox_that_kills_debuggers() {
    let outside = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = outside.block_on(TestingServer::shared()).address();
    let proxy = FaultProxy::start(server).unwrap();
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            forbid(&FORBIDDEN, SeccompAction::KillProcess);
            Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(async {
                    let client = builder(proxy.connect_string()).connect().await.unwrap();
                    slow_down(&proxy);
                    assert_pipelines_take_one_round_trip(
                        &proxy,
                        &client,
                        &client.session().await.unwrap(),
                    )
                    .await;
                });
        });
        inside.join().unwrap();
    });
}
