/**
 * Runs a built-in strategy on an archive once: node bench/backtest-once.ts ARCHIVE NAME THREADS. Prints the same JSON
 * as the peers: milliseconds from opening the archive to the result, ticks, trades and P&L.
 */

import { systemDisk } from '../src/archive/disk/file-system.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { runBacktest } from '../src/backtest/run/run-backtest.ts';
import { builtinStrategies } from '../src/backtest/strategy/builtin-strategies.ts';
import { systemRandom } from '../src/base/system.ts';
import { parseBacktestSpec } from '../src/contract/backtest-request.ts';

const [root, name, threads] = process.argv.slice(2) as [string, string, string];
const read = parseBacktestSpec({ entry_executable: { name }, objective: 'total_pnl' });
const executable = builtinStrategies.find((one) => one.name === name);
if ('faults' in read || executable === undefined) throw new Error(`unknown strategy ${name}`);
const begun = performance.now();
const options = { root, create: false, upstream: null, parts: 1, writer: 'oddslake bench', settleMs: 0 };
const archive = openArchive(options, systemDisk);
const { summary } = await runBacktest(
  archive,
  read.spec,
  { strategy: executable.strategy, version: null },
  { random: systemRandom, signal: new AbortController().signal, threads: Number(threads), progress() {} },
);
archive.close();
const { ticks, trades, total_pnl } = summary;
console.log(JSON.stringify({ ms: performance.now() - begun, ticks, trades, pnl: total_pnl }));
