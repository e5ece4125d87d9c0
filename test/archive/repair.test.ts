import { cpSync, existsSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { dayPath } from '../../src/archive/layout.ts';
import { repair } from '../../src/archive/repair.ts';
import { verify } from '../../src/archive/verify.ts';
import { partOf } from '../../src/core/part.ts';
import { segmentsOf } from '../../src/state/coverage.ts';
import { lostWindows } from '../../src/state/lost.ts';
import { rowGroupsOf } from '../../src/state/row-groups.ts';
import { oneSymbol } from '../../src/state/symbols.ts';
import { answer, append, clockAt, day0, dayMs, hashes, now, opened, publishedRows, publishedTicks, publishNow, scratchFolder } from './scratch.ts';

const groupRows = 100;
const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE'];
const ticksOf = (symbol: string, day: number, n = 150) =>
  Array.from({ length: n }, (_, i) => [day + i * 300_000 + symbol.charCodeAt(0), (i % 97) / 100] as const);

async function filled(root: string): Promise<Archive> {
  const archive = opened({ root, parts: 1, groupRows });
  for (const day of [day0, day0 + dayMs])
    for (const symbol of symbols)
      append(archive, answer(symbol, ticksOf(symbol, day), { windows: [{ from: day, to: day + dayMs }] }));
  await publishNow(archive);
  return archive;
}
export const repairNow = (archive: Archive) =>
  repair(archive, { clock: clockAt(now + 5), waitMs: 0, named: null, rules: { lingerMs: 7 * dayMs, settleMs: 3_600_000 } });

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 4;
  writeFileSync(path, bytes);
}

test('a flipped bit costs one row group', async () => {
  const root = scratchFolder();
  const archive = await filled(root);
  const path = dayPath('ticks', day0, 0);
  const file = archive.manifest().datasets.ticks.files.find((f) => f.path === path)!;
  const record = rowGroupsOf(archive.state.db, path, file.sha256)!;
  console.log(record.groups, record.footer.length);
  const before = publishedTicks(root);
  flip(join(root, path), record.groups[2]!.start + 5);
  const repaired = await repairNow(archive);
  console.log(JSON.stringify(repaired, null, 1));
  expect((await verify(archive, null)).findings).toEqual([]);
  console.log(before.length, publishedTicks(root).length, lostWindows(archive.state.db), segmentsOf(archive.state.db, 'BBB'), oneSymbol(archive.state.db, 'BBB')!.ticks);
});
