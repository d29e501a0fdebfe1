//! The worker's side of the store protocol.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Answer, Request};

/// A client of the store, with one request at a time. Connects on demand.
#[derive(Debug)]
pub struct StoreClient {
    address: String,
    timeout: Duration,
    /// `None` while a request is in flight: the reply to an abandoned request must not be taken for
    /// the reply to the next request.
    connection: Option<BufReader<TcpStream>>,
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection; nothing was sent.
    #[error("cannot connect to the store at {address}: {cause}")]
    NotConnected {
        /// The address of the store.
        address: String,
        /// The error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The request was sent, perhaps in part. A write may have been applied, or may be applied
    /// later.
    #[error("no reply from the store at {address}: {cause}")]
    NoAnswer {
        /// The address of the store.
        address: String,
        /// An error of the operating system, a timeout, or a malformed reply.
        #[source]
        cause: io::Error,
    },
}

impl StoreClient {
    /// A client for the store at this address. `timeout` limits each request, and each connect.
    #[must_use]
    pub fn new(address: impl Into<String>, timeout: Duration) -> Self {
        Self {
            address: address.into(),
            timeout,
            connection: None,
        }
    }

    /// Sends a request, and returns the reply.
    ///
    /// # Errors
    ///
    /// [`StoreError`], whose variant shows whether the request may have been applied. The next
    /// request uses a new connection.
    ///
    /// # Cancel safety
    ///
    /// A request whose future is dropped may have been applied, or may be applied later.
    pub async fn ask(&mut self, request: &Request) -> Result<Answer, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = self
                    .in_time(TcpStream::connect(&self.address))
                    .await
                    .map_err(|cause| StoreError::NotConnected {
                        address: self.address.clone(),
                        cause,
                    })?;
                // With Nagle's algorithm, small requests may be delayed by 40 ms.
                drop(stream.set_nodelay(true));
                BufReader::new(stream)
            }
        };
        let reply = self
            .in_time(exchange(&mut connection, request))
            .await
            .map_err(|cause| StoreError::NoAnswer {
                address: self.address.clone(),
                cause,
            })?;
        self.connection = Some(connection);
        Ok(reply)
    }

    async fn in_time<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|elapsed| Err(elapsed.into()))
    }
}

async fn exchange(connection: &mut BufReader<TcpStream>, request: &Request) -> io::Result<Answer> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    connection.get_mut().write_all(&line).await?;
    let mut reply = String::new();
    if connection.read_line(&mut reply).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&reply)?)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn write(element: &str) -> Request {
        Request::Write {
            set: "s".to_owned(),
            elements: vec![element.to_owned()],
            token: None,
        }
    }

    /// Accepts a connection, and reads a request from it.
    async fn accept_request(listener: &TcpListener) -> BufReader<TcpStream> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = BufReader::new(stream);
        connection.read_line(&mut String::new()).await.unwrap();
        connection
    }

    #[tokio::test]
    async fn a_request_to_a_closed_store_is_not_sent_and_one_to_a_silent_store_has_no_reply() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut client = StoreClient::new(&address, Duration::from_secs(1));
        let silent = client.ask(&write("x")).await.unwrap_err();
        assert!(matches!(silent, StoreError::NoAnswer { .. }), "{silent}");
        assert!(silent.to_string().contains(&address), "{silent}");
        drop(listener);
        let gone = client.ask(&write("x")).await.unwrap_err();
        assert!(matches!(gone, StoreError::NotConnected { .. }), "{gone}");
    }

    #[tokio::test]
    async fn the_reply_to_a_dropped_request_is_not_returned_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = StoreClient::new(
            listener.local_addr().unwrap().to_string(),
            Duration::from_secs(30),
        );
        let line_of = |answer: &Answer| serde_json::to_string(answer).unwrap() + "\n";
        let request = write("y");
        // The request is dropped after the store has read it. The store replies afterwards.
        let mut first = tokio::select! {
            answer = client.ask(&request) => panic!("{answer:?}"),
            first = accept_request(&listener) => first,
        };
        first
            .write_all(line_of(&Answer::Written).as_bytes())
            .await
            .unwrap();
        let read = Request::Read {
            set: "s".to_owned(),
            token: None,
        };
        let elements = Answer::Elements {
            elements: vec!["x".to_owned()],
        };
        let replying = async {
            let mut second = accept_request(&listener).await;
            second
                .write_all(line_of(&elements).as_bytes())
                .await
                .unwrap();
            std::future::pending().await
        };
        let answer = tokio::select! {
            answer = client.ask(&read) => answer.unwrap(),
            never = replying => never,
        };
        assert_eq!(answer, elements);
    }
}
