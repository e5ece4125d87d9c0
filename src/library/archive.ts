import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, type Writable } from 'node:stream';
import type { Archive } from '../archive/archive.ts';
import type { CompletenessRules } from '../archive/completeness/completeness.ts';
import { systemDisk } from '../archive/disk/file-system.ts';
import { type DatasetName, datasetNames } from '../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../archive/format/manifest.ts';
import type { VerifyResult } from '../archive/integrity/verify.ts';
import { openArchive as openArchiveFolder } from '../archive/open-archive.ts';
import { decodeTicks } from '../archive/parquet/ticks-file.ts';
import { createFileFilter } from '../archive/publish/prune-files.ts';
import type { WriteFormat } from '../archive/query/query.ts';
import type { GapList } from '../archive/read/gaps.ts';
import type { ListedSymbol } from '../archive/read/list-symbols.ts';
import { pinGeneration, requireFileBytes } from '../archive/read/pin-generation.ts';
import type { readStatus } from '../archive/read/status.ts';
import { findFirstAtOrAfter } from '../base/binary-search.ts';
import { UsageError } from '../base/errors.ts';
import { systemClock, systemRandom } from '../base/system.ts';

// `oddslake/archive`: reads an archive. Loads no server and no HTTP client, and loads DuckDB only for `sql`.

export type { DatasetName, GapList, ListedSymbol, Manifest, PublishedFile, VerifyResult, WriteFormat };

export type ArchiveStatus = ReturnType<typeof readStatus>;

export { DamageError, OddslakeError, UsageError } from '../base/errors.ts';

export interface OpenOptions {
  /** Path of the config file whose settings determine the expected windows (`source`, `symbols`). Default: no config file. */
  readonly config?: string;
}

export interface TickQuery {
  /** If empty or absent, all symbols. */
  readonly symbols?: readonly string[];
  /** Start, inclusive, epoch milliseconds. Default: the first tick. */
  readonly from?: number;
  /** End, exclusive, epoch milliseconds. Default: after the last tick. */
  readonly to?: number;
  readonly signal?: AbortSignal;
}

/** Ticks of one symbol and day, as columns of equal length sorted by `t`. */
export interface TickBatch {
  readonly symbol: string;
  /** Integer epoch milliseconds. */
  readonly t: Float64Array;
  /** Price as received; at most venues 0 to 1. */
  readonly p: Float64Array;
}

export interface GapQuery {
  readonly symbols?: readonly string[];
  /** Epoch milliseconds. Default: the time range of the archive. */
  readonly from?: number;
  readonly to?: number;
}

/**
 * Opens the archive at `root` for reading.
 * @throws UsageError if there is no archive, or its format is newer; DamageError if its manifest cannot be read
 */
export function openArchive(root: string, options: OpenOptions = {}): ArchiveReader {
  const archive = openArchiveFolder({ root, create: false, upstream: null, writer: 'oddslake/archive' }, systemDisk);
  return new FolderReader(archive, options);
}

/** An archive that is open for reading. Other processes may collect and publish at the same time. */
export type ArchiveReader = FolderReader;

class FolderReader {
  readonly #archive: Archive;
  readonly #config: string | undefined;
  /** Absolute path of its root folder. */
  readonly root: string;

  constructor(archive: Archive, { config }: OpenOptions) {
    this.#archive = archive;
    this.#config = config;
    this.root = archive.layout.root;
  }

  /** Reads the manifest of the current generation. */
  manifest(): Manifest {
    return this.#archive.readManifest();
  }

  /** Returns the files of a dataset with absolute paths. A later publish may replace the files. */
  files(dataset: DatasetName): (PublishedFile & { readonly absolutePath: string })[] {
    if (!datasetNames.includes(dataset))
      throw new UsageError(`There is no dataset ${dataset}. The datasets are ${datasetNames.join(', ')}.`);
    const { files } = this.manifest().datasets[dataset];
    return files.map((file) => ({ ...file, absolutePath: join(this.root, file.path) }));
  }

  /** Returns the symbols whose name, question, category, market ID or source contains every word of `text`; default: all. */
  async symbols(text = ''): Promise<readonly ListedSymbol[]> {
    const { listSymbols } = await import('../archive/read/list-symbols.ts');
    return listSymbols(this.#archive, text, systemClock.nowMs()).symbols;
  }

  /**
   * Yields the published ticks of one generation, sorted by day. The order within a day is not specified. At most one part
   * file is in memory. Journaled ticks are not included.
   * @throws DamageError for a file whose bytes differ from the manifest
   */
  async *ticks({ symbols = [], from, to, signal }: TickQuery = {}): AsyncGenerator<TickBatch, void, undefined> {
    const manifest = this.manifest();
    if (manifest.generation === 0) return;
    const wanted = createFileFilter('ticks', symbols, { from: from ?? null, to: to ?? null });
    const chosen = symbols.length === 0 ? null : new Set(symbols);
    const pinId = Math.floor(systemRandom() * 36 ** 8).toString(36);
    const pin = pinGeneration(this.#archive, ['ticks'], pinId, wanted);
    try {
      for (const file of pin.manifest.datasets.ticks.files.filter(wanted)) {
        signal?.throwIfAborted();
        const bytes = await readFile(join(pin.root, file.path));
        requireFileBytes(bytes, file);
        const part = decodeTicks(bytes);
        for (const [i, symbol] of part.symbols.entries()) {
          if (chosen !== null && !chosen.has(symbol)) continue;
          const [first, end] = [part.offsets[i]!, part.offsets[i + 1]!];
          const t = part.t.subarray(first, end);
          const low = from === undefined ? 0 : findFirstAtOrAfter(t, from);
          const high = to === undefined ? t.length : findFirstAtOrAfter(t, to);
          if (low < high) yield { symbol, t: t.slice(low, high), p: part.p.slice(first + low, first + high) };
        }
      }
    } finally {
      pin.release();
    }
  }

  /** Returns the windows of symbols' lifetimes that are not covered. */
  async gaps({ symbols = [], from, to }: GapQuery = {}): Promise<GapList> {
    const [{ listGaps }, { readSymbol }] = await Promise.all([
      import('../archive/read/gaps.ts'),
      import('../archive/journal/symbol-store.ts'),
    ]);
    const found = symbols.map((name) => {
      const facts = readSymbol(this.#archive.state.db, name);
      if (facts === undefined) throw new UsageError(`The archive has no symbol ${name}.`);
      return facts;
    });
    const query = { from: from ?? null, to: to ?? null, symbols: found };
    return listGaps(this.#archive, query, await this.#loadRules(), systemClock.nowMs());
  }

  /** Returns the object that `oddslake status --json` prints. */
  async status(): Promise<ArchiveStatus> {
    const { readStatus } = await import('../archive/read/status.ts');
    return readStatus(this.#archive, await this.#loadRules(), systemClock.nowMs());
  }

  async #loadRules(): Promise<CompletenessRules> {
    const [{ loadSettings }, { toCompletenessRules }] = await Promise.all([
      import('../settings/load.ts'),
      import('../context/open-configured.ts'),
    ]);
    return toCompletenessRules(await loadSettings({ env: {}, cwd: process.cwd(), config: this.#config }));
  }

  /** Compares the hash of every published file with the manifest. Changes nothing. */
  async verify({
    onProgress,
    signal,
  }: {
    readonly onProgress?: (done: number, total: number) => void;
    readonly signal?: AbortSignal;
  } = {}): Promise<VerifyResult> {
    const { verifyArchive } = await import('../archive/integrity/verify.ts');
    return verifyArchive(this.#archive, null, onProgress, signal);
  }

  /**
   * Yields the rows of one SELECT over one generation. Its tables are the datasets and the views. Times are ISO-8601 strings
   * in UTC. Integers beyond 2^53 lose precision; use `writeSql` for them.
   * @throws UsageError for any other statement and for bad SQL
   */
  async *sql(statement: string, signal?: AbortSignal): AsyncGenerator<Record<string, unknown>, void, undefined> {
    const out = new PassThrough();
    // If the reader stops early, `stop` cancels the query.
    const stop = new AbortController();
    const both = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]);
    const writing = this.writeSql(statement, 'ndjson', out, both).then(
      () => out.end(),
      (error: Error) => out.destroy(error),
    );
    try {
      let rest = '';
      for await (const chunk of out.setEncoding('utf8')) {
        const lines = (rest + chunk).split('\n');
        rest = lines.pop()!;
        for (const line of lines) yield JSON.parse(line) as Record<string, unknown>;
      }
      if (rest !== '') yield JSON.parse(rest) as Record<string, unknown>;
    } finally {
      stop.abort(new Error('the reader of the rows has stopped'));
      await writing;
    }
  }

  /** Writes the rows of one SELECT to `out`. Does not close `out`. */
  async writeSql(statement: string, format: WriteFormat, out: Writable, signal?: AbortSignal): Promise<void> {
    const { openArchiveQuery } = await import('../archive/query/pinned-query.ts');
    const { query, close } = await openArchiveQuery(this.#archive, statement, systemRandom);
    try {
      await query.write(statement, format, out, signal);
    } finally {
      await close();
    }
  }

  close(): void {
    this.#archive.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
