//! Chooses the cells that run on a server.

use curator_test::ServerKind;

use super::cells::Cell;
use super::support::number;

/// How many cells run on a real server by default.
const SIZE: u64 = 100;

/// How many cells run on a server instead of in simulated time; `None` if all run in simulated
/// time. `CURATOR_FAULT_SAMPLE` sets the number; on real servers, the default is [`SIZE`].
pub(crate) fn size() -> Option<usize> {
    let default = if ServerKind::from_environment() == Ok(ServerKind::Real) {
        SIZE
    } else {
        0
    };
    usize::try_from(number("CURATOR_FAULT_SAMPLE", default))
        .ok()
        .filter(|size| *size > 0)
}

/// Chooses this many of the cells at random. Returns them in order.
pub(crate) fn choose(cells: Vec<Cell>, size: usize, seed: u64) -> Vec<Cell> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen = random.choose_multiple(cells, size);
    chosen.sort_unstable();
    chosen
}
