//! Cookies: `{ cpu + 1, count }`, the count odd and going up by two on each CPU.
//!
//! ```text
//! G1  id.cpu ≠ 0: it is the cookie        G4  won: counter = cnt
//! G2  cnt = (counter + 2) | 1             G5  id.cpu = this CPU + 1
//! G3  id.cnt: 0 → cnt, if still 0         G6  the cookie
//! ```
//!
//! An NMI between any two does no harm: whoever wins G3 says what the count is.

use crate::kernel::{Kernel, Point, State};

/// The id's half that names the CPU, plus one.
const fn cpu(id: u64) -> u32 {
    id as u32
}

/// The id's half that counts.
const fn count(id: u64) -> u32 {
    (id >> 32) as u32
}

/// The next count after `counter`.
pub const fn next(counter: u32) -> u32 {
    counter.wrapping_add(2) | 1
}

/// `get_cookie` of the current task, with interrupts off.
pub async fn get(k: &Kernel) -> u64 {
    let id = k.step(Point::CookieG1, |s| s.task.unwind.id).await;
    if cpu(id) != 0 {
        return id;
    }
    let cnt = k.step(Point::CookieG2, |s| next(s.cpu.unwind_ctx_ctr)).await;
    let won = k.step(Point::CookieG3, |s| claim(s, cnt)).await;
    if won {
        k.step(Point::CookieG4, |s| s.cpu.unwind_ctx_ctr = cnt).await;
    }
    k.step(Point::CookieG5, |s| {
        let id = s.task.unwind.id >> 32 << 32 | u64::from(s.cpu.id + 1);
        s.task.unwind.id = id;
        id
    })
    .await
}

fn claim(s: &mut State, cnt: u32) -> bool {
    let free = count(s.task.unwind.id) == 0;
    if free {
        s.task.unwind.id |= u64::from(cnt) << 32;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_odd_and_wrap_past_zero() {
        assert_eq!([next(0), next(3), next(5)], [3, 5, 7]);
        assert_eq!([next(u32::MAX), next(1)], [1, 3]);
    }
}
