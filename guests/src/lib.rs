//! The guests: small programs for the emulator to run and to profile.
//!
//! Each guest is a static Linux program, prebuilt for x86_64 and aarch64 in
//! `guests/bin/ARCH/NAME`. `guests/catalogue.toml` says what each one shows and
//! what it does: its output and its exit code, for one or more command lines.
//! `guests/MANIFEST.toml`, written by `guests/build.sh`, records how each file
//! was made and its hash.
//!
//! ```no_run
//! use guests::Catalogue;
//!
//! let catalogue = Catalogue::load(&guests::default_dir())?;
//! let guest = catalogue.find("demo").expect("the demo is always there");
//! for run in guest.runs("aarch64") {
//!     println!("{} {:?}", catalogue.path(guest, "aarch64").display(), run.args);
//!     println!("exits {} after writing {:?}", run.exit, run.stdout);
//! }
//! # Ok::<(), guests::CatalogueError>(())
//! ```
#![warn(missing_docs)]

mod catalogue;
mod expect;
mod locate;
mod manifest;

pub use catalogue::{Case, Catalogue, CatalogueError, Guest, Libc, Link, Override, Run};
pub use expect::{Expectation, Expectations, Fault, METHODS, Offsets, Place};
pub use locate::{CATALOGUE_FILE, candidates, choose, default_dir};
pub use manifest::{Binary, Library, MANIFEST_FILE, Manifest, Tool};

/// The architectures guests are built for, as the catalogue and the
/// directories below `bin/` name them.
pub const ARCHES: [&str; 2] = ["x86_64", "aarch64"];
