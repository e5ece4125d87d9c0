//! Where the time goes: nanoseconds of both threads by stage, for the budget of a tick.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[derive(Clone, Copy)]
pub enum Stage {
    Read,
    Decode,
    Merge,
    Encode,
    Write,
}

const NAMES: [&str; 5] = ["read", "decode", "merge", "encode", "write"];
static NANOSECONDS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

pub fn timed<T>(stage: Stage, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    NANOSECONDS[stage as usize].fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

/// E.g. `{"read": 12, "decode": 34, …}`
pub fn json() -> String {
    let stages = NAMES.iter().zip(&NANOSECONDS);
    let fields: Vec<String> = stages.map(|(name, ns)| format!("\"{name}\": {}", ns.load(Ordering::Relaxed))).collect();
    format!("{{{}}}", fields.join(", "))
}
