import { describe, expect, test } from 'vitest';
import { answer, append, publishNow } from '../../archive/scratch.ts';
import { builtIn, curious } from './strategies.ts';
import { createArchive, day0, hourMs, run, symbols } from './test-archive.ts';

describe('a backtest over an archive', () => {
  test('gives the same bytes with any number of threads', async () => {
    const archive = await createArchive();
    const strategies = { cross_venue_spread: builtIn('cross_venue_spread'), curious };
    for (const [name, strategy] of Object.entries(strategies)) {
      const bytes = new Set<string>();
      for (const threads of name === 'curious' ? [1, 1, 2, 3] : [1, 3])
        bytes.add(JSON.stringify(await run(archive, {}, strategy, { threads })));
      expect(bytes.size, name).toBe(1);
    }
  });

  test('reads one generation during publishes', async () => {
    const archive = await createArchive();
    const before = await run(archive, {}, curious, { threads: 2 });
    const [symbol] = symbols;
    let published: Promise<unknown> | undefined;
    const progress = (): void => {
      if (published !== undefined) return;
      append(archive, answer(symbol!, [[day0 + hourMs + 1, 0.99]]));
      published = publishNow(archive);
    };
    const during = await run(archive, {}, curious, { threads: 2, progress });
    await published;
    expect(JSON.stringify(during)).toBe(JSON.stringify(before));
    const after = await run(archive, {}, curious);
    expect(after.archive.generation).toBe(before.archive.generation + 1);
    expect(after.summary.ticks).toBe(before.summary.ticks + 1);
  });
});
