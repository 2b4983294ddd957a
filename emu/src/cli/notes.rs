//! Options that change nothing, as they are given.

use crate::cli::options::{MMAP_PAGES, SamplingOptions};

/// What was asked for and changes nothing, each with what would give it an effect.
pub fn without_effect(options: &SamplingOptions) -> Vec<&'static str> {
    let all = || [options].into_iter().chain(options.sessions.iter().map(|s| &s.sampling));
    let clock = options.deferring.clock.is_some() && options.deferred != "timestamp";
    let rings = all().any(|s| s.mmap_pages != MMAP_PAGES && s.reader_rate.is_none());
    let merge = all().any(|s| s.merge && !s.defers());
    let asked = all().any(SamplingOptions::defers) || !options.deferring.tracers.is_empty();
    let design = !asked && options.deferred != "mask";
    let page = !asked && options.deferring.fail_cache_page.is_some();
    let inherit = all().any(|s| s.no_inherit && (s.all_cpus || s.cpu.is_some()));
    let tables = options.deferring.page_out.is_some_and(|p| p.tables)
        && !all().any(SamplingOptions::uses_sframe);
    let notes = [
        (design, "--deferred: nothing asks for deferred stacks; see --call-graph and --tracer"),
        (
            page,
            "--fail-cache-page: nothing asks for deferred stacks; see --call-graph and --tracer",
        ),
        (inherit, "-i: events of a CPU, as of -a and -C, sample every task there"),
        (clock, "--clock: only the timestamp design names stacks by the clock; see --deferred"),
        (rings, "-m: the rings are read as they fill; see --reader-rate"),
        (merge, "--merge: no callchain is deferred; see --call-graph"),
        (tables, "--page-out tables: only SFrame has tables in user memory; see --call-graph"),
    ];
    notes.into_iter().filter(|(there, _)| *there).map(|(_, note)| note).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::cli::options::CallGraph;
    use crate::cli::session::session;

    #[test]
    fn each_is_told_where_it_changes_nothing() {
        for (words, told) in [
            ("-m 64", "-m: "),
            ("-m 64 --reader-rate 1M", ""),
            ("--merge", "--merge: "),
            ("--merge --call-graph fp,defer", ""),
            ("--merge --call-graph sframe,defer", ""),
            ("-i", ""),
            ("-i -a", "-i: "),
            ("-i -C 0", "-i: "),
        ] {
            let notes = without_effect(&session(words).unwrap().sampling);
            assert!(notes.iter().all(|n| !told.is_empty() && n.starts_with(told)), "{notes:?}");
            assert_eq!(notes.is_empty(), told.is_empty(), "{words}");
        }
        let mut options = session("--call-graph fp").unwrap().sampling.clone();
        options.deferring.clock = Some(crate::cli::deferring::clock("start=5").unwrap());
        options.deferring.page_out = Some(crate::cli::deferring::page_out("tables").unwrap());
        options.deferring.fail_cache_page = Some(1);
        assert_eq!(without_effect(&options).len(), 3);
        options.deferred = "timestamp".to_owned();
        assert_eq!(without_effect(&options).len(), 3);
        options.deferring.tracers = vec![crate::cli::deferring::tracer("ftrace").unwrap()];
        options.call_graph = Some(CallGraph::Sframe);
        assert_eq!(without_effect(&options), [""; 0]);
    }
}
