//! What happens: tree, content, operations and branches, without I/O, clock or randomness.
