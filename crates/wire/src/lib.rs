//! What a client and the owner of a drive say to each other, and by which transport.
//!
//! [`Owner`] is the whole conversation. In one process a client calls the server's own `Owner`, and branches and
//! bytes are shared; over a socket the same calls travel as messages in frames. No rule lives here.

pub mod frame;
pub mod line;
pub mod message;
pub mod owner;
pub mod reclaim;
pub mod review;
pub mod shared;
pub mod transport;

pub use line::{BranchInfo, CheckpointAsk, Created, ForkAsk, IfThere, LineUsage, Usage};
pub use owner::{
    Access, Choice, Chunk, Delegation, DiffAsk, Differences, Done, Error, Hold, Lease, Lent, MergeAsk,
    MergeTold, NOTE, Opened, Owner, Placed, ResolveAsk, RestoreAsk, Room, Salvaged, SealedPack, Shared,
    Shipped, Standing, Standings, Status, Turned, UNSEEN, Unsettled, Verified, Who, identity,
};
pub use reclaim::{Placings, ReclaimAsk, ReclaimTold};
pub use review::{AcceptAsk, MarkAsk, Marked};
pub use transport::{
    Connection, Dial, Dialer, Door, Greeting, Host, HostPort, Limits, Patience, ServerAddress, Servers,
    Service, Stream, Unencrypted, Whereabouts, serve, unix, web,
};
