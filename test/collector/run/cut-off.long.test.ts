import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { readNight } from '../../../src/archive/journal/empty-responses.ts';
import type { Silences } from '../../../src/collector/proof/shown.ts';
import { withState } from '../../harness/with-state.ts';
import { at, dayMs, fewFiles, hourMs } from './nights.ts';
import { contextOf, scriptedLake } from './one-process.ts';
import type { TicksBody } from './scripted-service.ts';

// Nights that are cut off or that ask for few symbols, between whole ones.

const names = ['ONE', 'TWO', 'SIX', 'TEN', 'RARE', 'SELDOM'];
const always = [...fewFiles, 'poll.recheck_share=0', 'upstream.retry_attempts_max=1'];

/** A service of which some symbols have a tick every few days. */
async function startSilent() {
  const lake = await scriptedLake(at(0), names, always);
  const { box, output } = lake;
  const { truth } = box;
  box.truth = (symbol, from, to) =>
    truth(symbol, from, to).filter(
      ({ t }) =>
        names.indexOf(symbol) < 4 || (Math.floor(t / dayMs) % (symbol === 'RARE' ? 3 : 5) === 0 && t % dayMs < hourMs),
    );
  box.script.ticks = (honest) => {
    box.nowMs += 20;
    return honest;
  };
  return {
    box,
    contextAt: lake.contextAt,
    readSilences: () => withState(output, (db) => readNight<Silences>(db, null)!.silences),
    /** A night of one symbol. */
    async nightOf(symbol: string, nowMs: number) {
      box.nowMs = nowMs;
      const set = [...always, 'source.views=[]', `symbols=["${symbol}"]`];
      return nightly.run(await contextOf(output, box.url, () => box.nowMs, set), { day: null });
    },
  };
}

const lengthsOf = (silences: Silences): number[] =>
  Object.values(silences).map((one) => (one?.to ?? 0) - (one?.from ?? 0));

test.each<[string, (response: ServerResponse) => void]>([
  ['fails', (response) => void response.destroy()],
  ['is stopped', (response) => void response.writeHead(401).end()],
])('a night that %s, or that asks for few symbols, forgets no silence that a whole one showed', async (_, fail) => {
  const { box, contextAt, readSilences, nightOf } = await startSilent();
  const night = async (n: number) => nightly.run(await contextAt(at(n)), { day: null });
  // SELDOM has no tick between the first night and the sixth one, whose answers show no long silence before their end.
  for (const n of [0, 1, 2, 3, 4]) await night(n);
  const whole = readSilences();
  for (const ms of lengthsOf(whole)) expect(ms).toBeGreaterThanOrEqual(dayMs);
  const script = box.script.ticks!;
  let left = 3;
  box.script.ticks = (...given) => (left-- > 0 ? script(...given) : fail);
  expect((await night(5)).exit_code).not.toBe(0);
  expect(readSilences()).toEqual(whole);
  box.script.ticks = script;
  expect(await nightOf('ONE', at(5) + hourMs)).toMatchObject({ exit_code: 0, symbols: { done: 1 } });
  expect(readSilences()).toEqual(whole);
  // A server that now answers a day of each request does not show them again.
  box.script.ticks = (honest, request, ...rest) => {
    const { ticks, ...answer } = script(honest, request, ...rest) as TicksBody;
    const kept = ticks.filter(({ t }) => t < request.from + dayMs);
    return { ...answer, ticks: kept, count: kept.length };
  };
  expect((await night(6)).exit_code).toBe(0);
  const [bridge] = lengthsOf(readSilences());
  expect(bridge).toBeLessThan(dayMs);
});
