// Shared code of the end-to-end tests of order books.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { datasets } from '../../src/archive/format/datasets.ts';
import { decodeBooks } from '../../src/archive/parquet/books-file.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { bookShapes } from '../../src/sandbox/page-formats.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { opened } from '../archive/scratch.ts';
import { expectDone, fixedDay, fixedNow, folder, sandbox } from './lake.ts';
import { runJob as job } from './run-program.ts';

export const input = { seed: 5, nowMs: fixedNow, markets: 16, ticksPerDay: 40, lifetimeDaysMax: 45 };
export const understood = bookShapes.filter((shape) => shape !== 'cents');
export const allLive = ['--set', 'orderbooks.all_live=true'];

/** An archive of eight markets with their order books, collected from the sandbox; open until the test ends. */
export async function collected() {
  const output = folder();
  const box = await sandbox({ ...input, markets: 8 });
  for (const [name, ...flags] of [['nightly', '--date', fixedDay], ['orderbook']] as const) {
    await expectDone(job(name, box.url, output, ...flags, ...allLive));
  }
  return { archive: opened({ root: output, create: false, upstream: 'box' }), output };
}

/** Every published order book as `t bids asks` by symbol; throws if a key is duplicate or out of order. */
export function booksOf(output: string): Map<string, string[]> {
  const bySymbol = new Map<string, string[]>();
  for (const path of globSync('orderbooks/date=*/*.parquet', { cwd: output }).sort()) {
    const part = decodeBooks(readFileSync(join(output, path)));
    part.symbols.forEach((symbol, i) => {
      const sides = new Map<number, { bids: number[][]; asks: number[][] }>();
      let key = '';
      for (let row = part.offsets[i]!; row < part.offsets[i + 1]!; row++) {
        const t = part.t[row]!;
        const next = `${String(t).padStart(14)} ${part.side[row]} ${String(part.level[row]! + 1).padStart(3)}`;
        if (next <= key) throw new Error(`${path}: ${symbol} ${next} after ${key}`);
        key = next;
        const book = sides.get(t) ?? { bids: [], asks: [] };
        sides.set(t, book);
        if (part.level[row] !== -1)
          book[part.side[row] === 1 ? 'bids' : 'asks'].push([part.price[row]!, part.quantity[row]!]);
      }
      const list = bySymbol.get(symbol) ?? [];
      bySymbol.set(symbol, list);
      for (const [t, book] of sides) list.push(JSON.stringify([t, book.bids, book.asks]));
    });
  }
  return bySymbol;
}

/** The order book in the sandbox's plain shape. */
export async function truth(box: Sandbox, symbol: string): Promise<[bids: number[][], asks: number[][]]> {
  box.set({ bookShapes: ['objects'] });
  const response = await fetch(`${box.url}/api/v1/orderbook?symbol=${encodeURIComponent(symbol)}`, {
    headers: { authorization: 'Bearer sandbox-key' },
  });
  const { bids, asks } = (await response.json()) as Record<'bids' | 'asks', { price: number; quantity: number }[]>;
  const pairs = (levels: typeof bids) => levels.map(({ price, quantity }) => [price, quantity]);
  return [pairs(bids), pairs(asks)];
}

export const bookCoverage = (output: string) =>
  globSync('coverage/date=*/*.parquet', { cwd: output })
    .flatMap((path) => decodeRows(datasets.coverage.columns, readFileSync(join(output, path))))
    .filter(([dataset]) => dataset === 'orderbooks');

export const bookRequests = (box: Sandbox): number =>
  Object.values(box.stats().byPath['/api/v1/orderbook'] ?? {}).reduce((sum, n) => sum + n, 0);

/** Symbols that an archive knows from the lists. */
export const listed = (output: string): string[] =>
  decodeRows(datasets.symbols.columns, readFileSync(join(output, 'symbols/part-00.parquet'))).map(
    ([symbol]) => symbol as string,
  );
