//! The words of a drive and their bytes: ids, names, attributes, extents, operations, records, refusals and limits.
//!
//! Every other room speaks with these. Nothing here does I/O, reads a clock or decides anything; what a
//! value means is decided in `core`, where it rests in `store` and `journal`.

pub mod acl;
pub mod attr;
pub mod batch;
pub mod codec;
pub mod conflict;
pub mod count;
pub mod difference;
pub mod error;
pub mod extent;
pub mod id;
pub mod limits;
pub mod lock;
pub mod mark;
pub mod name;
pub mod op;
pub mod reclaim;
pub mod record;
pub mod shared;
pub mod time;
pub mod turn;

pub use attr::{Attr, AttrChange, Kind};
pub use batch::{Batch, ChunkPlace};
pub use conflict::{Conflict, ConflictKind, FileOutcome, What};
pub use count::counted;
pub use difference::{Difference, Side};
pub use error::{Failure, Refusal, USE_NEWER};
pub use extent::{Address, Extent, Piece};
pub use id::{BranchId, Digest, Epoch, Ino, InoRange, PackNumber, Seq, SessionId};
pub use lock::{Lock, LockFamily, LockKind, LockOwner, LockRange, Locked};
pub use mark::{Mark, Marking, Staging};
pub use name::{BranchName, CheckpointName, DriveName, Name, Ref, RequestKey, XattrName, shown};
pub use op::{NewNode, Op, RenameMode, XattrMode};
pub use reclaim::{PackObject, Reclaimed};
pub use record::Record;
pub use shared::{Act, ActId};
pub use time::{Clock, Timestamp};
pub use turn::{Past, Root, Stretch, Turn, Why};
