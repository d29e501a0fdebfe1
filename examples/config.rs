//! A service whose settings change while it runs. Shows a new value, a rejected value, a deletion,
//! and an outage. Fails if the service ever uses invalid settings, or misses valid ones.
//!
//! ```console
//! cargo run --example config
//! ```

use std::error::Error as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{Config, ConfigStatus, IfAbsent, Latest};
use tokio::sync::watch;
use tokio::task::JoinSet;

const PATH: &str = "/curator-examples/config";
/// The limit of each wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings that can change while the service runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    workers: usize,
    greeting: String,
}

/// The settings while there is no node.
impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 1,
            greeting: "hello".to_owned(),
        }
    }
}

/// Parses lines such as `workers = 4`. A missing setting has its default. With `serde_json`,
/// `#[derive(Deserialize)]` and `serde_json::from_slice(data)` would replace this implementation.
impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.split_once('=').ok_or("a line without `=`")?;
            match (name.trim(), value.trim()) {
                ("workers", value) => {
                    settings.workers =
                        value.parse().map_err(|error| format!("workers: {error}"))?;
                }
                ("greeting", value) => value.clone_into(&mut settings.greeting),
                (unknown, _) => return Err(format!("there is no setting {unknown}")),
            }
        }
        // Harmful values are rejected once here, rather than wherever they are used.
        if settings.workers == 0 {
            Err("workers: expected at least 1".to_owned())
        } else {
            Ok(settings)
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let operator = builder(ensemble.connect_string()).connect().await?;
    // Only the service uses the network that will fail.
    let (network, connect_string) = ensemble.proxy()?;
    let client = builder(connect_string).connect().await?;
    write(&operator, "workers = 2\ngreeting = good morning").await?;

    let config = Config::builder(&client, PATH, |data| {
        std::str::from_utf8(data)?.parse().map_err(Failure::from)
    })?
    .if_absent(IfAbsent::Default(Settings::default()))
    .open()
    .await?;
    println!("The service starts with {:?}.", config.current());
    let (applied, seen) = watch::channel(config.current());
    let service = tokio::spawn(serve(config.values(), applied));
    let (reported, status) = watch::channel(config.status().get());
    let reporting = tokio::spawn(report(config.status(), reported));
    let mut stage = Stage {
        config,
        applied: seen,
        status,
    };
    // Waits until the service has read its first settings.
    tokio::time::timeout(DEFAULT_TIMEOUT, stage.applied.changed()).await??;

    println!("\nAn operator writes other settings.");
    write(&operator, "workers = 4\ngreeting = good evening").await?;
    stage
        .until(
            "workers = 4\ngreeting = good evening",
            ConfigStatus::is_current,
        )
        .await?;

    for mistake in ["workers = many", "workers = 0", "wrokers = 8"] {
        println!("\nThe operator makes a mistake: {mistake:?}.");
        write(&operator, mistake).await?;
        stage
            .until("workers = 4\ngreeting = good evening", |status| {
                matches!(status, ConfigStatus::Invalid { .. })
            })
            .await?;
        println!(
            "The service goes on with {} workers. The operator mends it.",
            stage.config.current().workers
        );
        write(&operator, "workers = 4\ngreeting = good evening").await?;
        stage
            .until(
                "workers = 4\ngreeting = good evening",
                ConfigStatus::is_current,
            )
            .await?;
    }

    println!("\nThe node is deleted: the service has its defaults.");
    operator.delete().for_path(PATH).await?;
    stage
        .until("", |status| matches!(status, ConfigStatus::Absent))
        .await?;

    println!("\nThe node is created again, with other settings.");
    write(&operator, "workers = 3").await?;
    stage.until("workers = 3", ConfigStatus::is_current).await?;

    println!("\nThe servers cannot be reached. Meanwhile, the settings change.");
    network.refuse(true)?;
    network.cut();
    stage
        .until("workers = 3", |status| {
            matches!(status, ConfigStatus::Stale { .. })
        })
        .await?;
    write(&operator, "workers = 5").await?;
    println!(
        "The service goes on with {} workers, and knows that this may be out of date.",
        stage.config.current().workers
    );
    network.refuse(false)?;
    stage.until("workers = 5", ConfigStatus::is_current).await?;

    println!("\nThe service ends.");
    operator.delete().for_path(PATH).await?;
    stage
        .until("", |status| matches!(status, ConfigStatus::Absent))
        .await?;
    client.close().await?;
    let seen = service.await?;
    reporting.await?;
    operator.close().await?;
    if seen != [2, 4, 1, 3, 5, 1] {
        return Err(format!("the service had other numbers of workers: {seen:?}").into());
    }
    println!(
        "It has worked with {seen:?} workers, one after the other: never with settings that were refused."
    );
    Ok(())
}

/// The service: runs as many workers as the settings demand, until the config has ended. Returns
/// the numbers of workers that it ran.
async fn serve(
    mut settings: Latest<Arc<Settings>>,
    applied: watch::Sender<Arc<Settings>>,
) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut workers = JoinSet::new();
    loop {
        let now = settings.get_and_update();
        println!("service: {} workers say {:?}", now.workers, now.greeting);
        if seen.last() != Some(&now.workers) {
            seen.push(now.workers);
        }
        // Each worker keeps the settings of its start; the previous workers are dropped.
        workers.abort_all();
        for _ in 0..now.workers {
            workers.spawn(work(Arc::clone(&now)));
        }
        applied.send_replace(now);
        if settings.changed().await.is_err() {
            return seen;
        }
    }
}

async fn work(settings: Arc<Settings>) {
    // A real worker would wait for its next job here, and use the settings for that job.
    drop(settings);
    std::future::pending::<()>().await;
}

/// Prints each change of the status. A real service would log or count the changes, and show them
/// to its operators.
async fn report(mut status: Latest<ConfigStatus>, reported: watch::Sender<ConfigStatus>) {
    while status.changed().await.is_ok() {
        let now = status.get_and_update();
        match &now {
            ConfigStatus::Current => println!("status:  current"),
            ConfigStatus::Absent => println!("status:  there is no node"),
            // The error's text does not contain the decoder's error, which might quote secrets. The
            // decoder's error is the source.
            ConfigStatus::Invalid { error } => match error.source() {
                Some(cause) => println!("status:  {error}: {cause}"),
                None => println!("status:  {error}"),
            },
            ConfigStatus::Unreadable { error } => println!("status:  {error}"),
            ConfigStatus::Stale { .. } => println!("status:  stale: there is no connection"),
            _ => println!("status:  ended"),
        }
        reported.send_replace(now);
    }
}

/// Writes the settings, as an operator does with `create` or `set` of ZooKeeper's shell.
async fn write(operator: &CuratorClient, settings: &str) -> Result<(), Failure> {
    operator
        .create()
        .creating_parent_containers()
        .or_set_data()
        .for_path(PATH, settings)
        .await?;
    Ok(())
}

/// The state that the example waits for and checks.
struct Stage {
    config: Config<Settings>,
    /// The settings that the service uses.
    applied: watch::Receiver<Arc<Settings>>,
    /// The last reported status.
    status: watch::Receiver<ConfigStatus>,
}

impl Stage {
    /// Waits until the service uses these settings, and the status satisfies the condition.
    async fn until(
        &mut self,
        expected: &str,
        condition: impl Fn(&ConfigStatus) -> bool,
    ) -> Result<(), Failure> {
        let expected: Settings = expected.parse()?;
        let reached = async {
            self.applied
                .wait_for(|now| **now == expected)
                .await
                .map(drop)?;
            self.status.wait_for(condition).await.map(drop)?;
            Ok::<_, Failure>(())
        };
        tokio::time::timeout(DEFAULT_TIMEOUT, reached).await??;
        if *self.config.current() == expected {
            Ok(())
        } else {
            Err("the settings have changed meanwhile".into())
        }
    }
}
