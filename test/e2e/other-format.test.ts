import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formatVersion } from '../../src/archive/format/manifest.ts';
import { hashTree } from '../harness/hash-tree.ts';
import { withState } from '../harness/with-state.ts';
import { access, expectDone, folder, jobArgs, sandbox } from './lake.ts';
import { run } from './run-program.ts';

/** Makes a part of an archive one of another format, by the sentence that refuses it. */
const changes: Readonly<Record<string, readonly [change: (output: string) => void, sentence: RegExp]>> = {
  'an archive of an older format': [
    (output) => setFormat(output, 1),
    /has format 1, and this oddslake reads and writes/,
  ],
  'an archive of a newer format': [
    (output) => setFormat(output, formatVersion + 1),
    /has format \d+, and this oddslake reads and writes/,
  ],
  'a state of an older schema': [(output) => setSchema(output, 1), /has schema 1, and this oddslake uses only schema/],
  'a state of a newer schema': [(output) => setSchema(output, 99), /has schema 99, and this oddslake uses only schema/],
  'a state of an older schema without a published generation': [
    (output) => {
      setSchema(output, 1);
      rmSync(join(output, 'manifest.json'));
    },
    /has schema 1, and this oddslake uses only schema/,
  ],
};

function setFormat(output: string, version: number): void {
  const path = join(output, 'manifest.json');
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace(/"format_version": \d+/, `"format_version": ${version}`));
}

const setSchema = (output: string, version: number) =>
  withState(output, (db) => db.run("update meta set value = ? where key = 'schema_version'", String(version)));

test.each(Object.entries(changes))(
  'every command refuses %s and changes nothing of it',
  async (_, [change, sentence]) => {
    const box = await sandbox();
    const env = access(box.url);
    const [output, other] = [folder(), folder()];
    const page = join(other, 'page.json');
    writeFileSync(page, '{}');
    await expectDone(run(jobArgs('nightly', output), env));
    change(output);
    const before = hashTree(output);
    const on = (...args: readonly string[]): string[] => [...args, '--output', output, '--set', 'source.name=box'];
    for (const args of [
      jobArgs('nightly', output),
      on('nightly', '--dry-run'),
      jobArgs('ticks', output),
      on('backfill', '--from', '2025-06-01', '--to', '2025-06-02'),
      on('markets'),
      on('import', page),
      on('publish'),
      on('verify'),
      on('verify', '--repair'),
      on('status'),
      on('gaps'),
      on('symbols'),
      on('sql', 'FROM ticks'),
      on('export', '--out', join(other, 'ticks.parquet')),
      on('snapshot', join(other, 'copy')),
      on('changes', '--since', '0'),
      on('tail', 'A'),
      on('report'),
      on('doctor', '--offline'),
      on('gaps', 'accept', 'A', '--from', '2025-06-01', '--to', '2025-06-02', '--reason', 'known'),
      on('symbols', 'watch', 'A'),
      on('serve', '--set', 'service.port=0'),
      on('keys', 'create', '--name', 'a'),
      on('backtest', 'list'),
    ]) {
      const ended = await run(args, env);
      const printed = args[0] === 'doctor' ? ended.stdout : ended.stderr;
      expect([ended.code, printed], args.join(' ')).toEqual([2, expect.stringMatching(sentence)]);
      const lines = printed
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('{'));
      if (args[0] !== 'doctor') expect(lines, args.join(' ')).toHaveLength(1);
      expect(hashTree(output), args.join(' ')).toEqual(before);
    }
  },
);
