//! Which methods are tried for a frame, and in which order.
//!
//! ```text
//!                  ┌─ no module, no row, bad table ─► next method
//! frame ─► method ─┤
//!                  └─ a rule ─► applied ─┬─ caller, or outermost frame
//!                                        └─ bad CFA, unreadable stack ─► end, or next method
//! ```
//!
//! This is how the kernel combines methods: for each frame anew, and it gives a walk up when
//! a rule was found and cannot be applied.

use crate::Method;

/// What happens when a method had a rule, and the rule could not be applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// The walk ends, as the kernel's does.
    #[default]
    End,
    /// The next method is tried.
    NextMethod,
}

/// An ordered list of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    methods: [Option<Method>; Method::ALL.len()],
    /// What a rule that cannot be applied means.
    pub on_failure: OnFailure,
    /// SFrame rules that need another register than the stack and the frame pointer are for
    /// the topmost frame; elsewhere, and for signal trampolines, the next method is tried: the
    /// kernel has no other registers, and its series knows no signal frames.
    pub kernel_registers: bool,
}

impl Policy {
    /// Tries `methods` in this order. One that comes again is left out.
    pub const fn new(methods: &[Method]) -> Policy {
        let mut list = [None; Method::ALL.len()];
        let (mut seen, mut len, mut i) = (0u8, 0, 0);
        while i < methods.len() {
            let bit = 1 << methods[i] as u8;
            if seen & bit == 0 {
                list[len] = Some(methods[i]);
                len += 1;
            }
            seen |= bit;
            i += 1;
        }
        Policy { methods: list, on_failure: OnFailure::End, kernel_registers: false }
    }

    /// Frame records alone.
    pub const fn frame_pointer() -> Policy {
        Policy::new(&[Method::FramePointer])
    }

    /// Call-frame information alone.
    pub const fn dwarf() -> Policy {
        Policy::new(&[Method::Dwarf])
    }

    /// SFrame alone.
    pub const fn sframe() -> Policy {
        Policy::new(&[Method::Sframe])
    }

    /// Linux 7.3: frame records.
    pub const fn kernel() -> Policy {
        Policy::new(&[Method::UnwindUser])
    }

    /// The series that is proposed for Linux: SFrame, then frame records.
    pub const fn kernel_sframe() -> Policy {
        let mut policy = Policy::new(&[Method::Sframe, Method::UnwindUser]);
        policy.kernel_registers = true;
        policy
    }

    /// Whatever gets furthest: SFrame, call-frame information, the code of signal
    /// trampolines, frame records.
    pub const fn best() -> Policy {
        Policy::new(&[Method::Sframe, Method::Dwarf, Method::SignalCode, Method::FramePointer])
    }

    /// The first method.
    #[inline]
    pub(crate) const fn first(&self) -> Option<Method> {
        self.methods[0]
    }

    /// Whether there is one method at most.
    #[inline]
    pub(crate) const fn is_single(&self) -> bool {
        self.methods[1].is_none()
    }

    /// The methods, in the order in which they are tried.
    #[inline]
    pub fn methods(&self) -> impl Iterator<Item = Method> + use<> {
        self.methods.into_iter().map_while(|method| method)
    }
}

impl From<Method> for Policy {
    fn from(method: Method) -> Policy {
        Policy::new(&[method])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_come_once_and_in_order() {
        use Method::{Dwarf, FramePointer, Sframe};
        let policy = Policy::new(&[Sframe, Dwarf, Sframe, FramePointer, Dwarf, Sframe]);
        assert_eq!(policy.methods().collect::<Vec<_>>(), [Sframe, Dwarf, FramePointer]);
        assert_eq!(Policy::new(&[]).methods().count(), 0);
        assert_eq!(Policy::from(Sframe), Policy::sframe());
        assert_eq!(Policy::new(&Method::ALL).methods().count(), Method::ALL.len());
    }
}
