//! What the servers of every world do alike: they claim the next epoch, die, and are cloned.
//!
//! What they do between is each model's own. Invariant: servers are sorted in every state that was explored, so equal ones
//! are neighbours, and only the first of them need do anything.

/// The parts of a state that are about its servers.
pub(super) struct Members<'a, S> {
    pub(super) servers: &'a mut [S],
    /// How many epochs were claimed.
    pub(super) claims: &'a mut u8,
    /// How many times a server was cloned.
    pub(super) clones: &'a mut u8,
}

/// A state with servers in it.
pub(super) trait Crew: Clone {
    /// A server's memory.
    type Server: Copy + PartialEq;
    /// A server that does not run.
    const DOWN: Self::Server;

    /// Returns the parts of the state that are about its servers.
    fn members(&mut self) -> Members<'_, Self::Server>;

    /// A fresh process becomes the claimant of the next epoch, if there may be another.
    fn with_claimant(&self, at: usize, claimant: Self::Server, may_be_more: bool) -> Option<Self> {
        may_be_more.then(|| {
            let mut after = self.clone();
            let members = after.members();
            members.servers[at] = claimant;
            *members.claims += 1;
            after
        })
    }

    /// A server dies, or learns that it is fenced: its memory is gone.
    fn without(&self, at: usize) -> Self {
        let mut after = self.clone();
        after.members().servers[at] = Self::DOWN;
        after
    }

    /// A running server becomes two with one memory, if there may be another clone and there is a place for it.
    fn with_twin(&self, at: usize, may_be_more: bool) -> Option<Self> {
        if !may_be_more {
            return None;
        }
        let mut after = self.clone();
        let members = after.members();
        let free = members.servers.iter().position(|server| *server == Self::DOWN)?;
        members.servers[free] = members.servers[at];
        *members.clones += 1;
        Some(after)
    }
}

/// Returns the servers that can do different things, with their places.
pub(super) fn different<S: Copy + PartialEq>(servers: &[S]) -> impl Iterator<Item = (usize, S)> + '_ {
    let all = servers.iter().copied().enumerate();
    all.filter(|(at, server)| *at == 0 || *server != servers[at - 1])
}
