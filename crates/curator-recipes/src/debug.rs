//! `Debug` for the recipes and their errors.

pub(crate) use curator_client::{debug_as_text, debug_line};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_client::{Error as ClientError, ZPath};

    use crate::{ConfigError, Error, LeaderSelectorError};

    #[test]
    fn debug_of_an_error_is_its_text_on_one_line() {
        let connect_string = "zk1".to_owned();
        let after = Duration::from_secs(60);
        let cause = "zk1:2181: cannot be resolved (unknown)".to_owned();
        let failed = Error::from(ClientError::ConnectFailed {
            connect_string,
            after,
            cause,
        });
        let text = "no session with \"zk1\" within 60s: zk1:2181: cannot be resolved (unknown)";
        assert_eq!(format!("{failed:?}"), text);
        let boxed: Box<dyn std::error::Error> = Box::new(failed.clone());
        assert_eq!(format!("{boxed:?}"), text);
        assert_eq!(
            format!("{:?}", LeaderSelectorError::<&str>::Selector(failed)),
            text
        );
        let path = ZPath::root();
        let job = LeaderSelectorError::JobFailed {
            path: path.clone(),
            cause: "no\nspace\u{202e}\u{2028}",
        };
        assert_eq!(
            format!("{job:?}"),
            "the leader's job at / failed: no\\nspace\\u{202e}\\u{2028}"
        );
        assert_eq!(
            format!("{:?}", ConfigError::Absent { path }),
            "the config / does not exist"
        );
    }
}
