//! The way to the node that leads, for what only that one may decide.

use core::pin::Pin;

use sotto_log::{Tenure, TokenId};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round};
use sotto_wire::Refused;

use crate::rounds::Place;

/// What becomes of something that was sent on.
pub(crate) type Forwarded<T> = Pin<Box<dyn Future<Output = Result<T, Lost>> + Send>>;

/// Nobody answered, or whoever did leads no longer. It may have been done all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// Sends what people bring to the node that leads.
pub(crate) trait Forward: Send + Sync + 'static {
    /// Deposits, and what is said of each, in their order.
    fn deposits(
        &self,
        leader: u64,
        deposits: Vec<(Account, Round, Deposit, Option<Tenure>)>,
    ) -> Forwarded<Vec<Result<(), Refused>>>;

    /// An account that has proved to hold its key; the slot that it has shown, or is given.
    fn register(
        &self,
        leader: u64,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
    ) -> Forwarded<Result<Option<Tenure>, Refused>>;

    /// An account that is to be closed, and its slot.
    fn close(&self, leader: u64, account: Account, tenure: Option<Tenure>) -> Forwarded<Result<(), Refused>>;

    /// Where people find this node.
    fn place(&self, leader: u64, place: Place) -> Forwarded<()>;
}
