//! Creating missing parents as containers.

use std::sync::Arc;

use crate::acl::Acls;
use crate::error::{Error, Result};
use crate::operation::{CreateMode, NodeSpec};
use crate::path::ZPath;
use crate::session::Session;

/// Creates the missing nodes of `dir`, from the top down, as containers.
///
/// Usually only the last one is missing, which takes one request, so this starts at the bottom.
pub(crate) async fn ensure_containers(session: &Session, dir: &ZPath, acls: &Acls) -> Result<()> {
    match create_container(session, dir, acls).await {
        Err(Error::NoNode { .. }) => {}
        result => return result,
    }
    for ancestor in dir.ancestors() {
        create_container(session, &ancestor, acls).await?;
    }
    create_container(session, dir, acls).await
}

async fn create_container(session: &Session, path: &ZPath, acls: &Acls) -> Result<()> {
    if path.is_root() {
        return Ok(());
    }
    let mut spec =
        NodeSpec { path: path.clone(), data: Arc::from([]), mode: CreateMode::Container, acl: acls.of(path) };
    let result = match session.create(&spec).await {
        Err(Error::Unimplemented { .. }) => {
            spec.mode = CreateMode::Persistent;
            session.create(&spec).await
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Error::NodeExists { .. }) => Ok(()),
        // An ancestor that we may read but not extend is no obstacle if it exists.
        Err(error @ Error::NoAuth { .. }) => match session.exists(path).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}
