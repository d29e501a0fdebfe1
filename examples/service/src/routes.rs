//! The routes of the service, and their handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use curator_recipes::fencing::StaleToken;
use curator_recipes::{CacheState, FencingToken};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::refusal::Refusal;
use crate::release::release;
use crate::requests::Requests;
use crate::reservations::End;
use crate::service::Service;

pub(crate) fn routes(
    service: Arc<Service>,
    requests: Requests,
    metrics: PrometheusHandle,
) -> Router {
    Router::new()
        .route("/orders", get(locked))
        .route("/orders/{key}", get(show).post(add).put(replace))
        .route("/orders/{key}/reservation", post(reserve).delete(give_back))
        .route("/job", get(who_leads))
        // The liveness probe does not depend on ZooKeeper: a restart would not repair the servers,
        // but would end the session.
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .route("/metrics", get(async move || metrics.render()))
        .with_state(service)
        .layer(from_fn_with_state(requests, Requests::track))
}

/// Appends an item, under the lock of the order. Requests for the same order run one after another,
/// across all processes.
async fn add(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
    item: String,
) -> Result<String, Refusal> {
    let guard = service
        .lock(&key)?
        .acquire_timeout(service.lock_timeout)
        .await?
        .ok_or_else(Refusal::taken)?;
    let token = guard.fencing_token();
    let order = service.orders.to_write(&key);
    // The read also passes the token: from then on, the store rejects all previous holders.
    let work = async {
        let mut items = order.read_with(token, Clone::clone)?;
        items.push(item);
        let answer = printed(&items);
        order.write(token, |stored| *stored = items)?;
        Ok::<_, StaleToken>(answer)
    };
    let answer = guard.run(work).await??;
    // The result of the release does not matter, even if the lock was lost: the store has accepted
    // the write, and rejects older holders.
    release(guard).await;
    Ok(answer)
}

/// Reserves an order for longer than this request. The response is the token, which requests under
/// the reservation must send.
async fn reserve(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
) -> Result<(StatusCode, String), Refusal> {
    let guard = service
        .lock(&key)?
        .try_acquire()
        .await?
        .ok_or_else(Refusal::taken)?;
    let token = guard.fencing_token();
    service.reservations.keep(key, guard);
    Ok((StatusCode::CREATED, format!("{token}\n")))
}

/// Replaces the items of a reserved order.
async fn replace(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<StatusCode, Refusal> {
    let token = presented(&headers)?;
    service.reservations.check(&key, token)?;
    let items = String::from_request(request, &())
        .await?
        .lines()
        .map(str::to_owned)
        .collect();
    // Reading the body may have taken long, and the reservation may be lost by now. Another check
    // would not help, because the reservation can be lost right after the check. The store rejects
    // the write if there has been another holder.
    service
        .orders
        .to_write(&key)
        .write(token, |stored| *stored = items)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn give_back(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    match service
        .reservations
        .give_back(&key, presented(&headers)?)
        .await?
    {
        End::GivenBack => Ok(StatusCode::NO_CONTENT),
        _ => Ok(StatusCode::ACCEPTED),
    }
}

/// Shows an order, without acquiring its lock.
async fn show(
    State(service): State<Arc<Service>>,
    Path(key): Path<String>,
) -> Result<String, Refusal> {
    let order = service
        .orders
        .find(&key)
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "there is no such order"))?;
    Ok(order.read(|items| printed(items)))
}

/// Lists the locked orders, in any process, and how many requests wait for each. Sends no requests
/// to ZooKeeper.
async fn locked(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    let locks = service.locks.snapshot();
    if locks.state() != CacheState::Current {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "not known without a connection\n".to_owned(),
        );
    }
    let contended = locks.children(service.locks.path()).filter_map(|order| {
        let waiting = locks.children(order.path()).count().checked_sub(1)?;
        Some(format!("{}: {waiting} waiting\n", order.path().name()))
    });
    (StatusCode::OK, contended.collect())
}

async fn who_leads(State(service): State<Arc<Service>>) -> String {
    match *service.leading.borrow() {
        Some(token) => format!(
            "leads with token {token}: {} items\n",
            service.count.read(|count| *count)
        ),
        None => "does not lead\n".to_owned(),
    }
}

/// The readiness probe. Almost every request needs a lock, so the service is not ready without a
/// session, nor during shutdown.
async fn ready(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    if service.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    let health = service.client.health();
    let status = if health.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, format!("{health}\n"))
}

fn presented(headers: &HeaderMap) -> Result<FencingToken, Refusal> {
    let token = headers
        .get("fencing-token")
        .and_then(|token| token.to_str().ok())
        .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "expected a header Fencing-Token"))?;
    Ok(token.parse()?)
}

fn printed(items: &[String]) -> String {
    format!("{}\n", items.join("\n"))
}
