/**
 * Measures the historical API on an archive of several million ticks, served by a separate process: full slices in
 * every format with the peak memory of that process, and the latency of pages. bench/serve.ts measures their rates.
 * Run: node bench/historical.ts [MILLIONS]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import type { MarketFacts } from '../src/archive/format/market.ts';
import { unknownDetails } from '../src/archive/format/market-details.ts';
import { precedenceRanks } from '../src/archive/format/precedence.ts';
import { appendMarkets, appendTicks } from '../src/archive/journal/journal.ts';
import { startRun } from '../src/archive/journal/runs.ts';
import { recordMarkets } from '../src/archive/journal/symbol-store.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { publish } from '../src/archive/publish/publish.ts';
import { systemClock } from '../src/base/system.ts';
import { createBenchKey } from './key.ts';
import { startService } from './service.ts';

const millions = Number(process.argv[2] ?? 4);
const root = mkdtempSync(join(tmpdir(), 'oddslake-historical-'));
const dayMs = 86_400_000;
const day0 = Date.UTC(2026, 0, 1);
const [days, symbolCount] = [40, 200];
const perDay = Math.round((millions * 1e6) / days / symbolCount);
const symbols = Array.from({ length: symbolCount }, (_, i) => `KXBENCH-26DEC0204-T${1000 + i}`);

const archive = openArchive(
  { root, create: true, upstream: 'bench', parts: 4, writer: 'bench', settleMs: 0 },
  systemDisk,
);
const { db } = archive.state;
startRun(db, 'bench', 'bench', process.pid, day0);
const rules = { lookbackMs: 0, lingerMs: dayMs, settleMs: 0 };
for (let day = 0; day < days; day++) {
  const from = day0 + day * dayMs;
  const known = symbols.map(
    (symbol): MarketFacts => ({
      ...unknownDetails,
      canonicalId: `id ${symbol}`,
      symbol,
      source: 'venue',
      views: ['matched'],
      category: 'crypto',
      confidence: 1,
      isActive: true,
      question: `Will ${symbol} happen?`,
      opensAt: null,
      closesAt: null,
      resolvedAt: null,
      outcome: null,
      extra: null,
    }),
  );
  appendMarkets(archive.state, { runId: 'bench', observedAt: from, markets: known }, []);
  recordMarkets(db, known, from, true);
  const responses = symbols.map((symbol, s) => ({
    runId: 'bench',
    symbol,
    requestedWindow: { from, to: from + dayMs },
    observedAt: from + dayMs,
    origin: 'poll' as const,
    rank: precedenceRanks.poll,
    rejected: [],
    ticks: {
      t: Float64Array.from({ length: perDay }, (_, i) => from + Math.floor((i * dayMs) / perDay) + s),
      p: Float64Array.from({ length: perDay }, (_, i) => ((i * 7 + s) % 100) / 100),
    },
    covered: [
      { from, to: from + dayMs, fetchedAt: from + dayMs, origin: 'poll' as const, evidence: 'confirmed' as const },
    ],
  }));
  appendTicks(archive.state, responses);
  if (day % 5 === 4 || day === days - 1)
    await publish(archive, {
      runId: 'bench',
      clock: systemClock,
      waitMs: 0,
      namedSymbols: null,
      views: [],
      lifetimeRules: rules,
      candles: ['1h', '1d'],
    });
}
const key = await createBenchKey(archive.layout.root);
archive.close();

const service = await startService(root);
const { url, residentMiB, stop } = service;
const headers = { authorization: `Bearer ${key}` };

const count = (n: number): string => Math.round(n).toLocaleString('en-US');
console.log(`${count(days * symbolCount * perDay)} ticks; the idle service: ${residentMiB().toFixed(0)} MiB`);
for (const [path, format] of [
  ...(['parquet', 'arrow', 'csv', 'ndjson'] as const).map((format) => ['ticks', format] as const),
  ['candles?interval=5m', 'parquet'] as const,
]) {
  for (const share of [0.25, 1]) {
    const to = day0 + share * days * dayMs;
    const startedAt = performance.now();
    const more = path.includes('?') ? '&' : '?';
    const response = await fetch(`${url}/api/v1/historical/${path}${more}format=${format}&to=${to}`, { headers });
    const firstMs = performance.now() - startedAt;
    let bytes = 0;
    let peak = 0;
    for await (const piece of response.body!) {
      bytes += piece.length;
      peak = Math.max(peak, residentMiB());
    }
    const seconds = (performance.now() - startedAt) / 1000;
    const rows = share * days * symbolCount * perDay;
    console.log(
      `${path} ${format}, ${count(rows)} ticks read: ${(bytes / 1e6).toFixed(0)} MB in ${seconds.toFixed(1)} s (first byte ${firstMs.toFixed(0)} ms), peak ${peak.toFixed(0)} MiB`,
    );
  }
}
const symbol = symbols[77]!;
for (const path of [
  `ticks?symbol=${symbol}&limit=1000`,
  `ticks?symbol=${symbol}&from=${day0 + 20 * dayMs}&to=${day0 + 21 * dayMs}`,
  `candles?interval=1h&symbol=${symbol}`,
  `candles?interval=1d&symbol=${symbol}`,
  `candles?interval=15m&symbol=${symbol}&limit=500`,
  `coverage?symbol=${symbol}`,
  'ticks?limit=1000',
  'candles?interval=1h&limit=1000',
  `markets?symbol=${symbol}`,
  'markets?limit=100',
  'markets?q=t1077',
]) {
  const times: number[] = [];
  for (let i = 0; i < 15; i++) {
    const startedAt = performance.now();
    const response = await fetch(`${url}/api/v1/historical/${path}`, { headers });
    const { count: rows } = (await response.json()) as { count: number };
    if (response.status !== 200 || rows === 0) throw new Error(`${path}: ${response.status}, ${rows} rows`);
    times.push(performance.now() - startedAt);
  }
  const [first] = times;
  times.sort((a, b) => a - b);
  console.log(`${path}: p50 ${times[7]!.toFixed(1)} ms, the first ${first!.toFixed(1)} ms`);
}

await stop();
rmSync(root, { recursive: true, force: true });
