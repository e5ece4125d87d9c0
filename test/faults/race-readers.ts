import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { type Ended, rowHashes, sleep } from '../e2e/lake.ts';
import { findGlobErrors, findTreeErrors, readGlob } from './archive-faults.ts';
import type { Place } from './kill-flows.ts';

// Readers of an archive that others write concurrently, and the errors they see. An empty list means no error.

/** The content of one generation, to compare results with. */
export interface Generation {
  readonly generation: number;
  readonly ticks: number;
  /** sha256 of an export of all ticks. */
  readonly exported: string;
  /** sha256 of each file with rows that is the same in every such archive. */
  readonly files: Readonly<Record<string, string>>;
}

interface Seen {
  /** Null if the result does not state it. */
  readonly generation: number | null;
  readonly faults: readonly string[];
}

export interface Reader {
  readonly name: string;
  /** It is a recorded run: it exits with 5 if another process holds the state for as long as a write waits. */
  readonly isRun?: boolean;
  readonly args: (place: Place, id: string) => string[];
  /** @param of possible generations; null: unknown */
  readonly judge: (ended: Ended, place: Place, id: string, of: readonly Generation[] | null) => Seen;
}

const parseOutput = <T>({ stdout }: Ended): T => JSON.parse(stdout) as T;

/** @param same whether a result is that of a generation */
function hashFiles(of: readonly Generation[] | null, generation: number, same: (of: Generation) => boolean): string[] {
  if (of === null) return [];
  const known = of.find((one) => one.generation === generation);
  if (known === undefined) return [`there is no generation ${generation}`];
  return same(known) ? [] : [`this is not generation ${generation}`];
}

const snapshotOf = ({ out }: Place, id: string): string => join(out, `snapshot-${id}`);
const exportOf = ({ out }: Place, id: string): string => join(out, `export-${id}.parquet`);

export const readers: readonly Reader[] = [
  {
    name: 'verify',
    isRun: true,
    args: ({ archive }) => ['verify', '--output', archive, '--json', '--wait', '0'],
    judge(ended) {
      const { generation, findings } = parseOutput<{ generation: number; findings: readonly object[] }>(ended);
      return { generation, faults: findings.map((finding) => JSON.stringify(finding)) };
    },
  },
  {
    name: 'snapshot',
    args: (place, id) => ['snapshot', snapshotOf(place, id), '--output', place.archive, '--json'],
    judge(ended, place, id, of) {
      const root = snapshotOf(place, id);
      const { generation } = parseOutput<{ generation: number }>(ended);
      const files = rowHashes(root, 'ticks', 'candles_1h', 'candles_1d', 'orderbooks', 'quotes', 'trades');
      const same = hashFiles(of, generation, (one) => JSON.stringify(one.files) === JSON.stringify(files));
      return { generation, faults: [...findTreeErrors(root), ...findGlobErrors(root), ...same] };
    },
  },
  {
    name: 'export',
    args: (place, id) => ['export', '--out', exportOf(place, id), '--output', place.archive, '--json'],
    judge(ended, place, id, of) {
      const { generation, sha256, rows } = parseOutput<{ generation: number; sha256: string; rows: number }>(ended);
      const read = decodeTicks(readFileSync(exportOf(place, id)));
      const keys = new Set(read.symbols.flatMap((symbol, i) => [...countTimes(read, i)].map((t) => `${symbol} ${t}`)));
      const twice = keys.size === rows ? [] : [`${rows} rows of ${keys.size} keys`];
      return { generation, faults: [...hashFiles(of, generation, (one) => one.exported === sha256), ...twice] };
    },
  },
  {
    name: 'changes',
    args: ({ archive }) => ['changes', '--since', '0', '--output', archive, '--json'],
    judge(ended, _place, _id, of) {
      const { generation, files } = parseOutput<{
        generation: number;
        files: readonly { path: string; sha256: string }[];
      }>(ended);
      const listed = new Map(files.map(({ path, sha256 }) => [path, sha256]));
      const same = ({ files }: Generation): boolean =>
        Object.entries(files).every(([path, hash]) => listed.get(path) === hash);
      return { generation, faults: hashFiles(of, generation, same) };
    },
  },
  {
    name: 'sql',
    args: ({ archive }) => ['sql', 'SELECT count(*) FROM ticks', '--format', 'csv', '--output', archive],
    judge({ stdout }, _place, _id, of) {
      const ticks = Number(stdout.trim().split('\n').at(-1));
      const one = of?.find((generation) => generation.ticks === ticks);
      const faults = of === null || one !== undefined ? [] : [`${ticks} ticks are in no generation`];
      return { generation: one?.generation ?? null, faults };
    },
  },
];

const countTimes = ({ offsets, t }: { offsets: ArrayLike<number>; t: Float64Array }, i: number): Float64Array =>
  t.subarray(offsets[i]!, offsets[i + 1]!);

/**
 * Evaluates a glob over an archive repeatedly until `isOver`: no duplicate key at any time, and never fewer rows than
 * before.
 */
export async function globUntil(archive: string, isOver: () => boolean): Promise<string[]> {
  let ticksMax = 0;
  let seriesMax = 0;
  while (!isOver()) {
    const { ticks, series, faults } = readGlob(archive);
    if (faults.length > 0) return [...faults];
    if (ticks < ticksMax) return [`ticks fell from ${ticksMax} to ${ticks}`];
    if (series < seriesMax) return [`quotes and trades fell from ${seriesMax} to ${series}`];
    [ticksMax, seriesMax] = [ticks, series];
    await sleep(50);
  }
  return [];
}
