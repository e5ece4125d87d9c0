import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { access, folder, sandbox } from './lake.ts';
import { run } from './run-program.ts';

describe('a missing default archive is not created silently by', () => {
  const window = ['--from', '2026-01-01', '--to', '2026-01-02'];

  test.each([
    ['nightly'],
    ['nightly', '--date', '2026-01-01'],
    ['markets'],
    ['ticks'],
    ['orderbook'],
    ['ticks', '--symbol', 'A'],
    ['backfill', ...window],
    ['backfill', ...window, '--dry-run'],
    ['publish'],
    ['schedule'],
  ])('%s', async (...args) => {
    const cwd = folder();
    const box = await sandbox();
    const result = await run([...args, '--json'], access(box.url), cwd);
    expect(result.code, result.stderr).toBe(2);
    expect(result.stderr).toMatch(/There is no archive at .*output\/archive\. .*oddslake init/);
    expect(readdirSync(cwd)).toEqual([]);
    expect(box.stats().requests).toBe(0);
  });

  test('a job whose config names no output', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'lake.yaml'), 'poll:\n  page_limit: 100\n');
    const result = await run(['nightly', '--config', 'lake.yaml', '--json'], access('http://127.0.0.1:9'), cwd);
    expect(result.code).toBe(2);
    expect(result.summary.error).toContain('There is no archive at');
    expect(readdirSync(cwd)).toEqual(['lake.yaml']);
  });
});
