import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { needsCommands } from '../harness/needs.ts';
import { listCommands, pages } from './blocks.ts';
import { findReason } from './not-run.ts';
import { openReader, openWorld, type PageSetup } from './worlds.ts';

// Runs every shell command of README.md and the pages of docs/ in order, on a real archive and real services, except those
// that test/docs/not-run.ts lists with a reason.

/** Programs that may be missing on this machine. Lines that need a missing one are skipped. */
const commands = ['curl', 'python3'];
const missing = commands.filter((name) => needsCommands(name).skip);

const isRun = (page: string, code: string): boolean =>
  findReason(page, code.replaceAll('sudo -u oddslake ', '')) === undefined &&
  !missing.some((name) => code.includes(name));

const withLines = pages.filter((page) => listCommands(page).some(({ code }) => isRun(page, code)));

describe('the commands of a page run:', () => {
  let world: PageSetup;
  beforeAll(async () => {
    world = await openWorld();
  });
  afterAll(() => world.end());

  test.each(withLines)('%s', async (page) => {
    const reader = await openReader(page, world);
    for (const { code, line } of listCommands(page)) {
      if (!isRun(page, code)) continue;
      try {
        await reader.type(code);
      } catch (error) {
        // Adds the page and the line.
        throw new Error(`${page}:${line}: ${(error as Error).message}`, { cause: error });
      }
    }
  });

  test('no line is skipped', needsCommands(...commands), () => {
    expect(missing).toEqual([]);
  });
});
