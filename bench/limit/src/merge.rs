//! The ticks of a symbol, from its pages.

use crate::pages::Tick;

/// Ascending times, each once, with the price of its last page.
pub struct Symbol {
    pub name: String,
    pub t: Vec<i64>,
    pub p: Vec<f64>,
}

pub fn merge(name: String, runs: Vec<Vec<Tick>>) -> Symbol {
    let rows = runs.iter().map(Vec::len).sum();
    let mut symbol = Symbol { name, t: Vec::with_capacity(rows), p: Vec::with_capacity(rows) };
    for mut run in runs {
        if !run.is_sorted_by(|a, b| a.t < b.t) {
            sort(&mut run);
        }
        symbol.add(&run);
    }
    symbol
}

/// Stable: the last of equal times stays.
fn sort(run: &mut Vec<Tick>) {
    run.sort_by_key(|tick| tick.t);
    run.reverse();
    run.dedup_by_key(|tick| tick.t);
    run.reverse();
}

impl Symbol {
    fn add(&mut self, run: &[Tick]) {
        let Some(first) = run.first() else { return };
        let start = self.t.partition_point(|&t| t < first.t);
        let (t, p) = (self.t.split_off(start), self.p.split_off(start));
        let mut old = 0;
        let mut new = 0;
        // The overlap with what is there, then the rest of either.
        while old < t.len() && new < run.len() {
            let tick = run[new];
            if t[old] < tick.t {
                self.push(t[old], p[old]);
                old += 1;
                continue;
            }
            old += usize::from(t[old] == tick.t);
            new += 1;
            self.push(tick.t, tick.p);
        }
        self.t.extend_from_slice(&t[old..]);
        self.p.extend_from_slice(&p[old..]);
        self.t.extend(run[new..].iter().map(|tick| tick.t));
        self.p.extend(run[new..].iter().map(|tick| tick.p));
    }

    fn push(&mut self, t: i64, p: f64) {
        self.t.push(t);
        self.p.push(p);
    }
}
