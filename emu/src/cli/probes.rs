//! Probes of `-e`: symbols of the guest become addresses.

use crate::cli::output::{Failure, status};
use crate::cli::world::World;
use crate::kernel::State;
use crate::mem::Backing;
use crate::symbols::Functions;

/// Offset of `e_entry` in an ELF file.
const E_ENTRY: usize = 24;
/// `AT_ENTRY`
const AT_ENTRY: u64 = 9;

/// Places the probes of the session in the guest of `world`.
///
/// # Errors
///
/// [`Failure`] for a probe that has no place.
pub fn place(state: &mut State, world: &World) -> Result<(), Failure> {
    let program = state.mm.areas().find(|a| matches!(a.backing, Backing::File { .. }));
    let (file, path) = program.map(|a| state.vfs.identify(a)).unzip();
    let bytes =
        path.zip(file).and_then(|(path, file)| world.images(state).get(&path, &file).bytes());
    let entry = entry_of(&state.task.image.auxv);
    let find = |name: &str| {
        let bytes = bytes.as_ref()?;
        let linked = bytes.get(E_ENTRY..E_ENTRY + 8)?.try_into().ok().map(u64::from_le_bytes)?;
        let addr = *Functions::read(bytes).named(name).first()?;
        Some(entry?.wrapping_sub(linked).wrapping_add(addr))
    };
    state.place_probes(find).map_err(|e| Failure::new(status::FAILURE, format!("-e: {e}")))
}

/// Where the program begins, as its auxiliary vector says.
fn entry_of(auxv: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
    let (pairs, _) = auxv.as_chunks::<16>();
    let entry = pairs.iter().find(|pair| word(&pair[..8]) == Some(AT_ENTRY))?;
    word(&entry[8..])
}
