//! Changes of instances, on whatever task or CPU they are; inheritance, exec, the end.

use std::rc::Rc;

use crate::kernel::State;
use crate::kernel::task::{Place, TaskId};
use crate::perf::abi::flag;
use crate::perf::context::{Context, Instance};
use crate::perf::opened::{Opened, Target, Totals};
use crate::perf::record::Time;

impl State {
    /// Changes the context of a task or CPU, at the time of the CPU that it is on; which of its
    /// events count is settled then, who has a counter, and whether the CPU needs a tick.
    pub fn change_context(&mut self, target: Target, change: impl FnOnce(&mut Context, Time)) {
        let here = self.cpu.clock;
        match target {
            Target::Cpu(id) => {
                let Some(cpu) = self.cpu_mut(id) else { return };
                let now = cpu.clock;
                change(&mut cpu.events, now);
                cpu.events.settle(now, id);
                if cpu.halted {
                    cpu.events.compact();
                }
                self.assign_counters_of(id);
                self.start_tick_of(id);
            }
            Target::Task(id, _) => {
                let id = TaskId(id);
                let Some(place) = self.task_of(id).map(|t| t.place) else { return };
                let now = self.cpu_of(place.cpu()).map_or(here, |cpu| cpu.clock);
                let Some(task) = self.task_mut(id) else { return };
                change(&mut task.events, now);
                match place {
                    Place::Running(cpu) => {
                        task.events.settle(now, cpu);
                        self.assign_counters_of(cpu);
                        self.start_tick_of(cpu);
                    }
                    // It may have been preempted while it took an overflow.
                    Place::Queued(_) => {}
                    Place::Off(_) => task.events.compact_at_rest(),
                }
            }
        }
    }

    /// Instances that are gone leave the contexts of the present task and CPU. The path is the
    /// task's own and takes no overflow: nobody works with a place in them.
    pub fn compact_events(&mut self) {
        self.task.events.compact();
        self.cpu.events.compact();
    }

    /// All contexts that have an instance for which `wanted` holds.
    pub fn contexts_with(&self, wanted: impl Fn(&Instance) -> bool) -> Vec<Target> {
        let any = |context: &Context| context.instances.iter().any(&wanted);
        let tasks = self.tasks().filter(|t| any(&t.events)).map(|t| Target::Task(t.id.0, None));
        let cpus = self.cpus().filter(|c| any(&c.events)).map(|c| Target::Cpu(c.id));
        tasks.chain(cpus).collect()
    }

    /// Whether there is an instance of the event.
    pub fn is_counting(&self, event: &Rc<Opened>) -> bool {
        !self.contexts_with(|i| i.is_of(event)).is_empty()
    }

    /// Changes every instance of an event: its own and those of children that inherited it.
    pub fn each_instance(
        &mut self,
        event: &Rc<Opened>,
        mut change: impl FnMut(&mut Instance, Time),
    ) {
        for target in self.contexts_with(|i| i.is_of(event)) {
            self.change_context(target, |context, now| {
                let own = context.instances.iter_mut().filter(|i| i.is_of(event));
                own.for_each(|instance| change(instance, now));
            });
        }
    }

    /// `perf_event_count` and the times of an event, children included.
    pub fn event_totals(&self, event: &Rc<Opened>) -> Totals {
        let gone = event.own.get().plus(event.children.get());
        let of = |context: &Context, now: Time| {
            let own = context.instances.iter().filter(|i| i.is_of(event));
            own.map(|i| i.totals(now)).fold(Totals::default(), Totals::plus)
        };
        let tasks = self.tasks().map(|t| {
            let now = self.cpu_of(t.place.cpu()).map_or(self.cpu.clock, |cpu| cpu.clock);
            of(&t.events, now)
        });
        let cpus = self.cpus().map(|c| of(&c.events, c.clock));
        tasks.chain(cpus).fold(gone, Totals::plus)
    }

    /// What a child of the present task gets; `is_thread` says what it is.
    pub fn inherited_events(&mut self, is_thread: bool) -> Context {
        let wanted = |opened: &Opened| {
            opened.attr.has(flag::INHERIT) && (is_thread || !opened.attr.has(flag::INHERIT_THREAD))
        };
        let State { task, perf, .. } = self;
        let alone = perf.open_sessions(|session| session.no_inherit);
        let follows = |session| !alone.contains(&session);
        task.events.inherited(follows, wanted, || perf.next_id())
    }

    /// `perf_event_exec`: events that wait for it are on, those that may not see it are gone.
    pub fn exec_events(&mut self) {
        if self.task.events.instances.iter().all(|i| i.opened().is_none()) {
            return;
        }
        let own = Target::Task(self.task.id.0, None);
        let now = self.cpu.clock;
        let mut ended = Vec::new();
        self.change_context(own, |context, _| {
            for instance in &mut context.instances {
                let Some(opened) = instance.opened().cloned() else { continue };
                if opened.attr.has(flag::REMOVE_ON_EXEC) && !instance.switch.gone {
                    ended.push(instance.clone());
                    instance.switch.gone = true;
                }
                instance.switch.on |= std::mem::take(&mut instance.switch.on_exec);
            }
        });
        debug_assert!(now == self.cpu.clock);
        self.add_totals(ended);
    }

    /// Events that no descriptor and no mapping leads to are closed, and rings that nobody maps
    /// take no more records (`perf_release`, `perf_mmap_close`). For what closes or unmaps.
    pub fn release_events(&mut self) {
        if self.perf.opened.is_empty() {
            return;
        }
        for opened in &self.perf.opened {
            let unmapped = opened.ring.borrow().as_ref().is_some_and(|ring| !ring.is_mapped());
            if unmapped {
                opened.mapped.set(false);
                *opened.ring.borrow_mut() = None;
            }
        }
        let (live, dead): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.perf.opened).into_iter().partition(|o| o.is_live());
        self.perf.opened = live;
        for opened in dead {
            let targets = self.contexts_with(|i| i.is_of(&opened));
            self.leave_group(&opened);
            opened.buffers.take();
            for target in targets {
                self.change_context(target, |context, _| {
                    let own = context.instances.iter_mut().filter(|i| i.is_of(&opened));
                    own.for_each(|instance| instance.switch.gone = true);
                });
            }
        }
    }

    /// `perf_group_detach`: the siblings of a leader that ends are alone from now on.
    fn leave_group(&mut self, opened: &Rc<Opened>) {
        for sibling in opened.group().into_iter().skip(1) {
            *sibling.leader.borrow_mut() = None;
        }
        let leader = opened.group_leader();
        leader
            .siblings
            .borrow_mut()
            .retain(|s| s.upgrade().is_some_and(|s| !Rc::ptr_eq(&s, opened)));
    }
}
