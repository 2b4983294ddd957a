//! Steps in the usual case: the registers that usual rules need are known, and the rule is at
//! hand. Whatever is not so is left to the careful way, which finds the same.

use std::ops::Deref;

use arch::Arch;

use super::{Frame, Walk};
use crate::brief::{Brief, Called, Known, Quick, Spot};
use crate::cache::Table;
use crate::fp::{plain, unwind_user};
use crate::sframe::View;
use crate::{CodeAddress, End, LookupAddress, Memory, Method, Module, ReturnAddress};

/// How the first method goes from a frame to the next one, if that is quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By what is remembered of a table.
    Cached(Table),
    Dwarf,
    Sframe,
    Record,
    UnwindUser,
    Careful,
}

impl Way {
    #[inline]
    pub const fn new(method: Option<Method>, cached: bool) -> Way {
        match method {
            Some(Method::Dwarf) if cached => Way::Cached(Table::Dwarf),
            Some(Method::Sframe) if cached => Way::Cached(Table::Sframe),
            Some(Method::Dwarf) => Way::Dwarf,
            Some(Method::Sframe) => Way::Sframe,
            Some(Method::FramePointer) => Way::Record,
            Some(Method::UnwindUser) => Way::UnwindUser,
            Some(Method::SignalCode) | None => Way::Careful,
        }
    }
}

/// Executable code, and whose it is.
#[derive(Debug)]
pub(super) struct Near<'a, D> {
    start: u64,
    /// Bytes.
    len: u64,
    module: &'a Module<D>,
    sframe: Option<View<'a>>,
}

/// What is found in the usual case, and by which method.
struct Found(Quick, Method);

/// A way as a type: a closure would not always be inlined, and the step with it.
trait Step {
    /// The caller of a frame.
    fn caller<D: Deref<Target = [u8]>, M: Memory>(
        walk: &mut Walk<'_, D, M>,
        known: &Known,
    ) -> Found;
}

macro_rules! steps {
    ($($name:ident: $walk:ident, $known:ident => $caller:expr;)*) => {$(
        struct $name;

        impl Step for $name {
            #[inline(always)]
            fn caller<D: Deref<Target = [u8]>, M: Memory>(
                $walk: &mut Walk<'_, D, M>,
                $known: &Known,
            ) -> Found {
                $caller
            }
        }
    )*};
}

steps! {
    CachedDwarf: walk, known => walk.cached(Table::Dwarf, known);
    CachedSframe: walk, known => walk.cached(Table::Sframe, known);
    Dwarf: walk, known => walk.dwarf(known);
    Sframe: walk, known => walk.sframe(known);
    Record: walk, known => walk.record(known);
    UserRecord: walk, known => walk.user_record(known);
}

impl<'a, D: Deref<Target = [u8]>, M: Memory> Walk<'a, D, M> {
    /// Gives all frames to `each`, one after the other, and says why there is no further one:
    /// the quickest way to walk a stack.
    // With the whole walk in one function, its first frame does not wait for memory either: what
    // is needed of it never leaves the processor's registers.
    #[inline(always)]
    pub fn visit(&mut self, mut each: impl FnMut(Frame)) -> End {
        if let Some((frame, known)) = self.first() {
            each(frame);
            if let Some(known) = known
                && let Some(end) = self.run_on(known, &mut each)
            {
                return end;
            }
        }
        self.visit_rest(&mut each)
    }

    /// The same from the second frame on, where the quick way is at its end.
    #[inline(always)]
    fn visit_rest(&mut self, each: &mut impl FnMut(Frame)) -> End {
        while let Some(frame) = self.careful() {
            each(frame);
            if let Some(known) = self.known
                && let Some(end) = self.run_on(known, each)
            {
                return end;
            }
        }
        self.end.unwrap_or(End::Limit)
    }

    #[inline(always)]
    fn run_on(&mut self, known: Known, each: &mut impl FnMut(Frame)) -> Option<End> {
        match self.way {
            Way::Cached(Table::Dwarf) => self.run::<CachedDwarf>(known, each),
            Way::Cached(Table::Sframe) => self.run::<CachedSframe>(known, each),
            Way::Dwarf => self.run::<Dwarf>(known, each),
            Way::Sframe => self.run::<Sframe>(known, each),
            Way::Record => self.run::<Record>(known, each),
            Way::UnwindUser => self.run::<UserRecord>(known, each),
            Way::Careful => None,
        }
    }

    /// Gives frames to `each` as long as it is the usual case; the end, if that is one. This has
    /// its state in registers: through memory, each frame would wait for the one before to be
    /// written.
    #[inline(always)]
    fn run<S: Step>(&mut self, known: Known, each: &mut impl FnMut(Frame)) -> Option<End> {
        let mut left = self.left;
        if left == 0 {
            self.known = Some(known);
            return None;
        }
        // The first frame alone may have a link register, and be looked up where it is.
        let Found(mut found, method) = S::caller(self, &known);
        let Quick::Caller(mut called) = found else {
            return self.stop(found, left, known);
        };
        loop {
            left -= 1;
            each(self.frame(&called, method));
            if left == 0 {
                found = Quick::Other;
                break;
            }
            found = S::caller(self, &called.known()).0;
            let Quick::Caller(next) = found else { break };
            called = next;
        }
        self.stop(found, left, called.known())
    }

    /// Keeps where the quick way is at its end; the end of the walk, if that is one.
    #[inline(always)]
    fn stop(&mut self, found: Quick, left: usize, known: Known) -> Option<End> {
        if let Quick::End(end) = found {
            self.close(end);
            return Some(end);
        }
        (self.left, self.known) = (left, Some(known));
        None
    }

    /// The next frame in the usual case: all registers are known, the rule is at hand. In all
    /// other cases nothing is changed, but that the walk may be at its end.
    #[inline(always)]
    pub(super) fn quick(&mut self) -> Option<Frame> {
        let known = self.known?;
        let left = self.left.checked_sub(1)?;
        let Found(found, method) = self.caller(&known);
        match found {
            Quick::Caller(caller) => {
                self.left = left;
                self.known = Some(caller.known());
                Some(self.frame(&caller, method))
            }
            Quick::End(end) => {
                self.close(end);
                None
            }
            Quick::Other => None,
        }
    }

    /// The caller of a frame.
    #[inline(always)]
    fn caller(&mut self, known: &Known) -> Found {
        match self.way {
            Way::Cached(table) => self.cached(table, known),
            Way::Dwarf => self.dwarf(known),
            Way::Sframe => self.sframe(known),
            Way::Record => self.record(known),
            Way::UnwindUser => self.user_record(known),
            Way::Careful => Found(Quick::Other, Method::SignalCode),
        }
    }

    #[inline(always)]
    fn cached(&mut self, table: Table, known: &Known) -> Found {
        let method = if table == Table::Dwarf { Method::Dwarf } else { Method::Sframe };
        let found = match self.context.remembered(self.modules, known.address.lookup(), table) {
            Some(Brief::Usual(rule)) => rule.quick(self.arch, known, &mut self.memory),
            Some(other) => self.end_of(*other, known.address),
            None => Quick::Other,
        };
        Found(found, method)
    }

    #[inline(always)]
    fn dwarf(&mut self, known: &Known) -> Found {
        let at = known.address.lookup();
        let found = match self.near(at).map(|near| near.module.dwarf_brief(at)) {
            Some(Brief::Usual(rule)) => rule.quick(self.arch, known, &mut self.memory),
            Some(other) => self.end_of(other, known.address),
            None => Quick::Other,
        };
        Found(found, Method::Dwarf)
    }

    #[inline(always)]
    fn sframe(&mut self, known: &Known) -> Found {
        let at = known.address.lookup();
        let Some(&Near { module, ref sframe, .. }) = self.near(at) else {
            return Found(Quick::Other, Method::Sframe);
        };
        let pc = at.unbiased(module.bias()).value();
        let found = match sframe.as_ref().and_then(|view| view.rule(pc)) {
            Some(rule) => rule.quick(self.arch, known, &mut self.memory),
            None => self.end_of(module.sframe_other(at), known.address),
        };
        Found(found, Method::Sframe)
    }

    #[inline(always)]
    fn record(&mut self, known: &Known) -> Found {
        let found = plain::quick(self.arch, known, self.alone, &mut self.memory);
        Found(found, Method::FramePointer)
    }

    #[inline(always)]
    fn user_record(&mut self, known: &Known) -> Found {
        Found(unwind_user::quick(self.arch, known, &mut self.memory), Method::UnwindUser)
    }

    #[inline(always)]
    fn frame(&self, called: &Called, method: Method) -> Frame {
        // On aarch64 a frame record may be anywhere in its frame.
        let knows_cfa = self.arch == Arch::X86_64 || method != Method::FramePointer;
        let address = ReturnAddress(called.ra).into();
        Frame { address, cfa: knows_cfa.then_some(called.sp), method: Some(method) }
    }

    /// What an answer that is no rule means, if no other method is there to be asked.
    #[inline]
    fn end_of(&self, answer: Brief, address: CodeAddress) -> Quick {
        match answer {
            Brief::Outermost => Quick::End(End::Undefined),
            Brief::NotCovered if self.alone => Quick::End(End::NoRow(address)),
            Brief::NoModule if self.alone => Quick::End(End::NoModule(address)),
            _ => Quick::Other,
        }
    }

    /// The module of an address, which often is that of the one before.
    #[inline(always)]
    fn near(&mut self, at: LookupAddress) -> Option<&Near<'a, D>> {
        if self.near.as_ref().is_none_or(|near| at.value().wrapping_sub(near.start) >= near.len) {
            let (range, module) = self.modules.find_with_range(at)?;
            let (start, len) = (range.start, range.end - range.start);
            self.near = Some(Near { start, len, module, sframe: module.sframe_view() });
        }
        self.near.as_ref()
    }

    /// Gives what the quick way has found to the careful one.
    pub(super) fn settle(&mut self) {
        let Some(Known { address, sp, fp, .. }) = self.known.take() else { return };
        let steps = self.before - self.left;
        self.start.steps += steps;
        if steps > 0 {
            let sp_known = self.arch == Arch::X86_64 || self.way != Way::Record;
            self.spot = Spot { address, sp: sp_known.then_some(sp), fp: Some(fp), lr: None };
            self.floor = sp;
        }
    }

    /// Takes the quick way from here on, if it is open.
    #[inline]
    pub(super) fn hurry(&mut self) {
        (self.before, self.known) = (self.left, self.known_of(&self.spot, self.floor));
    }

    /// What the quick way begins with, if it is open.
    #[inline(always)]
    pub(super) fn known_of(&self, spot: &Spot, floor: u64) -> Option<Known> {
        let Spot { address, sp, fp, lr } = *spot;
        match (sp, fp) {
            _ if self.way == Way::Careful => None,
            (Some(sp), Some(fp)) => Some(Known { address, sp, fp, lr }),
            // Frame records lead upwards, wherever in the frames they are.
            (None, Some(fp)) if self.way == Way::Record => {
                Some(Known { address, sp: floor, fp, lr })
            }
            _ => None,
        }
    }
}
