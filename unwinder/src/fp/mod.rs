//! Unwinding by frame pointer.
//!
//! ```text
//! fp ─► ┌──────────────┐
//!       │ caller's fp  │   frame record, on both architectures
//!       ├──────────────┤   (x86_64: after `push rbp; mov rbp, rsp`;
//!       │ return addr  │    aarch64: AAPCS64, section 6.4.6)
//!       └──────────────┘
//! ```
//!
//! * [`plain`]: what a careful profiler does
//! * [`perf`]: the kernel's walk in the overflow interrupt (`perf_callchain_user`)
//! * [`unwind_user`]: the kernel's walk at the return to user mode (Linux 7.3)
//!
//! The three differ in what they check, and so in what they give for broken chains; the
//! kernel's are modelled with their gaps.

pub mod perf;
pub mod plain;
pub mod unwind_user;
