import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { coverageOf, manifestOf, ticksOf } from '../../e2e/lake.ts';
import { at, dayMs, fewFiles, hourMs } from './nights.ts';
import { scriptedLake } from './one-process.ts';
import type { Requested, Tick } from './scripted-service.ts';

// Services as there are many: nobody has to look at an archive of one.

const minuteMs = 60_000;
const names = Array.from({ length: 28 }, (_, i) => `M${i}`);
const count = Number(process.env.NIGHTS ?? 9);

/** Ticks at irregular times: of every fourth symbol every ten minutes or so, of others each hour, each seven hours, now and then. */
function ticksOfSymbol(symbol: string, from: number, to: number): Tick[] {
  const nth = names.indexOf(symbol);
  const step = [10 * minuteMs, hourMs, 7 * hourMs, 31 * hourMs][nth % 4]! + nth * 37_003;
  const ticks: Tick[] = [];
  for (let i = Math.floor(from / step) - 1; i * step < to; i++) {
    const t = i * step + ((Math.imul(i + nth, 0x9e3779b1) >>> 0) % step);
    if (from <= t && t < to) ticks.push({ t, p: (t % 97) / 100 });
  }
  return ticks;
}

type Answer = (request: Requested, nowMs: number) => { ticks: readonly Tick[]; from?: number; to?: number };

const answer = ({ symbol, from, to, limit }: Requested, nowMs: number): Tick[] =>
  ticksOfSymbol(symbol, from, Math.min(to, nowMs)).slice(0, limit);

const services: Readonly<Record<string, Answer>> = {
  'states its cuts after 90 rows': (request, nowMs) => {
    const all = answer(request, nowMs);
    const ticks = all.slice(0, 90);
    return { ticks, from: request.from, to: ticks.length < all.length ? ticks.at(-1)!.t + 1 : request.to };
  },
  'rounds to seconds': ({ from, to, ...rest }, nowMs) => ({
    ticks: answer({ ...rest, from: Math.floor(from / 1000) * 1000, to: Math.floor(to / 1000) * 1000 }, nowMs),
  }),
  'has two hours at once, and each day six hours after it': (request, nowMs) => ({
    ticks: answer(request, nowMs).filter(
      ({ t }) => t >= nowMs - 2 * hourMs || Math.floor(t / dayMs) * dayMs + 30 * hourMs <= nowMs,
    ),
  }),
  'keeps seven days': (request, nowMs) => ({
    ticks: answer({ ...request, from: Math.max(request.from, nowMs - 7 * dayMs) }, nowMs),
  }),
  'sends at most four kilobytes': (request, nowMs) => ({ ticks: answer(request, nowMs).slice(0, 110) }),
};

test.each(Object.entries(services))(
  'a service that %s: each night ends with exit code 0, and after the first one without a warning',
  async (_, reply) => {
    const { box, output, contextAt } = await scriptedLake(at(0), names, [...fewFiles]);
    box.script = {
      ticks(_honest, request) {
        box.nowMs += 7;
        const { ticks, ...rest } = reply(request, box.nowMs);
        return { symbol: request.symbol, ticks, count: ticks.length, generated_at: box.nowMs, ...rest };
      },
    };
    for (let n = 0; n < count; n++) {
      const summary = await nightly.run(await contextAt(at(n)), { day: null });
      expect(summary, `night ${n}`).toMatchObject({ exit_code: 0, failures: [] });
      if (n === 0) continue;
      expect(summary.warnings, `night ${n}`).toEqual([]);
      expect(
        summary.findings.filter(({ severity }) => severity !== 'info'),
        `night ${n}`,
      ).toEqual([]);
    }
    // Most days of the nights are proven, and nothing is missing where anything is.
    const { days } = manifestOf(output);
    const old = Array.from({ length: count - 4 }, (_, n) => days[new Date(at(n)).toISOString().slice(0, 10)]!.state);
    console.info(`${old.filter((state) => state === 'complete').length} of ${old.length} days complete`);
    expect(old.filter((state) => state === 'complete').length, old.join()).toBeGreaterThan(0.9 * old.length);
    const held = ticksOf(output);
    for (const { symbol, from, to, evidence } of coverageOf(output)) {
      if (evidence === 'inferred') continue;
      const times = new Set(held.get(symbol)?.map(({ t }) => t));
      expect(
        ticksOfSymbol(symbol, from, to).filter(({ t }) => !times.has(t)),
        `${symbol} ${from}`,
      ).toEqual([]);
    }
  },
);
