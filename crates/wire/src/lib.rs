//! What client and server say to each other, and by which transport.
