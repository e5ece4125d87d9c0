import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { tableFromIPC } from 'apache-arrow';
import { expect, test } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { decodeArrowTable } from '../../src/archive/parquet/rows.ts';
import {
  compressChunks,
  encodeColumnar,
  inferExportFormat,
  openDraft,
  requireFileIntact,
  requireWritableTarget,
  writeFileAtomically,
} from '../../src/archive/read/export-file.ts';
import { pinGeneration } from '../../src/archive/read/pin-generation.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from './scratch.ts';

const usage = (sentence: RegExp) => expect.objectContaining({ exitCode: 2, message: expect.stringMatching(sentence) });

test.each([
  ['a.parquet', 'parquet', 'none'],
  ['a.csv', 'csv', 'none'],
  ['a.CSV', 'csv', 'none'],
  ['/x.csv/a.ndjson', 'ndjson', 'none'],
  ['a.jsonl', 'ndjson', 'none'],
  ['a.b.arrow', 'arrow', 'none'],
  ['a.feather', 'arrow', 'none'],
  ['a.csv.gz', 'csv', 'gzip'],
  ['a.NDJSON.ZST', 'ndjson', 'zstd'],
] as const)('the name %s tells the format %s and the compression %s', (name, format, compression) => {
  expect(inferExportFormat(name)).toEqual({ format, compression });
});

test('a given format keeps the compression of the name, and what is compressed inside is not compressed again', () => {
  expect(inferExportFormat('a.gz', 'csv')).toEqual({ format: 'csv', compression: 'gzip' });
  expect(inferExportFormat('a.txt', 'parquet')).toEqual({ format: 'parquet', compression: 'none' });
  expect(() => inferExportFormat('a.parquet.gz')).toThrow(usage(/parquet is compressed inside\. Leave out \.gz/));
  expect(() => inferExportFormat('a.zst', 'arrow')).toThrow(usage(/arrow is compressed inside/));
});

test.each([
  ['gzip', gunzipSync],
  ['zstd', zstdDecompressSync],
] as const)('%s has the bytes of the file, and an error of its source', async (compression, decompress) => {
  const read = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> => {
    const all: Uint8Array[] = [];
    for await (const chunk of chunks) all.push(chunk);
    return Buffer.concat(all);
  };
  const compressed = await read(compressChunks(pieces('one', 'two'), compression));
  expect(decompress(compressed).toString()).toBe('onetwo');
  expect(await read(compressChunks(pieces('one', 'two'), compression))).toEqual(compressed);
  expect(decompress(await read(compressChunks(pieces(), compression))).length).toBe(0);
  await expect(read(compressChunks(pieces('one', new Error('torn')), compression))).rejects.toThrow('torn');
  // A reader that stops early ends the source.
  let isEnded = false;
  async function* endless() {
    try {
      for (;;) yield randomBytes(1 << 20);
    } finally {
      isEnded = true;
    }
  }
  for await (const _ of compressChunks(endless(), compression)) break;
  expect(isEnded).toBe(true);
});

test.each(['a', 'a.txt', 'parquet', 'a.txt.gz', 'a.csv/b'])('the name %s tells no format', (name) => {
  expect(() => inferExportFormat(name)).toThrow(
    usage(/has none of the known extensions \(\.parquet .*--format parquet\|/),
  );
});

test('an export goes to a new file or replaces one, wherever a link leads', () => {
  const [root, folder] = [scratchFolder(), scratchFolder()];
  writeFileSync(join(folder, 'there.csv'), 'old');
  symlinkSync(join(folder, 'there.csv'), join(folder, 'link.csv'));
  expect(requireWritableTarget(systemDisk, root, join(folder, 'new.csv'))).toBe(join(folder, 'new.csv'));
  expect(requireWritableTarget(systemDisk, root, join(folder, 'there.csv'))).toBe(join(folder, 'there.csv'));
  expect(requireWritableTarget(systemDisk, root, join(folder, 'link.csv'))).toBe(join(folder, 'there.csv'));
  // What only begins like the archive's name is not in it.
  expect(requireWritableTarget(systemDisk, root, `${root}.csv`)).toBe(`${root}.csv`);
});

test('an export into the archive, in the place of a folder, and below a file is refused', () => {
  const [root, folder] = [scratchFolder(), scratchFolder()];
  symlinkSync(root, join(folder, 'inside'));
  const reported = (path: string) => () => requireWritableTarget(systemDisk, root, path);
  expect(reported(join(root, 'a.csv'))).toThrow(usage(/is inside the archive/));
  expect(reported(root)).toThrow(usage(/is inside the archive/));
  expect(reported(join(folder, 'inside/a.csv'))).toThrow(usage(/is inside the archive/));
  expect(reported(folder)).toThrow(usage(/exists and is not a regular file/));
  writeFileSync(join(folder, 'file'), '');
  expect(reported(join(folder, 'file/none/a.csv'))).toThrow(usage(/file is not a folder/));
  expect(requireWritableTarget(systemDisk, root, join(folder, 'none/new/a.csv'))).toBe(join(folder, 'none/new/a.csv'));
  expect(existsSync(join(folder, 'none'))).toBe(false);
});

const pieces = async function* (...texts: (string | Error)[]) {
  for (const text of texts) {
    if (text instanceof Error) throw text;
    yield Buffer.from(text);
  }
};

test('a file is there only when it is whole, and then in the place of the one before', async () => {
  const target = join(scratchFolder(), 'a.csv');
  const seen: (string | null)[] = [];
  async function* watched() {
    for await (const piece of pieces('one', 'two')) {
      seen.push(existsSync(target) ? readFileSync(target, 'utf8') : null);
      yield piece;
    }
  }
  const hash = createHash('sha256').update('onetwo').digest('hex');
  expect(await writeFileAtomically(systemDisk, target, 'x', watched())).toEqual({ bytes: 6, sha256: hash });
  expect(readFileSync(target, 'utf8')).toBe('onetwo');
  await writeFileAtomically(systemDisk, target, 'x', watched());
  expect(seen).toEqual([null, null, 'onetwo', 'onetwo']);
  expect(readdirSync(dirname(target))).toEqual(['a.csv']);
});

test('a file that could not be written to its end leaves the one before, and nothing else', async () => {
  const target = join(scratchFolder(), 'a.csv');
  writeFileSync(target, 'old');
  await expect(writeFileAtomically(systemDisk, target, 'x', pieces('half', new Error('cut')))).rejects.toThrow('cut');
  expect(readdirSync(dirname(target))).toEqual(['a.csv']);
  expect(readFileSync(target, 'utf8')).toBe('old');
});

test('drafts of killed processes are cleared, those of others and other files stay', async () => {
  const folder = scratchFolder();
  const target = join(folder, 'a.csv');
  const gone = 2 ** 31 - 2;
  const mine = openDraft(target, 'other');
  const names = [`.a.csv.oddslake-${gone}-x`, `.b.csv.oddslake-${gone}-x`, `.a.csv.oddslake-`, 'a.csv.oddslake-1'];
  for (const name of names) writeFileSync(join(folder, name), '');
  writeFileSync(mine, '');
  await writeFileAtomically(systemDisk, target, 'x', pieces('new'));
  expect(readdirSync(folder).sort()).toEqual([...names.slice(1), mine.slice(folder.length + 1), 'a.csv'].sort());
});

test('a file is durable when it is written: its bytes, then its name', async () => {
  const target = join(scratchFolder(), 'a.csv');
  const done: string[] = [];
  const rename = (from: string, to: string): void => {
    done.push('rename');
    systemDisk.rename(from, to);
  };
  const syncFolder = (path: string): void => void done.push(`sync ${path}`);
  await writeFileAtomically({ ...systemDisk, rename, syncFolder }, target, 'x', pieces('new'));
  expect(done).toEqual(['rename', `sync ${dirname(target)}`]);
});

test('a pinned file that is not as it was published is damage', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  const pinned = pinGeneration(archive, ['ticks'], 'a');
  const [file] = archive.readManifest().datasets.ticks.files;
  requireFileIntact(archive.disk, pinned, file!);
  writeFileSync(join(pinned.root, file!.path), Buffer.alloc(file!.bytes));
  expect(() => requireFileIntact(archive.disk, pinned, file!)).toThrow(expect.objectContaining({ exitCode: 6 }));
});

test('rows come in the format that was requested, ticks and others', async () => {
  async function* chunks() {
    yield [
      ['AAA', 'AAA'],
      [day0, day0 + 7],
      [0.5, 0.25],
    ];
  }
  const { columns } = datasets.ticks;
  const whole = async (format: 'parquet' | 'arrow' | 'arrow_stream'): Promise<Buffer> => {
    const all: Uint8Array[] = [];
    for await (const piece of encodeColumnar('ticks', columns, chunks(), format)) all.push(piece);
    return Buffer.concat(all);
  };
  const [parquet, file, stream] = [await whole('parquet'), await whole('arrow'), await whole('arrow_stream')];
  expect(decodeArrowTable(parquet).numRows).toBe(2);
  for (const bytes of [file, stream]) expect(tableFromIPC(bytes).toArray().map(String)).toHaveLength(2);
  const begins = (bytes: Buffer): string => bytes.subarray(0, 6).toString('latin1');
  expect([begins(file) === 'ARROW1', begins(stream) === 'ARROW1']).toEqual([true, false]);
});
