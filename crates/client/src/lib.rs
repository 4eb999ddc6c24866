//! A drive in a program: session, grant, batches and files.
