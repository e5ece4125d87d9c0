import { expect } from 'vitest';
import { type Ended, type Running, start } from '../e2e/lake.ts';
import { type Contents, readContents, runVerify } from './archive-faults.ts';
import { hangMs, hookedJob, startHooked } from './hooked.ts';
import { type Base, expectExit, type Flow, flows, type Place } from './kill-flows.ts';
import { findErrors, publishRest, type RaceBase } from './race-base.ts';
import type { Generation, Reader } from './race-readers.ts';
import type { Draw } from './seeds.ts';

// Building blocks of races: concurrent starts, readers, and the expected end state.

export const flowOf = (name: string): Flow => flows.find((flow) => flow.name === name)!;
export const flow = (base: Base, ...args: [string, ...string[]]): Flow => ({
  name: `${args[0]}, ${base}`,
  base,
  args: ({ archive }) => hookedJob(args[0], archive, ...args.slice(1)),
});

/** Milliseconds that a process waits before each file call, so that processes interleave. */
const pauses = [0, 1, 3];

/** `draw`: each process pauses before its calls for the drawn time. */
export const startAll = (
  { box }: RaceBase,
  place: Place,
  of: readonly Flow[],
  flags: readonly string[] = [],
  draw?: Draw,
) =>
  of.map((one) => startHooked([...one.args(place), ...flags], box.url, { CALL_PAUSE: String(draw?.one(pauses) ?? 0) }));

export async function allDone(of: readonly Running[], codes: readonly number[] = [0]): Promise<Ended[]> {
  const ended = await Promise.all(of.map((one) => one.ended));
  for (const one of ended) expectExit(one, codes);
  return ended;
}

/** The end state after all processes: everything collected is published once, and nothing else exists. */
export async function expectSettled(base: RaceBase, place: Place, of: readonly Flow[]): Promise<void> {
  await publishRest(base, place);
  expect(await runVerify(place.archive)).toEqual([]);
  expect(findErrors(base, place, of[0]!.base)).toEqual([]);
  expect(contentsIn(readContents(place.archive))).toEqual(contentsIn((await base.calm(of)).outcome));
}

const contentsIn = ({ rows, ticks, days }: Contents): Omit<Contents, 'files'> => ({ rows, ticks, days });

/** Starts readers at once; their results are checked when all have ended. */
export function startReaders(place: Place, of: readonly Reader[], known: readonly Generation[] | null) {
  const running = of.map((reader, i) => ({
    reader,
    id: String(i),
    ended: start(reader.args(place, String(i)), {}, undefined, hangMs).ended,
  }));
  return async (): Promise<number[]> => {
    const generations: number[] = [];
    for (const { reader, id, ended } of running) {
      expectExit(await ended, reader.isRun === true ? [0, 5] : [0]);
      if ((await ended).code === 5) {
        expect((await ended).stderr).toMatch(stateHeld);
        continue;
      }
      const { generation, faults } = reader.judge(await ended, place, id, known);
      expect(faults, reader.name).toEqual([]);
      if (generation !== null) generations.push(generation);
    }
    return generations;
  };
}

/** A number of distinct values. */
export function drawDistinct<T>(draw: Draw, of: readonly T[], n: number): T[] {
  const left = [...of];
  return Array.from({ length: n }, () => left.splice(draw.below(left.length), 1)[0]!);
}

/** A writer that was stopped during its commit holds the state itself, and no other can begin a run. */
export const stateHeld = /Another process kept .* locked for too long/;

export const lockBusy = /^Another run is still writing this archive after .* s/;
