import { cpSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { job as importing } from '../../../jobs/import.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { encodeRawPiece, readRawFile } from '../../../src/archive/raw/raw-file.ts';
import { UsageError } from '../../../src/base/errors.ts';
import { intersect, union, type Window } from '../../../src/base/window.ts';
import { type OpenTransport, openTransport } from '../../../src/client/transport.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { flagsOf, importInto } from '../../e2e/import-lake.ts';
import { coverageOf, dayRows, hashes, ticksOf, totalTicks } from '../../e2e/lake.ts';
import { dayMs, firstNight, startNights } from './nights.ts';
import { briefly, calmNights, polled, rawFiles, rawOf } from './raw-nights.ts';

/** A transport that changes the last byte of every tick page, so that it cannot be decoded. */
const garbling: OpenTransport = (options, clock) => {
  const wire = openTransport(options, clock);
  return {
    ...wire,
    async get(path, ...args) {
      const response = await wire.get(path, ...args);
      return isTicks(path) ? { ...response, bytes: garbled(response.bytes) } : response;
    },
  };
};

const isTicks = (path: string): boolean => path.startsWith('/api/v1/ticks?');
/** Applied twice, it restores the original. */
const garbled = (bytes: Uint8Array): Buffer => Buffer.from(bytes.with(-1, bytes.at(-1)! ^ 1));

/** Corrects the stored raw responses. */
async function mend(path: string): Promise<void> {
  const out: Uint8Array[] = [];
  for await (const piece of readRawFile(readFileSync(path), 1 << 28)) {
    if (piece.kind !== 'pages') throw new Error(`${path} is ${piece.kind}`);
    const pages = piece.pages.map((page) =>
      page.asked.route === 'ticks' ? { ...page, body: garbled(page.body) } : page,
    );
    out.push(...(await encodeRawPiece(pages)));
  }
  writeFileSync(path, Buffer.concat(out));
}

/** Covered windows of a symbol, without fetch times. */
/** What the first night covered of a symbol. */
const spans = (output: string, symbol: string): Window[] =>
  intersect(union(coverageOf(output).filter((row) => row.symbol === symbol)), [{ from: 0, to: firstNight }]);

test('rebuilds the same archive from raw responses, and changes nothing when repeated', async () => {
  const nights = await calmNights(2, { cap: 30, lateShare: 0.1, reviseShare: 0.1 });
  expect(rawFiles(nights.output).length).toBe(2);
  const again = scratchFolder();
  const summary = await importInto(again, [rawOf(nights.output)], {}, ['source.name=box']);
  expect(summary).toMatchObject({ exit_code: 0, warnings: [], failures: [], ticks: { quarantined: 0 } });
  expect(polled(again)).toEqual(polled(nights.output));
  const before = {
    ...polled(nights.output),
    candles: hashes(nights.output, 'candles_1h'),
  };
  const own = await nights.contextAt(firstNight + dayMs + 60_000);
  const known = await importing.run(own, flagsOf(rawFiles(nights.output)));
  expect(known).toMatchObject({ exit_code: 0, warnings: [], ticks: { accepted: 0 } });
  expect({
    ...polled(nights.output),
    candles: hashes(nights.output, 'candles_1h'),
  }).toEqual(before);
  // Only the requested dataset.
  const lists = scratchFolder();
  expect((await importInto(lists, [rawOf(nights.output)], { datasets: ['markets'] })).ticks.fetched).toBe(0);
  expect(hashes(lists, 'markets')).toEqual(hashes(nights.output, 'markets'));
  expect(coverageOf(lists)).toEqual([]);
});

test('imports raw responses that an earlier version could not decode', async () => {
  const options = { seed: 4, markets: 6, ticksPerDay: 100 };
  const [hit, spared] = [await startNights(options), await startNights(options)];
  const context = await hit.contextAt(firstNight, briefly, 'upstream.retry_attempts_max=2');
  const night = await nightly.run({ ...context, openWire: garbling }, { day: null });
  expect(night).toMatchObject({ exit_code: 4, ticks: { fetched: 0 } });
  expect(totalTicks(hit.output)).toBe(0);
  expect((await spared.night(firstNight, briefly)).exit_code).toBe(0);
  for (const path of rawFiles(hit.output)) await mend(path);
  const mended = await importing.run(await hit.contextAt(firstNight + 1000), flagsOf([rawOf(hit.output)]));
  expect(mended).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(dayRows(hit.output, 'ticks')).toEqual(dayRows(spared.output, 'ticks'));
  const symbols = new Set(coverageOf(hit.output).map(({ symbol }) => symbol));
  expect(symbols.size).toBeGreaterThan(3);
  // Each window was requested once: what lies between its ticks is proven, and its ends are not.
  const ticks = ticksOf(hit.output);
  const confirmed = coverageOf(hit.output).filter(({ evidence }) => evidence !== 'inferred');
  expect(confirmed.length).toBeGreaterThan(0);
  for (const { symbol, from, to, evidence } of confirmed) {
    const times = ticks.get(symbol)!.map(({ t }) => t);
    expect([evidence, times[0]! <= from, to <= times.at(-1)! + 1]).toEqual(['confirmed', true, true]);
  }
  for (const nights of [hit, spared])
    expect(await nights.night(firstNight + dayMs, briefly)).toMatchObject({ exit_code: 0 });
  expect(dayRows(hit.output, 'ticks')).toEqual(dayRows(spared.output, 'ticks'));
  // A symbol that has ended is polled in one of them only, if its end is proven in the other.
  for (const symbol of symbols) expect(spans(hit.output, symbol)).toEqual(spans(spared.output, symbol));
});

test('imports intact frames of damaged files, reports the others, and ignores foreign files', async () => {
  const nights = await calmNights(2, {});
  const files = scratchFolder();
  for (const path of rawFiles(nights.output)) cpSync(path, join(files, basename(path)));
  const [first, second] = rawFiles(nights.output).map((path) => join(files, basename(path)));
  const bytes = readFileSync(first!);
  truncateSync(second!, readFileSync(second!).length - 7);
  // Damage in the middle: everything after the next frame is readable.
  const middle = bytes.length >> 1;
  writeFileSync(first!, bytes.with(middle, bytes[middle]! ^ 1));
  writeFileSync(join(files, 'x-000.raw'), 'rubbish');
  writeFileSync(join(files, 'y-000.raw'), '');
  const output = scratchFolder();
  const summary = await importInto(output, [files]);
  expect(summary.exit_code).toBe(4);
  expect(summary.failures.map(({ reason }) => reason.replace(/^.*\//, ''))).toEqual([
    expect.stringMatching(/^\S+-000\.raw: \d+ bytes are damaged; the rest was imported$/),
    'x-000.raw: contains no responses from the service',
  ]);
  expect(summary.warnings[0]).toMatch(/ends within a response: its last \d+ bytes were ignored\.$/);
  expect(totalTicks(output)).toBeGreaterThan(0);
  const lengthOf = (archive: string): number =>
    polled(archive)
      .coverage.flatMap(([, windows]) => windows)
      .reduce((sum, { from, to }) => sum + to - from, 0);
  expect(lengthOf(output)).toBeLessThan(lengthOf(nights.output));
  // A file without readable frames writes nothing.
  const empty = scratchFolder();
  writeFileSync(join(files, 'rubbish.bin'), 'rubbish');
  const rubbish = await importInto(empty, [join(files, 'rubbish.bin')], { format: 'raw' });
  expect(rubbish).toMatchObject({ exit_code: 4, generation: 0, ticks: { fetched: 0 } });
  await expect(importInto(empty, [join(files, 'rubbish.bin')])).rejects.toThrow(UsageError);
  await expect(importInto(empty, [rawOf(nights.output)], { preferred: true })).rejects.toThrow(
    /--prefer does not apply to raw/,
  );
  const covers = { from: firstNight, to: firstNight + dayMs };
  await expect(importInto(empty, [rawOf(nights.output)], { covers })).rejects.toThrow(/--covers applies to row files/);
});

test('raw.keep_days removes expired days, and 0 keeps none', async () => {
  const nights = await calmNights(1, {});
  expect(rawFiles(nights.output).length).toBe(1);
  await nights.night(firstNight + 3 * dayMs, 'raw.keep_days=3');
  expect(rawFiles(nights.output).length).toBe(2);
  await nights.night(firstNight + 4 * dayMs, 'raw.keep_days=3');
  expect(rawFiles(nights.output).map((path) => path.slice(rawOf(nights.output).length + 1).slice(0, 10))).toEqual([
    '2025-06-04',
    '2025-06-05',
  ]);
  await nights.night(firstNight + 5 * dayMs, 'raw.keep_days=0');
  expect(existsSync(rawOf(nights.output))).toBe(false);
});

test('a run that cannot write raw responses warns and continues', async () => {
  const nights = await startNights({ markets: 6, ticksPerDay: 100 });
  const context = await nights.contextAt(firstNight);
  const isRaw = (path: string): boolean => path.includes('/.oddslake/raw');
  const makeVolatileFolder = (path: string): void => {
    if (isRaw(path)) throw Object.assign(new Error('no room'), { code: 'ENOSPC' });
    systemDisk.makeVolatileFolder(path);
  };
  const disk = { ...systemDisk, makeVolatileFolder };
  const summary = await nightly.run({ ...context, disk }, { day: null });
  expect(summary).toMatchObject({ exit_code: 0, failures: [] });
  expect(summary.warnings).toEqual([expect.stringMatching(/^Raw responses could not be saved.*no room/)]);
  expect(totalTicks(nights.output)).toBeGreaterThan(50);
  rmSync(rawOf(nights.output), { recursive: true, force: true });
});

test('no raw response contains the API key', async () => {
  const nights = await calmNights(1, {});
  let pages = 0;
  for (const path of rawFiles(nights.output)) {
    for await (const piece of readRawFile(readFileSync(path), 1 << 28)) {
      expect(JSON.stringify(piece)).not.toContain('sandbox-key');
      if (piece.kind === 'pages') pages += piece.pages.length;
    }
  }
  expect(pages).toBeGreaterThan(10);
});

test('raw.bytes_max limits the raw responses and removes the oldest first', async () => {
  const nights = await calmNights(2, {});
  const before = rawFiles(nights.output);
  const bytesMax = before.reduce((sum, path) => sum + readFileSync(path).length, 0) + 10;
  await nights.night(firstNight + dayMs + 60_000, `raw.bytes_max=${bytesMax}`, 'raw.keep_days=30');
  const left = rawFiles(nights.output);
  expect(left.reduce((sum, path) => sum + readFileSync(path).length, 0)).toBeLessThanOrEqual(bytesMax);
  expect(left).not.toContain(before[0]);
  expect(left.length).toBeGreaterThan(0);
});

test('reports undecodable raw responses and imports the others', async () => {
  const faults = ['bad-json', 'html', 'wrong-symbol'] as const;
  const nights = await calmNights(1, { faultShare: 0.3, faults });
  const again = scratchFolder();
  const summary = await importInto(again, rawFiles(nights.output), {}, ['source.name=box']);
  expect(summary).toMatchObject({ exit_code: 0, failures: [] });
  expect(summary.warnings.join('\n')).toMatch(
    /\d+ responses? w.* rejected: cannot be decoded: (broken JSON|ticks of another)/,
  );
  expect(polled(again)).toEqual(polled(nights.output));
});
