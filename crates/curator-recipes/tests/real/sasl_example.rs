use curator_recipes::client::{Acl, AuthId, CuratorClient, Error, Permission, SaslOptions};

/// A client that the servers know as the user `shop`, and whose nodes are for that user only.
async fn connect(servers: &str, password: &str) -> Result<CuratorClient, Error> {
    CuratorClient::builder(servers)
        .sasl(SaslOptions::digest_md5("shop", password))
        .default_acl([Acl::new(Permission::ALL, AuthId::new("sasl", "shop"))])
        .connect()
        .await
}
