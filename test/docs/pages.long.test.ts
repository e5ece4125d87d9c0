import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { needsCommands } from '../harness/needs.ts';
import { pages, typedOn } from './blocks.ts';
import { reasonOf } from './not-run.ts';
import { readerOf, type World, world } from './worlds.ts';

// README.md and every page of docs/ as their readers type them: each line of shell is run, in its order, over a real
// archive and real services, but for those that test/docs/not-run.ts names with a reason.

/** Commands that a machine which only collects may lack: lines that need one are passed over. */
const commands = ['curl', 'python3'];
const lacking = commands.filter((name) => needsCommands(name).skip);

const isRun = (page: string, code: string): boolean =>
  reasonOf(page, code.replaceAll('sudo -u oddslake ', '')) === undefined &&
  !lacking.some((name) => code.includes(name));

const withLines = pages.filter((page) => typedOn(page).some(({ code }) => isRun(page, code)));

describe('what a reader is told to type is typed:', () => {
  let there: World;
  beforeAll(async () => {
    there = await world();
  });
  afterAll(() => there.end());

  test.each(withLines)('%s', async (page) => {
    const reader = await readerOf(page, there);
    for (const { code, line } of typedOn(page)) {
      if (!isRun(page, code)) continue;
      try {
        await reader.type(code);
      } catch (error) {
        // Where somebody is to look.
        throw new Error(`${page}:${line}: ${(error as Error).message}`, { cause: error });
      }
    }
  });

  test('no line is passed over', needsCommands(...commands), () => {
    expect(lacking).toEqual([]);
  });
});
