use super::*;
pub fn call(_s: &mut State, _n: Sysno, _a: [u64; 6]) -> Option<SysResult> {
    None
}
pub fn rt_sigreturn(_s: &mut State) -> Outcome {
    Outcome::Keep
}
