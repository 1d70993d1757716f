//! What people bring, on its way to the node that leads.

use std::time::Duration;

use bytes::Bytes;
use sotto_log::{Tenure, TokenId};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round};
use sotto_wire::Refused;
use tonic::Request;

use super::{Ways, proto};
use crate::forward::{Forward, Forwarded, Lost};
use crate::rounds::Place;

/// A call that was not answered by then is made again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Deposits in one call.
const DEPOSITS: usize = 4096;

/// Sends on over the ways between nodes.
pub(crate) struct Relay(pub(crate) Ways);

impl Forward for Relay {
    fn deposits(
        &self,
        leader: u64,
        deposits: Vec<(Account, Round, Deposit, Option<Tenure>)>,
    ) -> Forwarded<Vec<Result<(), Refused>>> {
        let client = self.0.to(leader);
        Box::pin(async move {
            let mut client = client.ok_or(Lost)?;
            let mut results = Vec::with_capacity(deposits.len());
            for chunk in deposits.chunks(DEPOSITS) {
                let deposits = chunk.iter().map(|(account, round, deposit, tenure)| proto::AccountDeposit {
                    account: Bytes::copy_from_slice(account),
                    round: round.0,
                    deposit: Bytes::copy_from_slice(&deposit.encode()),
                    tenure: tenure.map_or(0, |tenure| tenure.number),
                });
                let mut request = Request::new(proto::DepositsRequest { deposits: deposits.collect() });
                request.set_timeout(PATIENCE);
                let answer = client.deposits(request).await.map_err(|_| Lost)?.into_inner();
                if answer.refused.len() != chunk.len() {
                    return Err(Lost);
                }
                results.extend(answer.refused.iter().map(|word| refused(word).map_or(Ok(()), Err)));
            }
            Ok(results)
        })
    }

    fn register(
        &self,
        leader: u64,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
    ) -> Forwarded<Result<Option<Tenure>, Refused>> {
        let client = self.0.to(leader);
        Box::pin(async move {
            let mut client = client.ok_or(Lost)?;
            let mut request = Request::new(proto::RegisterRequest {
                account: Bytes::copy_from_slice(&account),
                token: token.map_or_else(Bytes::new, |token| Bytes::copy_from_slice(&token)),
                shown: shown.map(|shown| shown.slot),
                tenure: shown.map_or(0, |shown| shown.number),
            });
            request.set_timeout(PATIENCE);
            let answer = client.register(request).await.map_err(|_| Lost)?.into_inner();
            let given = answer.slot.map(|slot| Tenure { slot, number: answer.tenure });
            Ok(refused(&answer.refused).map_or(Ok(given), Err))
        })
    }

    fn close(&self, leader: u64, account: Account, tenure: Option<Tenure>) -> Forwarded<Result<(), Refused>> {
        let client = self.0.to(leader);
        Box::pin(async move {
            let mut client = client.ok_or(Lost)?;
            let mut request = Request::new(proto::CloseRequest {
                account: Bytes::copy_from_slice(&account),
                slot: tenure.map(|tenure| tenure.slot),
                tenure: tenure.map_or(0, |tenure| tenure.number),
            });
            request.set_timeout(PATIENCE);
            let answer = client.close(request).await.map_err(|_| Lost)?.into_inner();
            Ok(refused(&answer.refused).map_or(Ok(()), Err))
        })
    }

    fn place(&self, leader: u64, place: Place) -> Forwarded<()> {
        let client = self.0.to(leader);
        Box::pin(async move {
            let mut client = client.ok_or(Lost)?;
            let mut request = Request::new(proto::PlaceRequest { authority: place.authority });
            request.set_timeout(PATIENCE);
            client.place(request).await.map(|_| ()).map_err(|_| Lost)
        })
    }
}

fn refused(word: &str) -> Option<Refused> {
    (!word.is_empty()).then(|| Refused::from_reason(word).unwrap_or(Refused::Internal))
}
