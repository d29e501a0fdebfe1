//! The client's side of GSSAPI (RFC 4752), with the system's Kerberos library.
//!
//! 1. Both sides establish a security context, which authenticates both of them.
//! 2. The server sends the security layers that it offers, in a message that the context protects.
//! 3. The client chooses none, and acts as the principal of its ticket.

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext as _};
use libgssapi::error::Error;

use super::{SaslFailure, Step};
use crate::sasl::ticket;
use crate::transport::Unauthenticated;

/// The bit for "no security layer" in the first byte, both of the server's offer and of the
/// client's choice. The other three bytes are the longest message, which is 0 without a layer.
const NO_LAYER: u8 = 1;

pub(in crate::wire) struct Gssapi {
    context: ClientCtx,
    stage: Stage,
}

/// What the client waits for.
enum Stage {
    /// A token for the security context.
    Context,
    /// The layers that the server offers.
    Layers,
    /// The server's last token, which is empty.
    End,
}

impl Gssapi {
    /// Starts an exchange with the service `name`. Also returns the first token. Blocks.
    pub(in crate::wire) fn begin(name: &str) -> Result<(Self, Vec<u8>), SaslFailure> {
        let (context, token) = ticket::begin(name).map_err(failed)?;
        let mut client = Self {
            context,
            stage: Stage::Context,
        };
        client.complete()?;
        Ok((client, token.map_or_else(Vec::new, |token| token.to_vec())))
    }

    /// Handles the server's next token. Blocks.
    pub(in crate::wire) fn step(&mut self, token: &[u8]) -> Result<Step, SaslFailure> {
        match self.stage {
            // A server sends no token if it does not support SASL, or admits clients whose
            // authentication has failed.
            Stage::Context | Stage::Layers if token.is_empty() => {
                Err(SaslFailure::Unauthenticated(Unauthenticated::Client))
            }
            Stage::Context => {
                let response = self.context.step(Some(token), None).map_err(failed)?;
                self.complete()?;
                Ok(Step::Respond(
                    response.map_or_else(Vec::new, |response| response.to_vec()),
                ))
            }
            Stage::Layers => {
                let offered = self.context.unwrap(token).map_err(failed)?;
                let &[layers, _, _, _] = &*offered else {
                    return Err(SaslFailure::Failed(
                        "the offer of security layers does not have 4 bytes".to_owned(),
                    ));
                };
                if layers & NO_LAYER == 0 {
                    return Err(SaslFailure::Failed(
                        "the server requires a security layer".to_owned(),
                    ));
                }
                let choice = self
                    .context
                    .wrap(false, &[NO_LAYER, 0, 0, 0])
                    .map_err(failed)?;
                self.stage = Stage::End;
                Ok(Step::Respond(choice.to_vec()))
            }
            Stage::End if token.is_empty() => Ok(Step::Done),
            Stage::End => Err(SaslFailure::Failed(
                "the server has sent a token after the last one".to_owned(),
            )),
        }
    }

    /// Continues with the security layers if the context is complete. By then, the server must be
    /// authenticated too.
    fn complete(&mut self) -> Result<(), SaslFailure> {
        if self.context.is_complete() {
            if !self
                .context
                .flags()
                .map_err(failed)?
                .contains(CtxFlags::GSS_C_MUTUAL_FLAG)
            {
                return Err(SaslFailure::Unauthenticated(Unauthenticated::Server));
            }
            self.stage = Stage::Layers;
        }
        Ok(())
    }
}

fn failed(error: Error) -> SaslFailure {
    SaslFailure::Failed(error.to_string())
}
