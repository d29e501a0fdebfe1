//! A gRPC server that registers itself.

use curator_discovery::{ServiceDiscovery, ServiceInstance};
use curator_examples::{Failure, builder};
use futures_util::stream::Pending;
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::{SERVICE, SERVICES, SESSION_TIMEOUT};

/// The first argument of a server; the id and the connect string follow.
pub(crate) const ROLE: &str = "server";
/// The metadata key of the server's name in a response.
pub(crate) const NAME: &str = "server";
/// The line that a server prints when it serves requests.
pub(crate) const READY: &str = "ready";
pub(crate) const DRAINED: &str = "drained";

/// Serves until its standard input ends. A line on its standard input drains the server: it still
/// answers, but clients send it no more requests.
pub(crate) async fn run(id: &str, connect_string: &str) -> Result<(), Failure> {
    // The kernel kills this process when the client's process dies.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;

    // The server listens before it registers.
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let port = incoming.local_addr()?.port();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let health = HealthServer::new(Named { id: id.to_owned() });
    let serving = Server::builder()
        .add_service(health)
        .serve_with_incoming_shutdown(incoming, async {
            // Dropping the sender also ends this wait.
            let _ = ended.await;
        });
    let serving = tokio::spawn(serving);

    let zookeeper = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await?;
    let services = ServiceDiscovery::new(&zookeeper, SERVICES)?;
    // The id is the same after a restart: the registration waits until the session of the previous
    // run has ended.
    let instance = ServiceInstance::new(SERVICE)
        .id(id)
        .address("127.0.0.1")
        .port(port);
    let registration = services.register(instance)?;
    registration.registered().await?;
    println!("{READY}");

    let mut input = BufReader::new(stdin()).lines();
    while input.next_line().await?.is_some() {
        registration.drain().await?;
        println!("{DRAINED}");
    }
    registration.deregister().await?;
    // Requests in progress are still answered.
    drop(end);
    serving.await??;
    zookeeper.close().await?;
    Ok(())
}

/// Adds the server's name to each response.
struct Named {
    id: String,
}

#[tonic::async_trait]
impl Health for Named {
    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let mut response = Response::new(HealthCheckResponse {
            status: ServingStatus::Serving.into(),
        });
        let id = self
            .id
            .parse()
            .map_err(|_| Status::internal("the id is not valid metadata"))?;
        response.metadata_mut().insert(NAME, id);
        Ok(response)
    }

    type WatchStream = Pending<Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented(
            "this example implements only `check`",
        ))
    }
}
