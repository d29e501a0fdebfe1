//! Compares the retry policies, and shows them while no server can be reached.
//!
//! The servers stay unreachable until a client whose policy retries once has given up. A client with a more patient
//! policy has sent its request at the same time, and gets its reply when the servers are reachable again.
//!
//! ```console
//! cargo run --example retry_policies
//! ```

use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{
    BackoffRetry, BoundedExponentialBackoffRetry, ConnectionState, CreateMode, ExponentialBackoffRetry, RetryForever,
    RetryNTimes, RetryOneTime, RetryPolicy, RetryUntilElapsed,
};

const NODE: &str = "/curator-examples/retry-policies";
const DELAYS: u32 = 8;
const MS: Duration = Duration::from_millis(1);

/// A custom policy: each wait is the sum of the two before it.
#[derive(Debug)]
struct FibonacciRetry {
    first: Duration,
    max_retries: u32,
}

impl RetryPolicy for FibonacciRetry {
    fn next_delay(&self, retries: u32, _elapsed: Duration) -> Option<Duration> {
        if retries >= self.max_retries {
            return None;
        }
        let (factor, _) = (0..retries).fold((1_u32, 1_u32), |(a, b), _| (b, a.saturating_add(b)));
        Some(self.first.saturating_mul(factor))
    }
}

/// Another custom policy: decides as `policy` does, and prints the decision.
#[derive(Debug)]
struct Printed<P> {
    who: &'static str,
    policy: P,
}

impl<P: RetryPolicy> RetryPolicy for Printed<P> {
    fn next_delay(&self, retries: u32, elapsed: Duration) -> Option<Duration> {
        let delay = self.policy.next_delay(retries, elapsed);
        match delay {
            Some(delay) => println!("{}: failed for {elapsed:.1?}, retry {} in {delay:.0?}", self.who, retries + 1),
            None => println!("{}: failed for {elapsed:.1?}, gives up", self.who),
        }
        delay
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    print_delays()?;
    let ensemble = Ensemble::find().await?;
    let (network, connect_string) = ensemble.proxy()?;
    // A try first waits for a connection, for up to the connection timeout. The policy determines the pause between two
    // tries.
    let builder = builder(connect_string).connection_timeout(3_000 * MS);
    let hasty = Printed { who: "hasty", policy: RetryOneTime::new(50 * MS)? };
    let patient = Printed { who: "patient", policy: BoundedExponentialBackoffRetry::new(50 * MS, 400 * MS, 29)? };
    let hasty = builder.clone().retry_policy(hasty).connect().await?;
    let patient = builder.retry_policy(patient).connect().await?;
    let create = patient.create().with_mode(CreateMode::Ephemeral).creating_parent_containers();
    create.for_path(NODE, "blue").await?;

    println!("\nFrom now on no server can be reached.");
    let (mut state_of_hasty, mut state_of_patient) = (hasty.connection_states(), patient.connection_states());
    network.refuse(true)?;
    network.cut();
    // Before the clients have noticed the outage, a request would wait for its answer until the operation timeout.
    state_of_hasty.wait_for(ConnectionState::Suspended).await;
    state_of_patient.wait_for(ConnectionState::Suspended).await;
    let reading = tokio::spawn({
        let patient = patient.clone();
        async move { patient.get_data(NODE).await }
    });
    let Err(error) = hasty.get_data(NODE).await else { return Err("an answer without a server".into()) };
    println!("hasty: {error}");
    println!("hasty: can the same call succeed later? {}", if error.is_retryable() { "Yes." } else { "No." });

    println!("The servers can be reached again.");
    network.refuse(false)?;
    let (data, _) = reading.await??;
    println!("patient: has read {:?}", String::from_utf8(data)?);
    patient.close().await?;
    hasty.close().await?;
    Ok(())
}

fn print_delays() -> Result<(), Failure> {
    // The policies of the `backoff` crate can be used too; this one has no randomness, and ends after a second.
    let curve = backoff::ExponentialBackoff {
        initial_interval: 50 * MS,
        multiplier: 3.0,
        randomization_factor: 0.0,
        max_elapsed_time: Some(1_000 * MS),
        ..Default::default()
    };
    let policies: [(&str, Box<dyn RetryPolicy>); 8] = [
        ("RetryOneTime(50)", Box::new(RetryOneTime::new(50 * MS)?)),
        ("RetryNTimes(5, 50)", Box::new(RetryNTimes::new(5, 50 * MS)?)),
        ("RetryForever(50)", Box::new(RetryForever::new(50 * MS)?)),
        ("RetryUntilElapsed(220, 50)", Box::new(RetryUntilElapsed::new(220 * MS, 50 * MS)?)),
        ("ExponentialBackoffRetry(50, 6)", Box::new(ExponentialBackoffRetry::new(50 * MS, 6)?)),
        (
            "BoundedExponentialBackoffRetry(50, 400, 29)",
            Box::new(BoundedExponentialBackoffRetry::new(50 * MS, 400 * MS, 29)?),
        ),
        ("BackoffRetry(50 * 3^n, within 1000)", Box::new(BackoffRetry::new(curve))),
        ("FibonacciRetry(50, 7), custom", Box::new(FibonacciRetry { first: 50 * MS, max_retries: 7 })),
    ];
    println!("The wait before each retry in milliseconds, if a try takes no time; `-` is giving up.\n");
    println!("{:<43}{}", "", (1..=DELAYS).map(|retry| format!("{retry:>7}")).collect::<String>());
    for (name, policy) in &policies {
        let (mut row, mut elapsed) = (String::new(), Duration::ZERO);
        for retries in 0..DELAYS {
            let Some(delay) = policy.next_delay(retries, elapsed) else {
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
