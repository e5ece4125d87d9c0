//! A map over a list by two threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 2;
/// Items that a thread takes at once: taking one has a cost, and one at a time ends together.
const BATCH: usize = 8;

/// The results in the order of the items.
pub fn map<A: Send, B: Send>(items: Vec<A>, work: impl Fn(A) -> B + Sync) -> Vec<B> {
    let slots: Vec<Mutex<(Option<A>, Option<B>)>> =
        items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    let batch = BATCH.min(slots.len() / (8 * THREADS)).max(1);
    let next = AtomicUsize::new(0);
    let run = || loop {
        let first = next.fetch_add(batch, Ordering::Relaxed);
        if first >= slots.len() {
            return;
        }
        for slot in &slots[first..slots.len().min(first + batch)] {
            let mut slot = slot.lock().unwrap();
            let item = slot.0.take().unwrap();
            slot.1 = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(run);
        }
        run();
    });
    slots.into_iter().map(|slot| slot.into_inner().unwrap().1.unwrap()).collect()
}
