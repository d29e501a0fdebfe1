//! A holder is cut off from the servers. Shows that the holder is notified of the loss of its lock
//! before another client can acquire the lock. Fails if another client acquires the lock earlier.
//!
//! ```console
//! cargo run --example lock_loss
//! ```

use std::cell::Cell;
use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::InterProcessMutex;
use curator_recipes::client::{ConnectionState, ConnectionStates};
use curator_test::Direction;

const DIR: &str = "/curator-examples/lock-loss";
/// Short, to keep the example short. The server may grant a longer timeout.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    // Only the holder uses the network that will fail.
    let (network, connect_string) = ensemble.proxy()?;
    let holder = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await?;
    let other = builder(ensemble.connect_string()).connect().await?;
    let states = holder.connection_states();

    let guard = InterProcessMutex::non_reentrant(&holder, DIR)?
        .acquire()
        .await?;
    let mutex = InterProcessMutex::non_reentrant(&other, DIR)?;
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.map(|guard| (guard, Instant::now())) }
    });
    while mutex.participants().await?.len() < 2 {
        tokio::time::sleep(STEP).await;
    }
    println!(
        "The holder has the lock, with token {}. Another client waits for it.",
        guard.fencing_token()
    );
    // Waits until a probe has confirmed the holder's session, as probes do in ordinary operation.
    let first = guard.valid_until();
    while guard.valid_until() == first {
        tokio::time::sleep(STEP).await;
    }

    println!(
        "Now nothing gets through between the holder and the servers; its connection looks open.\n"
    );
    let cut = Cut(Instant::now());
    let printing = tokio::spawn(print_states(cut, states));
    network.black_hole(Direction::Both);

    let steps = Cell::new(0_u32);
    let work = async {
        loop {
            steps.set(steps.get() + 1);
            tokio::time::sleep(STEP).await;
        }
    };
    let working = async {
        let Err(lost) = guard.run(work).await;
        cut.print(&format!(
            "run() has dropped the work after {} steps: {}",
            steps.get(),
            lost.reason
        ))
    };
    let notified = async {
        let lost = guard.lost().await;
        cut.print(&format!("lost() says: {}", lost.reason))
    };
    let checking = async {
        while guard.is_valid() {
            tokio::time::sleep(STEP / 10).await;
        }
        cut.print("is_valid() is false")
    };
    let holding = async {
        let (guard, since) = waiting.await??;
        cut.print(&format!(
            "the other client holds the lock, with token {}",
            guard.fencing_token()
        ));
        Ok::<_, Failure>((guard, since))
    };
    let (dropped, notified, invalid, holding) = tokio::join!(working, notified, checking, holding);
    let (new_guard, held) = holding?;
    if guard.is_valid()
        || [dropped, notified, invalid]
            .into_iter()
            .any(|known| known > held)
    {
        return Err("the other client held the lock before the holder knew of its loss".into());
    }
    if new_guard.fencing_token() <= guard.fencing_token() {
        return Err("the token did not increase".into());
    }

    println!("\nThe holder knew in time: before the other client held the lock,");
    println!(
        "  is_valid() was false    {:>5} ms",
        (held - invalid).as_millis()
    );
    println!(
        "  lost() had returned     {:>5} ms",
        (held - notified).as_millis()
    );
    println!(
        "  the work was dropped    {:>5} ms",
        (held - dropped).as_millis()
    );
    println!("\nThe network works again.");
    network.heal();
    if let Err(error) = guard.release().await {
        println!("release() says: {error}");
    }
    printing.await?;
    new_guard.release().await?;
    holder.close().await?;
    other.close().await?;
    Ok(())
}

/// The time of the cut.
#[derive(Clone, Copy)]
struct Cut(Instant);

impl Cut {
    /// Prints an event with the time since the cut; returns the time of the event.
    fn print(self, what: &str) -> Instant {
        let now = Instant::now();
        println!("{:>6} ms  {what}", (now - self.0).as_millis());
        now
    }
}

/// Prints the connection states until the holder has a session again.
async fn print_states(cut: Cut, mut states: ConnectionStates) {
    while let Some(state) = states.next().await {
        cut.print(&format!("the holder's connection: {state:?}"));
        if state == ConnectionState::Reconnected {
            return;
        }
    }
}
