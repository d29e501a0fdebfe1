//! Serializes tokens and participants, behind the feature `serde`.

use std::time::SystemTime;

use serde::de::Error as _;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fencing::FencingToken;
use crate::lock::Participant;

/// Serializes the number.
impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.as_i64())
    }
}

/// Reads a number, and rejects the same numbers as `TryFrom<i64>`.
impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(i64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// For status pages. The path and the kind are text. The session's id is text, in hexadecimal
/// digits as in ZooKeeper's logs, because JavaScript cannot represent such large numbers exactly.
/// The time of creation is in milliseconds since
/// 1970. The data is text, in which bytes that are not UTF-8 are replaced.
impl Serialize for Participant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let created = self
            .created
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mut fields = serializer.serialize_struct("Participant", 8)?;
        fields.serialize_field("path", &self.path)?;
        fields.serialize_field("sequence", &self.sequence)?;
        fields.serialize_field("kind", &self.kind.to_string())?;
        fields.serialize_field("owns", &self.owns)?;
        fields.serialize_field("session_id", &format!("{:#x}", self.session_id))?;
        fields.serialize_field(
            "created",
            &u64::try_from(created.as_millis()).unwrap_or(u64::MAX),
        )?;
        fields.serialize_field("fencing_token", &self.fencing_token)?;
        fields.serialize_field("data", &String::from_utf8_lossy(&self.data))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_client::{SessionEnd, ZPath};
    use curator_protocol::ParticipantKind;

    use super::*;
    use crate::error::LossReason;
    use crate::shared::VersionedCount;

    #[test]
    fn a_token_serializes_as_a_number_and_rejects_zero_and_strings() {
        let token: FencingToken = serde_json::from_str("4294967299").unwrap();
        assert_eq!(serde_json::to_string(&token).unwrap(), "4294967299");
        for (text, reason) in [
            ("0", "invalid fencing token \"0\": expected"),
            ("\"7\"", "invalid type: string \"7\""),
        ] {
            let error = serde_json::from_str::<FencingToken>(text)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[test]
    fn a_participant_serializes_with_a_hex_session_id_and_its_data_as_text() {
        let participant = Participant {
            path: ZPath::on_server("/locks/a/lock-0000000001").unwrap(),
            sequence: 1,
            kind: ParticipantKind::Exclusive,
            owns: true,
            session_id: 0x1000_0000_0000_000a,
            created: SystemTime::UNIX_EPOCH + Duration::from_millis(1_234),
            fencing_token: FencingToken::new(77),
            data: b"10.0.0.1".to_vec(),
        };
        let expected = concat!(
            r#"{"path":"/locks/a/lock-0000000001","sequence":1,"kind":"exclusive","owns":true,"#,
            r#""session_id":"0x100000000000000a","created":1234,"fencing_token":77,"data":"10.0.0.1"}"#
        );
        assert_eq!(serde_json::to_string(&participant).unwrap(), expected);
    }

    #[test]
    fn counts_and_loss_reasons_serialize_and_unknown_fields_are_rejected() {
        let count: VersionedCount = serde_json::from_str(r#"{"value":3,"version":7}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&count).unwrap(),
            r#"{"value":3,"version":7}"#
        );
        serde_json::from_str::<VersionedCount>(r#"{"value":3,"version":7,"more":1}"#).unwrap_err();
        assert_eq!(
            serde_json::to_string(&LossReason::NodeDeleted).unwrap(),
            r#""node-deleted""#
        );
        let lost = LossReason::SessionLost(SessionEnd::Expired);
        assert_eq!(
            serde_json::to_string(&lost).unwrap(),
            r#"{"session-lost":"expired"}"#
        );
    }
}
