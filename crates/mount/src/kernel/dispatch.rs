//! From a decoded message to the file system.
//!
//! Handles what is this room's own (forgets, interrupts, messages that make no sense) and hands on the rest. Invariant:
//! no panic of a file system ends the thread that called it; its request gets EIO and `bug` is called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Filesystem;
use super::abi;
use super::activity::Activity;
use super::flags::InitFlags;
use super::interrupt::Interrupts;
use super::kept::Original;
use super::reply::{Line, Reply};
use super::request::{Body, Malformed, Message, Request, decode};

/// What all threads of a mount hand their messages to.
pub(super) struct Dispatch {
    filesystem: Arc<dyn Filesystem>,
    flags: InitFlags,
    panicked: AtomicBool,
    activity: Option<Arc<Activity>>,
}

impl Dispatch {
    pub(super) fn new(
        filesystem: Arc<dyn Filesystem>,
        flags: InitFlags,
        activity: Option<Arc<Activity>>,
    ) -> Dispatch {
        Dispatch {
            filesystem,
            flags,
            panicked: AtomicBool::new(false),
            activity,
        }
    }

    /// Handles one message that came from `line`; `is_lone` is what its [`Request`](super::Request) says.
    pub(super) fn message(
        &self,
        (header, is_lone): (&abi::InHeader, bool),
        body: Body<'_>,
        interrupts: &Interrupts,
        line: impl FnOnce() -> Line,
    ) {
        if let Some(activity) = &self.activity {
            activity.stir();
        }
        match decode(header, body, self.flags) {
            Ok(Message::Request(request)) => {
                let request = Request { is_lone, ..request };
                let reply = Reply::new(request.unique, line());
                let original = Original::new(header, &body, self.flags);
                self.guarded(|| self.filesystem.handle(request, original, reply));
            }
            Ok(Message::Forget { nodeid, lookups }) => {
                self.guarded(|| self.filesystem.forget(nodeid, lookups));
            }
            Ok(Message::BatchForget(forgets)) => self.guarded(|| {
                for forget in forgets {
                    self.filesystem.forget(forget.nodeid, forget.nlookup);
                }
            }),
            Ok(Message::Interrupt { unique }) => {
                if let Some(call) = interrupts.interrupt(unique) {
                    self.guarded(call);
                }
            }
            Ok(Message::NotifyReply) => {}
            Ok(Message::Init(init)) => line().send(init.unique, Some(rustix::io::Errno::IO), &[]),
            Err(Malformed {
                unique,
                opcode,
                errno,
            }) => {
                tracing::warn!(unique, opcode, %errno, "a request of the kernel makes no sense");
                line().send(unique, Some(errno), &[]);
            }
        }
    }

    /// Tells the file system that the kernel's side is gone.
    pub(super) fn ended(&self) {
        self.guarded(|| self.filesystem.ended());
    }

    /// Tells the file system that something failed that should not have.
    pub(super) fn bug(&self) {
        self.guarded(|| self.filesystem.bug());
    }

    fn guarded(&self, call: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            if !self.panicked.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    "the file system's code panicked while it handled a request; the request failed with EIO"
                );
            }
            // `bug` may panic too: that is still no reason to end a thread that others wait for.
            let _ = catch_unwind(AssertUnwindSafe(|| self.filesystem.bug()));
        }
    }
}
