//! Registers, publishes and finds the services below one path.

use std::marker::PhantomData;

use curator_recipes::CacheState;
use curator_recipes::client::{
    CreateMode, CuratorClient, Error as ClientError, NodePath, NodeSpec, Session, ZPath,
};
use derive_where::derive_where;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::cache::{ServiceCache, ServiceCacheBuilder};
use crate::debug::debug_line;
use crate::error::{DiscoveryError, InvalidInstance, UnreadableInstance};
use crate::found::{FoundInstance, Instances, Read};
use crate::instance::ServiceInstance;
use crate::payload::{Payload, RawJson};
use crate::registration::Registration;
use crate::service_type::ServiceType;

type Result<T, E = DiscoveryError> = std::result::Result<T, E>;

/// How many instances are read at a time: a fraction of the client's limit of requests in flight.
const CONCURRENT_READS: usize = 64;

/// The services below one path: registers instances, and finds them.
///
/// Curator's `ServiceDiscovery`, with the same nodes: `<base path>/<service>/<id>`. `P` is the
/// [payload](Payload) type of found instances; registered instances may have another type. A
/// `ServiceDiscovery` is cheap to create, and need not be closed.
///
/// Service and id are each the name of one node: a name with `/`, the empty name, `.` and `..` are
/// rejected. In Curator, a service's name with `/` is a deeper path: for Curator's service `a/b`
/// below `/services`, use the base path `/services/a` and the service `b`.
///
/// ```no_run
/// use curator_discovery::client::CuratorClient;
/// use curator_discovery::{ServiceDiscovery, ServiceInstance};
///
/// # async fn example() -> Result<(), curator_discovery::DiscoveryError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let discovery = ServiceDiscovery::new(&client, "/services")?;
///
/// // A server.
/// let registration = discovery.register(ServiceInstance::new("orders").address("10.0.0.7").port(8080))?;
/// registration.registered().await?;
///
/// // A client.
/// let orders = discovery.start_cache("orders")?;
/// for instance in orders.ready().await?.iter() {
///     println!("{:?} {:?}", instance.address, instance.port);
/// }
///
/// registration.deregister().await?;
/// # Ok(())
/// # }
/// ```
#[derive_where(Clone)]
pub struct ServiceDiscovery<P = RawJson> {
    client: CuratorClient,
    base: ZPath,
    payload: PhantomData<fn() -> P>,
}

debug_line!(ServiceDiscovery<P>, |discovery| base: discovery.base);

impl ServiceDiscovery {
    /// The services below `base_path`, found with payloads as raw JSON. Sends no request.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, base_path: impl NodePath) -> Result<Self> {
        Ok(Self {
            client: client.clone(),
            base: client.resolve(base_path)?,
            payload: PhantomData,
        })
    }
}

impl<P: Payload> ServiceDiscovery<P> {
    /// The same services, found with payloads of the type `Q`. An instance whose payload does not
    /// fit is [unreadable](Instances::unreadable).
    #[must_use]
    pub fn with_payload<Q: Payload>(&self) -> ServiceDiscovery<Q> {
        ServiceDiscovery {
            client: self.client.clone(),
            base: self.base.clone(),
            payload: PhantomData,
        }
    }

    /// Registers an instance for as long as the handle exists. Returns immediately, even before
    /// there is a connection.
    ///
    /// Curator's `registerService`.
    ///
    /// # Errors
    ///
    /// When the name or the id is not a valid node name, the payload cannot be serialized, or the
    /// type is not [`Dynamic`](ServiceType::Dynamic).
    pub fn register<Q: Payload>(&self, instance: ServiceInstance<Q>) -> Result<Registration<Q>> {
        if instance.service_type != ServiceType::Dynamic {
            let service_type = instance.service_type;
            return Err(InvalidInstance::ServiceType {
                service_type,
                operation: "registered",
            }
            .into());
        }
        Registration::start(
            &self.client,
            &self.node(&instance.name, &instance.id)?,
            instance,
        )
    }

    /// Writes an instance of the type [`Static`](ServiceType::Static) or
    /// [`Permanent`](ServiceType::Permanent), which exists until it is [removed](Self::remove).
    /// Overwrites a published instance with the same name and id.
    ///
    /// # Errors
    ///
    /// - [`Registered`](DiscoveryError::Registered) if a process has registered the id.
    /// - When the name or the id is not a valid node name, the payload cannot be serialized, or the
    ///   type is neither `Static` nor `Permanent`.
    /// - Errors of the client. A request whose reply is lost is retried. If the client's retry
    ///   policy allows no further attempt, [`outcome`](DiscoveryError::outcome) reports that the
    ///   instance may be written.
    ///
    /// # Cancel safety
    ///
    /// A request already sent may still be applied when the future is dropped.
    pub async fn publish<Q: Payload>(&self, instance: &ServiceInstance<Q>) -> Result<()> {
        if !matches!(
            instance.service_type,
            ServiceType::Static | ServiceType::Permanent
        ) {
            let service_type = instance.service_type;
            return Err(InvalidInstance::ServiceType {
                service_type,
                operation: "published",
            }
            .into());
        }
        let path = self.node(&instance.name, &instance.id)?;
        let data = instance.to_json()?.into();
        let acl = self.client.acl_for(&path);
        let client = &self.client;
        let node = &NodeSpec {
            path,
            data,
            mode: CreateMode::Persistent,
            acl,
        };
        client
            .retry_write(|session| publish(client, session, node))
            .await?
    }

    /// Removes an instance that was [published](Self::publish). A missing instance is not an error.
    /// A registered instance is created again while its [`Registration`] exists.
    ///
    /// # Errors
    ///
    /// Errors of the client. The call can be repeated.
    ///
    /// # Cancel safety
    ///
    /// A request already sent may still be applied when the future is dropped.
    pub async fn remove(&self, name: &str, id: &str) -> Result<()> {
        match self.client.delete().for_path(&self.node(name, id)?).await {
            Ok(()) | Err(ClientError::NoNode { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all services that have an instance, or had one until recently, sorted. Sends
    /// one request.
    ///
    /// Curator's `queryForNames`.
    ///
    /// # Errors
    ///
    /// Errors of the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn names(&self) -> Result<Vec<String>> {
        self.children(&self.base).await
    }

    /// The current instances of a service. Sends one request, and then one for each instance, 64 at
    /// a time. For repeated reads, use a [cache](Self::start_cache).
    ///
    /// Curator's `queryForInstances`.
    ///
    /// # Errors
    ///
    /// When the name is not a valid node name; and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn instances(&self, name: &str) -> Result<Instances<P>> {
        let service = self.base.child(name)?;
        let ids = self.children(&service).await?;
        let paths: Vec<_> = ids.iter().filter_map(|id| service.child(id).ok()).collect();
        let read: Vec<_> = stream::iter(paths)
            .map(|path: ZPath| async move {
                let read = self.read(&path).await?;
                Ok::<_, DiscoveryError>((path, read))
            })
            .buffered(CONCURRENT_READS)
            .try_collect::<Vec<_>>()
            .await?;
        let found = read
            .into_iter()
            .filter_map(|(path, read)| Some((path, read?)));
        Ok(Instances::new(found, CacheState::Current))
    }

    /// An instance, as it is now; `None` if it does not exist. Sends one request.
    ///
    /// Curator's `queryForInstance`.
    ///
    /// # Errors
    ///
    /// [`Unreadable`](DiscoveryError::Unreadable); when the name or the id is not a valid node
    /// name; and errors of the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn instance(&self, name: &str, id: &str) -> Result<Option<FoundInstance<P>>> {
        Ok(self.read(&self.node(name, id)?).await?.transpose()?)
    }

    /// Starts to follow the instances of a service. Returns immediately, even before there is a
    /// connection or an instance.
    ///
    /// Curator's `serviceCacheBuilder`.
    ///
    /// # Errors
    ///
    /// When the name is not a valid node name.
    pub fn start_cache(&self, name: &str) -> Result<ServiceCache<P>> {
        self.cache_builder(name)?.start()
    }

    /// Configures a cache of the instances of a service. Nothing is sent before
    /// [`start`](ServiceCacheBuilder::start).
    ///
    /// # Errors
    ///
    /// When the name is not a valid node name.
    pub fn cache_builder(&self, name: &str) -> Result<ServiceCacheBuilder<P>> {
        ServiceCacheBuilder::new(&self.client, self.base.child(name)?)
    }

    /// The names of a node's children, sorted; none if it does not exist.
    async fn children(&self, path: &ZPath) -> Result<Vec<String>> {
        match self.client.get_children(path).await {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(ClientError::NoNode { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an instance; `None` if it does not exist.
    async fn read(&self, path: &ZPath) -> Result<Option<Read<P>>> {
        match self.client.get_data(path).await {
            Ok((data, stat)) => Ok(Some(FoundInstance::read(path, &data, stat))),
            Err(ClientError::NoAuth { .. }) => Ok(Some(Err(UnreadableInstance::denied(path)))),
            Err(ClientError::NoNode { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn node(&self, name: &str, id: &str) -> Result<ZPath> {
        Ok(self.base.child(name)?.child(id)?)
    }
}

/// The maximum number of attempts while other clients keep creating, writing and deleting the
/// instance.
const PUBLISH_ROUNDS: u32 = 16;

/// Writes a node, unless it belongs to a session. Tries again only if another client has changed
/// the node in between. The caller retries after an outer error; the inner result is final.
async fn publish(
    client: &CuratorClient,
    session: Session,
    node: &NodeSpec,
) -> Result<Result<()>, ClientError> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        let written = match session.exists(&node.path).await? {
            Some(stat) if stat.ephemeral_owner != 0 => {
                let path = node.path.clone();
                let owner = stat.ephemeral_owner;
                return Ok(Err(DiscoveryError::Registered { path, owner }));
            }
            Some(stat) => session
                .set_data(&node.path, &node.data, Some(stat.version))
                .await
                .map(drop),
            None => client
                .create_with_containers(&session, node)
                .await
                .map(drop),
        };
        match written {
            // Another client has changed the node in between.
            Err(
                ClientError::NodeExists { .. }
                | ClientError::NoNode { .. }
                | ClientError::BadVersion { .. },
            ) if rounds < PUBLISH_ROUNDS => {}
            written => return written.map(Ok),
        }
    }
}
