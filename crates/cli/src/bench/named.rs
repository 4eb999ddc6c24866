//! The file system's calls with errors that name what they were about: a bench meets many paths, and its errors come from any of them.

use std::fs::{self, File, Metadata, Permissions, ReadDir};
use std::io::{self, Error};
use std::path::Path;

/// Adds the path to an error.
fn named<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))
}

macro_rules! calls {
    ($($name:ident: $call:path => $answer:ty;)*) => {
        $(pub(crate) fn $name(path: impl AsRef<Path>) -> io::Result<$answer> {
            named(path.as_ref(), $call(path.as_ref()))
        })*
    };
}

calls! {
    create_dir: fs::create_dir => ();
    create_dir_all: fs::create_dir_all => ();
    remove_dir_all: fs::remove_dir_all => ();
    remove_file: fs::remove_file => ();
    read_dir: fs::read_dir => ReadDir;
    read: fs::read => Vec<u8>;
    read_to_string: fs::read_to_string => String;
    metadata: fs::metadata => Metadata;
    open: File::open => File;
    create: File::create => File;
    create_new: File::create_new => File;
}

pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    named(path.as_ref(), fs::write(path.as_ref(), bytes))
}

pub(crate) fn rename(path: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    named(to.as_ref(), fs::rename(path.as_ref(), to.as_ref()))
}

pub(crate) fn copy(path: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    named(to.as_ref(), fs::copy(path.as_ref(), to.as_ref()))
}

pub(crate) fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    named(path.as_ref(), fs::set_permissions(path.as_ref(), permissions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_path_and_is_of_its_kind() {
        let folder = tempfile::tempdir().expect("there is room");
        let at = folder.path().join("twice");
        create_dir(&at).expect("it is free");
        let error = create_dir(&at).expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(
            error.to_string().starts_with(&at.display().to_string()),
            "{error}"
        );
    }
}
