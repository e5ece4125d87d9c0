import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import { flip, repairNow } from './damaged.ts';
import { answer, append, day0, dayMs, hourMs, opened, publishNow, scratchFolder } from './scratch.ts';

// The state is damaged and the published files are intact.

const symbols = ['AAA', 'BBB', 'CCC'];

async function createFilledArchive(root: string): Promise<Archive> {
  const archive = opened({ root, parts: 1 });
  for (const symbol of symbols)
    append(
      archive,
      answer(symbol, [[day0 + hourMs, 0.5]], { windows: [{ from: day0 - hourMs, to: day0 + dayMs + 7 }] }),
    );
  await publishNow(archive);
  append(archive, answer('BBB', [[day0 + 3 * dayMs, 0.5]], { origin: 'import', rank: 0 }));
  await publishNow(archive);
  return archive;
}

const stateOf = async (archive: Archive): Promise<string | null> => (await verifyArchive(archive, null)).state;

function removeState({ layout }: Archive): void {
  for (const end of ['', '-wal', '-shm']) rmSync(`${toStateFilePath(layout.privateFolder)}${end}`, { force: true });
}

test.each([
  ['the end of a window', "update coverage set t_to = t_to - 8192 where symbol = 'BBB' and origin = 'poll'", 'BBB'],
  ['the start of a window', "update coverage set t_from = t_from + 64 where symbol = 'CCC'", 'CCC'],
  ['a symbol', "update coverage set symbol = 'CCB' where symbol = 'CCC'", 'CC[BC]'],
  ['a missing window', "delete from coverage where symbol = 'AAA'", 'AAA'],
])('verify detects %s that differs from the published files, and its advice repairs it', async (_, damage, symbol) => {
  const root = scratchFolder();
  const archive = await createFilledArchive(root);
  expect(await stateOf(archive)).toBeNull();
  archive.state.db.script(damage);
  expect(await stateOf(archive)).toMatch(
    new RegExp(
      `state\\.sqlite and the published files differ in the coverage of ${symbol}\\. .* move .*state\\.sqlite away`,
    ),
  );
  archive.close();
  removeState(archive);
  expect(await stateOf(opened({ root, parts: 1 }))).toBeNull();
});

test('a verification that is stopped while it checks the state reports nothing', async () => {
  const archive = await createFilledArchive(scratchFolder());
  const stop = new AbortController();
  const onProgress = (done: number, total: number): void => {
    if (done === total) stop.abort(new Error('stopped'));
  };
  await expect(verifyArchive(archive, null, onProgress, stop.signal)).rejects.toThrow('stopped');
});

test('verify detects damage in the state file itself', async () => {
  const root = scratchFolder();
  const archive = await createFilledArchive(root);
  archive.state.db.script('pragma wal_checkpoint(truncate)');
  archive.close();
  const path = toStateFilePath(archive.layout.privateFolder);
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf('AAA'); at >= 0; at = bytes.indexOf('AAA', at)) bytes.write('ZZZ', at);
  writeFileSync(path, bytes);
  expect(await stateOf(opened({ root, parts: 1 }))).toMatch(/state\.sqlite is damaged: .+\. Publish the journal/);
});

test('a repair restores a damaged coverage file before it reports damage of the state', async () => {
  const root = scratchFolder();
  const archive = await createFilledArchive(root);
  const path = toDayPath('coverage', day0, 0);
  flip(join(root, path));
  expect(await verifyArchive(archive, null)).toMatchObject({
    findings: [{ path, kind: 'checksum mismatch' }],
    state: null,
  });
  await repairNow(archive);
  expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });

  archive.state.db.script("update coverage set t_to = t_to - 8192 where symbol = 'AAA'");
  writeFileSync(join(root, 'views.sql'), 'mine');
  expect(await repairNow(archive)).toMatchObject({
    repaired: [{ path: 'views.sql', outcome: 'restored' }],
    state: expect.stringContaining('differ in the coverage of AAA'),
  });
  expect(readFileSync(join(root, 'views.sql'), 'utf8')).not.toBe('mine');
});
