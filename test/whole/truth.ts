import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { type DatasetName, datasets } from '../../src/archive/format/datasets.ts';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import { openDatabase } from '../../src/archive/journal/database.ts';
import { toDoubles } from '../../src/archive/journal/journal.ts';
import { type CellValue, decodeRows } from '../../src/archive/parquet/rows.ts';
import { floorToDay, isWithin, type Window } from '../../src/base/window.ts';
import type { WholeService } from './service.ts';
import type { WorldSymbol } from './world.ts';

// What the archive lacks, determined from the service's data and the files only, without the program.

/** A tick that the service had and that no intact published file contains. */
export interface Missing {
  readonly symbol: string;
  readonly t: number;
  /** Whether the lists ever named the symbol to the collector. */
  readonly isListed: boolean;
  /** Whether it is resolved by now: watermarks are those of active symbols. */
  readonly hasEnded: boolean;
  /** Whether published coverage claims it by inference. */
  readonly isInferred: boolean;
  /**
   * Whether it is in the journal because a damaged file of its day blocks the merge: it is accepted and will be
   * published.
   */
  readonly isJournaled: boolean;
  /** The file that contained it, if its damage is not found yet; else null. */
  readonly hiddenBy: string | null;
}

export interface FileRows {
  readonly ticks: ReadonlyMap<string, ReadonlySet<number>>;
  /** Inferred windows, by symbol. */
  readonly inferred: ReadonlyMap<string, readonly Window[]>;
  /** Whether responses stay in the journal: those of a day with a damaged file are not merged. */
  readonly isWaiting: boolean;
  /** Journaled ticks. */
  readonly journaled: ReadonlyMap<string, ReadonlySet<number>>;
  /** Paths of files that are not as published, found or not. */
  readonly damaged: ReadonlySet<string>;
}

/** Rows of published files, by hash: most files do not change between nights. */
export type Decoded = Map<string, readonly CellValue[][]>;

export function readFiles(root: string, manifest: Manifest, decoded: Decoded): FileRows {
  const ticks = new Map<string, Set<number>>();
  const inferred = new Map<string, Window[]>();
  const damaged = new Set<string>();
  const rowsOf = (name: DatasetName): CellValue[][] =>
    manifest.datasets[name].files.flatMap(({ path, sha256: sha256Expected }) => {
      const at = join(root, path);
      const bytes = existsSync(at) ? readFileSync(at) : null;
      if (bytes === null || sha256(bytes) !== sha256Expected) {
        damaged.add(path);
        return [];
      }
      const rows = decoded.get(sha256Expected) ?? decodeRows(datasets[name].columns, bytes);
      decoded.set(sha256Expected, rows as CellValue[][]);
      return rows as CellValue[][];
    });
  for (const [symbol, t] of rowsOf('ticks') as [string, number][]) {
    const times = ticks.get(symbol) ?? new Set();
    ticks.set(symbol, times.add(t));
  }
  for (const row of rowsOf('coverage')) {
    const [dataset, symbol, from, to] = row as [string, string, number, number];
    if (dataset !== 'ticks' || row[7] !== 'inferred') continue;
    inferred.set(symbol, [...(inferred.get(symbol) ?? []), { from, to }]);
  }
  return { ticks, inferred, ...readJournal(root), damaged };
}

function readJournal(root: string): Pick<FileRows, 'journaled' | 'isWaiting'> {
  const out = new Map<string, Set<number>>();
  const db = openDatabase(join(root, '.oddslake', 'state.sqlite'), 0);
  try {
    const rows = db.all<{ symbol: string; t: Uint8Array } & Record<string, never>>(
      'select symbol, t from journal_ticks',
    );
    const isWaiting = db.one('select 1 from journal_coverage limit 1') !== undefined || rows.length > 0;
    for (const { symbol, t } of rows) out.set(symbol, new Set([...(out.get(symbol) ?? []), ...toDoubles(t)]));
    return { journaled: out, isWaiting };
  } finally {
    db.close();
  }
}

/**
 * Missing ticks: those that were in a response, and those that the service has but no response contained. A tick is
 * late if it appeared after every response that covered its time. Nothing is expected of a symbol before its opening,
 * or before its first sighting less `lookbackMs`.
 */
export function findMissing(
  world: readonly WorldSymbol[],
  service: WholeService,
  files: FileRows,
  rules: { readonly lookbackMs: number; readonly until: number; readonly found: ReadonlySet<string> },
): Missing[] {
  const { delivered, listedAt } = service;
  const nowMs = service.nowMs();
  const hidden = [...files.damaged].filter((path) => !rules.found.has(path));
  return world.flatMap(({ symbol, opensAt, resolvedAt, listedFrom, ticks }) => {
    const first = listedAt.get(symbol);
    // Nobody has asked for the lists since they name it: a poll of ticks does not.
    if (first === undefined && listedFrom > Math.min(rules.until, service.listsAskedAt())) return [];
    const from = opensAt ?? (first ?? rules.until) - rules.lookbackMs;
    const rows = files.ticks.get(symbol);
    const responses = delivered.filter((one) => one.symbol === symbol);
    const inferred = files.inferred.get(symbol) ?? [];
    return ticks.flatMap(({ t, visibleAt }): Missing[] => {
      if (t < from || t >= rules.until || visibleAt > nowMs || rows?.has(t)) return [];
      // The complete lists of that day did not name it: a symbol that is named later is expected from then on.
      if (first === undefined && service.listedWhole.has(floorToDay(t))) return [];
      const of = responses.filter((window) => isWithin(t, window));
      if (of.length > 0 && of.every(({ at }) => at < visibleAt)) return [];
      const date = new Date(t).toISOString().slice(0, 10);
      return [
        {
          symbol,
          t,
          isListed: first !== undefined,
          hasEnded: resolvedAt !== null && resolvedAt <= nowMs,
          isJournaled: files.journaled.get(symbol)?.has(t) === true,
          // A damaged coverage file no longer says by which evidence its day is covered.
          isInferred:
            inferred.some((window) => isWithin(t, window)) ||
            [...files.damaged].some((path) => path.startsWith(`coverage/date=${date}/`)),
          hiddenBy: hidden.find((path) => path.startsWith(`ticks/date=${date}/`)) ?? null,
        },
      ];
    });
  });
}
