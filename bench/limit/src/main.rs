//! Converts saved tick pages to day partitions: `limit PAGES_FOLDER OUT_FOLDER [PARTS]`. Prints the nanoseconds of each
//! stage as JSON.
//!
//! The least work that gives the ticks that `oddslake import` publishes, on two threads. It syncs no file, checks no
//! value, and writes no candles, coverage, conflicts, hashes or state.

mod days;
mod merge;
mod pages;
mod parallel;
mod times;

use std::collections::HashMap;
use std::path::Path;

use pages::Page;
use times::{Stage, timed};

const USAGE: &str = "usage: limit PAGES_FOLDER OUT_FOLDER [PARTS]";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (input, out, parts) = match args.as_slice() {
        [input, out] => (input, out, 4),
        [input, out, parts] => (input, out, parts.parse().expect(USAGE)),
        _ => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    };
    let files = pages::list(Path::new(input));
    let pages = parallel::map(files, |file| pages::read(&file));
    let symbols = parallel::map(by_symbol(pages), |(symbol, runs)| timed(Stage::Merge, || merge::merge(symbol, runs)));
    days::write(symbols, Path::new(out), parts);
    println!("{}", times::json());
    // The system frees the memory faster than the allocator.
    std::process::exit(0);
}

/// The pages of each symbol in the order of their paths. The symbols with the most pages come first, so that the
/// threads end together.
fn by_symbol(pages: Vec<Page>) -> Vec<(String, Vec<Vec<pages::Tick>>)> {
    let mut runs: HashMap<String, Vec<Vec<pages::Tick>>> = HashMap::new();
    for page in pages {
        runs.entry(page.symbol).or_default().push(page.ticks);
    }
    let mut symbols: Vec<_> = runs.into_iter().collect();
    symbols.sort_unstable_by_key(|(_, runs)| std::cmp::Reverse(runs.len()));
    symbols
}
