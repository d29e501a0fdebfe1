//! Compares the retry policies, and shows them while no server can be reached.
//!
//! The servers stay unreachable until a request whose policy retries once has failed. At the same
//! time, the same client sends a request with a more patient policy, which gets its reply when the
//! servers are reachable again.
//!
//! ```console
//! cargo run --example retry_policies
//! # Also with a policy of the crate `backoff`:
//! cargo run --example retry_policies --features backoff
//! ```

use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{
    BoundedExponentialBackoffRetry, ConnectionState, CreateMode, ExponentialBackoffRetry,
    RetryContext, RetryForever, RetryNTimes, RetryOneTime, RetryPolicy, RetryUntilElapsed,
    retry_fn,
};

const NODE: &str = "/curator-examples/retry-policies";
const DELAYS: u32 = 8;
const MS: Duration = Duration::from_millis(1);

/// A custom policy: each pause is the sum of the two pauses before it.
#[derive(Debug)]
struct FibonacciRetry {
    first: Duration,
    max_retries: u32,
}

impl RetryPolicy for FibonacciRetry {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        if failed.retries() >= self.max_retries {
            return None;
        }
        let (factor, _) =
            (0..failed.retries()).fold((1_u32, 1_u32), |(a, b), _| (b, a.saturating_add(b)));
        Some(self.first.saturating_mul(factor))
    }
}

/// Wraps a policy in a closure that decides as `policy` does, and prints the decision.
fn printed(who: &'static str, policy: impl RetryPolicy) -> impl RetryPolicy {
    retry_fn(move |failed| {
        let delay = policy.next_delay(failed);
        let decision = match delay {
            Some(delay) => format!("retry {} in {} ms", failed.retries() + 1, delay.as_millis()),
            None => "ends the retries".to_owned(),
        };
        println!(
            "{who}: {:.1} s after the first failure: {decision}",
            failed.elapsed().as_secs_f64()
        );
        delay
    })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    print_delays()?;
    let ensemble = Ensemble::find().await?;
    let (network, connect_string) = ensemble.proxy()?;
    // A try first waits for a connection, for up to the connection timeout. The policy determines
    // the pause between two tries.
    let client = builder(connect_string)
        .connection_timeout(3_000 * MS)
        .connect()
        .await?;
    // Two views of one client, with one session.
    let hasty = client.using_retry_policy(printed("hasty", RetryOneTime::new(50 * MS)?));
    let patient = BoundedExponentialBackoffRetry::new(50 * MS, 400 * MS, 29)?;
    let patient = client.using_retry_policy(printed("patient", patient));
    patient
        .create()
        .with_mode(CreateMode::Ephemeral)
        .creating_parent_containers()
        .for_path(NODE, "blue")
        .await?;

    println!("\nFrom now on no server can be reached.");
    let mut states = client.connection_states();
    network.refuse(true)?;
    network.cut();
    // Waits until the client has noticed the outage: a request that is sent earlier waits for its
    // reply until the operation timeout.
    states.wait_for(ConnectionState::Suspended).await;
    let reading = tokio::spawn({
        let patient = patient.clone();
        async move { patient.get_data(NODE).await }
    });
    let Err(error) = hasty.get_data(NODE).await else {
        return Err("an answer without a server".into());
    };
    println!("hasty: {error}");
    println!(
        "hasty: can the same call succeed later? {}",
        if error.is_retryable() { "Yes." } else { "No." }
    );

    println!("The servers can be reached again.");
    network.refuse(false)?;
    let (data, _) = reading.await??;
    println!("patient: has read {:?}", String::from_utf8(data)?);
    client.close().await?;
    Ok(())
}

/// Shows that policies of the crate `backoff` can be used too. This policy has no randomness, and
/// permits no retry after a second.
#[cfg(feature = "backoff")]
fn backoff_policy() -> impl RetryPolicy {
    curator_recipes::client::BackoffRetry::new(backoff::ExponentialBackoff {
        initial_interval: 50 * MS,
        multiplier: 3.0,
        randomization_factor: 0.0,
        max_elapsed_time: Some(1_000 * MS),
        ..Default::default()
    })
}

fn print_delays() -> Result<(), Failure> {
    let policies: &[(&str, Box<dyn RetryPolicy>)] = &[
        ("RetryOneTime(50)", Box::new(RetryOneTime::new(50 * MS)?)),
        (
            "RetryNTimes(5, 50)",
            Box::new(RetryNTimes::new(5, 50 * MS)?),
        ),
        ("RetryForever(50)", Box::new(RetryForever::new(50 * MS)?)),
        (
            "RetryUntilElapsed(220, 50)",
            Box::new(RetryUntilElapsed::new(220 * MS, 50 * MS)?),
        ),
        (
            "ExponentialBackoffRetry(50, 6)",
            Box::new(ExponentialBackoffRetry::new(50 * MS, 6)?),
        ),
        (
            "BoundedExponentialBackoffRetry(50, 400, 29)",
            Box::new(BoundedExponentialBackoffRetry::new(50 * MS, 400 * MS, 29)?),
        ),
        #[cfg(feature = "backoff")]
        (
            "BackoffRetry(50 * 3^n, within 1000)",
            Box::new(backoff_policy()),
        ),
        (
            "FibonacciRetry(50, 7), custom",
            Box::new(FibonacciRetry {
                first: 50 * MS,
                max_retries: 7,
            }),
        ),
    ];
    println!(
        "The wait before each retry in milliseconds, if a try takes no time; `-` ends the retries.\n"
    );
    println!(
        "{:<43}{}",
        "",
        (1..=DELAYS)
            .map(|retry| format!("{retry:>7}"))
            .collect::<String>()
    );
    for (name, policy) in policies {
        let mut row = String::new();
        let mut elapsed = Duration::ZERO;
        for retries in 0..DELAYS {
            let Some(delay) = policy.next_delay(&RetryContext::new(retries, elapsed)) else {
                row += &format!("{:>7}", "-");
                break;
            };
            row += &format!("{:>7}", delay.as_millis());
            elapsed += delay;
        }
        println!("{name:<43}{row}");
    }
    println!(
        "\nThe exponential policies choose each wait at random, so that many clients do not retry at the same moment."
    );
    Ok(())
}
