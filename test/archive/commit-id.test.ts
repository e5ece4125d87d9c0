import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { getMeta, manifestHashKey } from '../../src/archive/journal/database.ts';
import { readCommitState, readOpenIntent } from '../../src/archive/journal/intent.ts';
import { recoverPublish } from '../../src/archive/publish/publish.ts';
import { systemClock } from '../../src/base/system.ts';
import { repairNow } from './damaged.ts';
import { answer, append, day0, opened, publishedTicks, publishNow, scratchFolder } from './scratch.ts';

const idOf = ({ layout }: Archive): string =>
  (JSON.parse(readFileSync(layout.manifestPath, 'utf8')) as { commit_id: string }).commit_id;

test('each commit has an ID of its own, a repair that puts bytes back included', async () => {
  const archive = opened();
  const seen = new Set<string>();
  const look = (): void => {
    const id = idOf(archive);
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(readCommitState(archive.state.db).commitId).toBe(id);
    seen.add(id);
  };
  for (const t of [day0, day0 + 1]) {
    append(archive, answer('AAA', [[t, 0.1]]));
    await publishNow(archive);
    look();
  }
  rmSync(join(archive.layout.root, 'SHA256SUMS'));
  expect((await repairNow(archive)).generation).toBe(2);
  look();
  expect(seen.size).toBe(3);
});

test('an interrupted commit is finished from the text that the state has', async () => {
  const root = scratchFolder();
  const archive = opened({ root });
  append(archive, answer('AAA', [[day0, 0.1]]));
  const rename = (from: string, to: string): void => {
    if (to.endsWith('manifest.json')) throw new Error('killed');
    archive.disk.rename(from, to);
  };
  await expect(publishNow({ ...archive, disk: { ...archive.disk, rename } })).rejects.toThrow('killed');
  const { db } = archive.state;
  const text = readOpenIntent(db)!.manifest;
  expect(sha256(Buffer.from(text))).toEqual(getMeta(db, manifestHashKey));
  archive.close();
  const again = opened({ root });
  await recoverPublish(again, 0, systemClock);
  expect(readFileSync(join(root, 'manifest.json'), 'utf8')).toBe(text);
  expect([readOpenIntent(again.state.db), publishedTicks(root).length]).toEqual([undefined, 1]);
});

test('a rebuilt state goes on from the last commit', async () => {
  const root = scratchFolder();
  const first = opened({ root });
  append(first, answer('AAA', [[day0, 0.1]]));
  await publishNow(first);
  first.close();
  rmSync(join(root, '.oddslake'), { recursive: true });
  const again = opened({ root });
  expect(readCommitState(again.state.db)).toEqual({ generation: 1, commitId: idOf(again) });
});
