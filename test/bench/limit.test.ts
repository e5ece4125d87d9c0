import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findCrates } from '../../bench/limit.ts';

const folder = join(import.meta.dirname, '..', '..', 'bench', 'limit');
const manifest = readFileSync(join(folder, 'Cargo.toml'), 'utf8');

test('every crate of the limit program has an exact version, which its lockfile has too', () => {
  const lock = readFileSync(join(folder, 'Cargo.lock'), 'utf8');
  const dependencies = manifest.slice(manifest.indexOf('[dependencies]'), manifest.indexOf('[profile')).trim();
  const crates = dependencies.split('\n').slice(1);
  expect(crates.length).toBeGreaterThan(3);
  for (const crate of crates) {
    const [, name, version] = /^([\w-]+) = .*?"=(\d+\.\d+\.\d+)"/.exec(crate) ?? [];
    expect(lock, crate).toContain(`name = "${name}"\nversion = "${version}"\n`);
  }
});

test('its version names the crates that do the work', () => {
  expect(findCrates(manifest)).toMatch(/^sonic-rs \d+\.\d+\.\d+, parquet \d+\.\d+\.\d+$/);
  expect(findCrates('')).toBe('sonic-rs unknown, parquet unknown');
});

test('Git ignores its build', () => {
  expect(readFileSync(join(folder, '..', '..', '.gitignore'), 'utf8').split('\n')).toContain('bench/limit/target/');
  expect(globSync('src/*.rs', { cwd: folder }).length).toBeGreaterThan(3);
});
