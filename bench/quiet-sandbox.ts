/**
 * A simulated service of many idle symbols: all are listed and active, and their last ticks are more than a day old, so
 * that every night is like the next. Run: node bench/quiet-sandbox.ts SYMBOLS SEED
 */

import { createRandom } from '../src/base/random.ts';
import { systemClock } from '../src/base/system.ts';
import { dayMs, floorToDay } from '../src/base/window.ts';
import { createRecordedFeed, type Recording } from '../src/sandbox/recorded-feed.ts';
import { startSandbox } from '../src/sandbox/sandbox.ts';

const ticksPerSymbol = 5;
const daysWithTicks = 2;

function quietRecording(count: number, seed: number, end: number): Recording {
  const random = createRandom(seed);
  const symbols = Array.from({ length: count }, (_, i) => `KXQUIET-26-T${i}`);
  const t = new Float64Array(count * ticksPerSymbol);
  const p = new Float64Array(t.length);
  const stepMs = Math.floor((daysWithTicks * dayMs) / ticksPerSymbol);
  for (let i = 0; i < t.length; i++) {
    t[i] = end - (ticksPerSymbol - (i % ticksPerSymbol)) * stepMs + Math.floor(random() * stepMs);
    p[i] = (1 + Math.floor(random() * 99)) / 100;
  }
  const offsets = symbols.map((_, i) => i * ticksPerSymbol).concat(t.length);
  const markets = symbols.map((symbol) => ({ symbol, question: `Will ${symbol} stay quiet?`, category: 'quiet' }));
  return { symbols, offsets, t, p, markets };
}

const [symbols, seed] = process.argv.slice(2).map(Number);
// Midnight two days ago or earlier: the overlap lies after the last tick at any time of day.
const end = floorToDay(systemClock.nowMs()) - dayMs;
const feed = createRecordedFeed(quietRecording(symbols!, seed!, end), { shift: 'own', nowMs: systemClock.nowMs() });
const key = 'sandbox-key';
const sandbox = await startSandbox({ key }, { clock: systemClock, feed });
console.log(JSON.stringify({ url: sandbox.url, key }));
process.once('SIGTERM', () => void sandbox.stop());
