//! The `emu` program: a thin adapter around [`emu::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    emu::cli::main()
}
