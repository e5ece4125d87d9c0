import { expect, test } from 'vitest';
import { changesSince } from '../../src/archive/changes.ts';
import { answer, append, day0, dayMs, hashes, opened, publishNow } from './scratch.ts';

test('changes since a generation are what a copy of it lacks, byte for byte', async () => {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.5]]), answer('AAA', [[day0 + dayMs, 0.5]]));
  await publishNow(archive);
  const before = hashes(archive.layout.root, '*/**/*.parquet');
  append(archive, answer('AAA', [[day0 + dayMs + 1, 0.6]]));
  const { manifest } = await publishNow(archive);
  const after = hashes(archive.layout.root, '*/**/*.parquet');
  const differing = Object.keys(after).filter((path) => after[path] !== before[path]);
  const changed = changesSince(manifest, 1);
  expect(changed.map((file) => file.path).sort()).toEqual(differing.sort());
  expect(changed.map((file) => file.sha256).sort()).toEqual(differing.map((path) => after[path]).sort());
  expect(new Set(changed.map((file) => file.dataset))).toEqual(
    new Set(['ticks', 'candles_1h', 'candles_1d', 'symbols', 'coverage']),
  );
  expect(changesSince(manifest, 2)).toEqual([]);
  expect(changesSince(manifest, 0)).toHaveLength(Object.keys(after).length);
  expect(() => changesSince(manifest, 3)).toThrow(expect.objectContaining({ exitCode: 2 }));
});
