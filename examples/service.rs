//! An HTTP service that keeps orders: a lock for each order, a store that refuses late writes, probes, a start without its
//! servers, a job that one of several processes does, and an end in the right order. `docs/production.md` has the reasons.
//!
//! ```console
//! LISTEN=127.0.0.1:8080 cargo run --example service
//! curl -d tea http://127.0.0.1:8080/orders/7
//! curl -X POST http://127.0.0.1:8080/orders/7/reservation
//! curl -X PUT -H 'Fencing-Token: ..' -d milk http://127.0.0.1:8080/orders/7
//! curl -X DELETE http://127.0.0.1:8080/orders/7/reservation
//! curl http://127.0.0.1:8080/health/ready
//! ```
//!
//! `ZOOKEEPER_CONNECT` names your servers, `SESSION_TIMEOUT` is in seconds, and `RUST_LOG` says what is logged.

use std::collections::HashMap;
use std::env::var;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::{self, CuratorClient, RetryForever};
use curator_recipes::fencing::{FencedResource, InvalidFencingToken, StaleToken};
use curator_recipes::{Error, FencingToken, InterProcessMutex, LockGuard, LockLost};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

const ORDERS: &str = "/curator-examples/service/orders";
const JOB: &str = "/curator-examples/service/job";
/// How long a request waits for the lock of its order.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an order stays reserved if nobody gives it back.
const RESERVED_FOR: Duration = Duration::from_secs(60);
/// How long the requests under way may take when the service stops.
const DRAIN: Duration = Duration::from_secs(10);
/// How long anyone waits for a release; after that it goes on in the background.
const RELEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The lines of the crate under the client say the same in other words.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,zookeeper_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stdout().is_terminal()).init();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ensemble = Ensemble::find().await?;

    // Returns at once, whether the servers can be reached or not.
    let client = builder(ensemble.connect_string())
        .name("orders")
        .session_timeout(Duration::from_secs(var("SESSION_TIMEOUT").map_or(Ok(15), |seconds| seconds.parse())?))
        // The job waits through any outage. Each request has a deadline of its own.
        .retry_policy(RetryForever::new(Duration::from_millis(500))?)
        .start()?;
    let service = Arc::new(Service::new(client.clone()));
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:0")).await?;
    println!("Listening on http://{}", listener.local_addr()?);

    let (no_more_requests, no_more_work) = (CancellationToken::new(), CancellationToken::new());
    let job = tokio::spawn(job(Arc::clone(&service), no_more_work.clone()));
    let serving = axum::serve(listener, routes(Arc::clone(&service)));
    let serving =
        tokio::spawn(serving.with_graceful_shutdown(no_more_requests.clone().cancelled_owned()).into_future());

    tokio::select! {
        _ = terminate.recv() => info!("asked to stop by SIGTERM"),
        _ = interrupt.recv() => info!("asked to stop by ctrl-c"),
    }
    // Nothing new comes in, and what is under way is finished.
    no_more_requests.cancel();
    match timeout(DRAIN, serving).await {
        Ok(served) => served??,
        Err(_) => warn!("requests are cut off after {DRAIN:?}"),
    }
    info!("all requests are answered");
    no_more_work.cancel();
    job.await?;
    info!("the job has ended");
    // Each guard by itself, to learn whether its lock had been lost. The locks would go with the session too.
    service.end_reservations().await;
    info!("all reservations are given back");
    match client.close().await {
        Ok(()) => info!("the client is closed"),
        Err(error) => warn!(%error, "the client is closed, but the servers do not know"),
    }
    Ok(())
}

fn routes(service: Arc<Service>) -> Router {
    Router::new()
        .route("/orders/{key}", get(show).post(add).put(replace))
        .route("/orders/{key}/reservation", post(reserve).delete(give_back))
        .route("/job", get(who_leads))
        // Not about ZooKeeper: a restart would bring no server back, and end the session.
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .with_state(service)
}

/// Appends an item. The lock makes this and other requests, in all processes, take turns.
async fn add(State(service): State<Arc<Service>>, Path(key): Path<String>, item: String) -> Result<String, Refusal> {
    let order = service.order(&key)?;
    let guard = order.lock.acquire_timeout(PATIENCE).await?.ok_or_else(|| service.taken())?;
    let token = guard.fencing_token();
    // The token in the read as well: from then on the store refuses whoever held the lock before.
    let work = async {
        let mut items = order.items.read_with(token, Clone::clone)?;
        items.push(item);
        let answer = printed(&items);
        order.items.write(token, |stored| *stored = items)?;
        Ok::<_, StaleToken>(answer)
    };
    let answer = guard.run(work).await??;
    release(guard).await;
    Ok(answer)
}

/// Reserves an order for longer than this request. The answer is the token for the writes under the reservation.
async fn reserve(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
) -> Result<(StatusCode, String), Refusal> {
    let guard = service.order(&key)?.lock.try_acquire().await?.ok_or_else(|| service.taken())?;
    let token = guard.fencing_token();
    service.keep(key, guard);
    Ok((StatusCode::CREATED, format!("{token}\n")))
}

/// Replaces the items of a reserved order. If the reservation is lost, the token is stale as soon as there is another holder.
async fn replace(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
    headers: HeaderMap,
    items: String,
) -> Result<StatusCode, Refusal> {
    let token = headers.get("fencing-token").and_then(|token| token.to_str().ok());
    let token = token.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "expected a header Fencing-Token"))?;
    let items = items.lines().map(str::to_owned).collect();
    service.order(&key)?.items.write(token.parse()?, |stored| *stored = items)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn give_back(State(service): State<Arc<Service>>, Path(key): Path<String>) -> StatusCode {
    let reservation = service.reservations().remove(&key);
    match reservation {
        Some(reservation) => {
            reservation.end().await;
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

/// Without a lock: only to look.
async fn show(State(service): State<Arc<Service>>, Path(key): Path<String>) -> Result<String, Refusal> {
    Ok(service.order(&key)?.items.read(|items| printed(items)))
}

async fn who_leads(State(service): State<Arc<Service>>) -> String {
    match *service.leading.borrow() {
        Some(token) => format!("leads with token {token}: {} items\n", service.count.read(|count| *count)),
        None => "does not lead\n".to_owned(),
    }
}

/// Almost every request needs a lock, so load is better sent elsewhere while there is no session.
async fn ready(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    let health = service.client.health();
    let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{health}\n"))
}

/// An order, and its lock. The store is in memory, so that the example needs no database; that would compare tokens in the
/// same way, by the SQL in `curator_recipes::fencing`.
struct Order {
    lock: InterProcessMutex,
    items: FencedResource<Vec<String>>,
}

/// What all requests and the job share.
struct Service {
    client: CuratorClient,
    orders: Mutex<HashMap<String, Arc<Order>>>,
    reservations: Mutex<HashMap<String, Reservation>>,
    count: FencedResource<usize>,
    /// The token of the job in this process, while it holds its lock.
    leading: watch::Sender<Option<FencingToken>>,
}

impl Service {
    fn new(client: CuratorClient) -> Self {
        let (orders, reservations) = (Mutex::default(), Mutex::default());
        Self { client, orders, reservations, count: FencedResource::new(0), leading: watch::Sender::new(None) }
    }

    /// Nobody got the lock in time: it is held, or nobody can have it.
    fn taken(&self) -> Refusal {
        if self.client.health().is_ready() {
            Refusal::new(StatusCode::CONFLICT, "somebody else has the order")
        } else {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "there is no connection to ZooKeeper")
        }
    }

    fn order(&self, key: &str) -> Result<Arc<Order>, Error> {
        // `child` refuses a key with a slash, which would be a node elsewhere.
        let path = self.client.resolve(ORDERS)?.child(key).map_err(client::Error::from)?;
        // Not reentrant: requests on one connection share a task, and the guard of a reservation leaves it.
        let lock = InterProcessMutex::new(&self.client, path)?.non_reentrant();
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let order = orders.entry(key.to_owned());
        Ok(Arc::clone(order.or_insert_with(|| Arc::new(Order { lock, items: FencedResource::default() }))))
    }

    fn items(&self) -> usize {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.values().map(|order| order.items.read(Vec::len)).sum()
    }

    fn reservations(&self) -> std::sync::MutexGuard<'_, HashMap<String, Reservation>> {
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, key: String, guard: LockGuard) {
        let mut reservations = self.reservations();
        reservations.retain(|_, reservation| !reservation.task.is_finished());
        reservations.insert(key, Reservation::new(guard));
    }

    async fn end_reservations(&self) {
        let reservations: Vec<_> = self.reservations().drain().collect();
        for (_, reservation) in reservations {
            reservation.end().await;
        }
    }
}

/// A guard in a task of its own, until it is given back, expires or is lost.
struct Reservation {
    given_back: CancellationToken,
    task: JoinHandle<()>,
}

impl Reservation {
    fn new(guard: LockGuard) -> Self {
        let given_back = CancellationToken::new();
        let ended = given_back.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = sleep(RESERVED_FOR) => info!(node = %guard.node(), "a reservation has expired"),
                lost = guard.lost() => return warn!(%lost, "a reservation is lost"),
            }
            release(guard).await;
        });
        Self { given_back, task }
    }

    async fn end(self) {
        self.given_back.cancel();
        if let Err(error) = self.task.await {
            warn!(%error, "a reservation has failed");
        }
    }
}

/// Counts all items, in one of the processes that run this service, for as long as any of them runs.
async fn job(service: Arc<Service>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = one_term(&service, &stop).await {
            warn!(%error, "the job starts over");
            // An error that comes at once, such as a missing permission, is no reason to try without pause.
            tokio::select! {
                () = sleep(Duration::from_secs(1)) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// From the acquire to the loss of the lock, or until the service stops.
async fn one_term(service: &Service, stop: &CancellationToken) -> Result<(), Failure> {
    let leadership = InterProcessMutex::new(&service.client, JOB)?.non_reentrant();
    let guard = tokio::select! {
        guard = leadership.acquire() => guard?,
        () = stop.cancelled() => return Ok(()),
    };
    let token = guard.fencing_token();
    info!(%token, "the job has its lock");
    service.leading.send_replace(Some(token));
    let counting = async {
        loop {
            service.count.write(token, |count| *count = service.items())?;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let ended = tokio::select! {
        // Dropped at its next await when the lock is lost.
        ended = guard.run(counting) => ended.map_err(Failure::from).and_then(|stale: Result<(), StaleToken>| Ok(stale?)),
        () = stop.cancelled() => Ok(()),
    };
    service.leading.send_replace(None);
    if ended.is_ok() {
        release(guard).await;
    }
    ended
}

/// In an outage a release waits as long as the retry policy says, which is forever here.
async fn release(guard: LockGuard) {
    let node = guard.node().clone();
    match timeout(RELEASE, guard.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "a release has failed"),
        Err(_) => warn!(%node, "a release goes on in the background"),
    }
}

fn printed(items: &[String]) -> String {
    format!("{}\n", items.join("\n"))
}

/// An answer that is not what was asked for.
struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    fn new(status: StatusCode, reason: impl ToString) -> Self {
        Self { status, reason: reason.to_string() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, self.reason + "\n").into_response()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Client(client::Error::InvalidPath(_)) => StatusCode::BAD_REQUEST,
            Error::Client(client::Error::Closed) => StatusCode::SERVICE_UNAVAILABLE,
            error if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error)
    }
}

/// Nothing more was written than what the store has accepted with the token.
impl From<LockLost> for Refusal {
    fn from(lost: LockLost) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, lost)
    }
}

impl From<StaleToken> for Refusal {
    fn from(stale: StaleToken) -> Self {
        Self::new(StatusCode::CONFLICT, stale)
    }
}

impl From<InvalidFencingToken> for Refusal {
    fn from(invalid: InvalidFencingToken) -> Self {
        Self::new(StatusCode::BAD_REQUEST, invalid)
    }
}
