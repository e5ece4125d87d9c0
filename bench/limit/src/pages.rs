//! Saved responses of GET /api/v1/ticks.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::times::{Stage, timed};

#[derive(Clone, Copy, Deserialize)]
pub struct Tick {
    pub t: i64,
    pub p: f64,
}

pub struct Page {
    pub symbol: String,
    pub ticks: Vec<Tick>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    ticks: Vec<Tick>,
}

/// Every `*.json` below the folder, by path.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    files.sort_unstable();
    files
}

pub fn read(file: &Path) -> Page {
    let bytes = timed(Stage::Read, || fs::read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let response: Response = timed(Stage::Decode, || sonic_rs::from_slice(&bytes))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Page { symbol: response.symbol.into_owned(), ticks: response.ticks }
}
