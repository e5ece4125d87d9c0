import { join } from 'node:path';
import type { QualifyName } from '../../archive/format/qualify-market.ts';
import {
  listFactColumns,
  listTextColumns,
  listValueColumns,
  type SeriesDataset,
  toFactCells,
} from '../../archive/format/series-datasets.ts';
import { sortSeriesByTime } from '../../archive/format/series-rows.ts';
import { appendQuarantined, type QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import { ticksPerRejected } from '../../archive/journal/journal.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { Run } from '../run/run.ts';
import { createRejectBuffer, createRowCounter, type StoredRow } from './rejected-rows.ts';
import { createRowBuffer, type RowBuffer, rowsAtOnceMax } from './row-buffer.ts';
import { type ImportedRows, openScratchList, type ScratchList } from './scratch-list.ts';

/** Takes the rows of a series. */
export interface SeriesSink {
  /**
   * `values` and `texts`: the numbers, followed by the finer times if the file has any, and the texts of a row, in the order of the
   * dataset's columns; NaN and null for a missing one. The caller reuses both arrays.
   */
  accept(symbol: string, t: number, values: Float64Array, texts: readonly (string | null)[]): void;
  /** `symbol` is null if the row has none. */
  reject(symbol: string | null, rejected: RejectedInput): void;
}

interface SeriesWriterOptions {
  readonly dataset: SeriesDataset;
  /** Accepts rows of one file for the next publish. */
  accept(rows: ImportedRows): Promise<void>;
  /** Qualifies the symbols of rows, in an archive of several sources. */
  readonly qualify: QualifyName;
  /** Folder for scratch files. */
  readonly scratch: string;
  /** Called after an append to the journal with its load, in ticks. Publishes the journal when it is full. */
  addLoad(load: number): Promise<void>;
}

/** Number of rows that are buffered before they are grouped by symbol; fewer if they have texts. */
const bufferRowsMax = 1 << 19;
const bufferTextRowsMax = 1 << 18;
/** Number of rejected rows that are written together. */
const rejectedMax = 1000;

/**
 * Writes the rows of a series with bounded memory. All of them go to scratch files first, because an import changes nothing
 * before its row files have passed the checks. `release` then passes them to the next publish, which reads them from there.
 */
export type SeriesWriter = ReturnType<typeof openSeriesWriter>;

export function openSeriesWriter(run: Run, options: SeriesWriterOptions) {
  const { dataset, accept, qualify, scratch, addLoad } = options;
  const { state } = run.archive;
  const valueColumns = listValueColumns(dataset);
  const textColumns = listTextColumns(dataset);
  const bufferMax = textColumns.length > 0 ? bufferTextRowsMax : bufferRowsMax;
  const prices = valueColumns.map(({ name }, c) => ({ name, c })).filter(({ name }) => /^(bid|ask|price)$/.test(name));
  const rowCounter = createRowCounter();
  const rejectBuffer = createRejectBuffer();
  const symbols = new Set<string>();
  let buffer: RowBuffer | undefined;
  let spillFile: SpillFile | undefined;
  let held: ScratchList<HeldRows> | undefined;

  const hold = (item: HeldRows): void => {
    held ??= openScratchList(join(scratch, `held-${dataset}`));
    held.append(item);
  };

  function drain(observedAt: number, isEnd: boolean): void {
    for (const { symbol: name, ...drained } of buffer?.drain(isEnd) ?? []) {
      const symbol = qualify(name);
      const [values, times] = [drained.values.slice(0, valueColumns.length), drained.values.slice(valueColumns.length)];
      const areKnown = times.some((column) => column.some((time) => !Number.isNaN(time)));
      const rows = { ...drained, values, ...(areKnown && { times }) };
      symbols.add(symbol);
      spillFile ??= openSpillFile(join(scratch, dataset));
      hold({ kind: 'rows', symbol, observedAt, spilled: spillFile.append(sortSeriesByTime(rows)) });
    }
  }

  function writeRejected(observedAt: number): void {
    const { items, dropped } = rejectBuffer.drain();
    if (items.length + dropped === 0) return;
    hold({ kind: 'rejected', items: items.map((item) => ({ ...item, at: observedAt })), dropped });
  }

  async function acceptHeld(items: ScratchList<HeldRows>): Promise<void> {
    for await (const item of items.items()) {
      if (item.kind === 'rows') await accept(item);
      else {
        appendQuarantined(state, run.id, dataset, item.items, item.dropped);
        await addLoad(ticksPerRejected * item.items.length);
      }
    }
  }

  return {
    /** Counts the rows of the current file. */
    rowCounter,
    /** The symbols of the accepted rows. */
    symbols,
    /** Accepts the rows of one file. Nothing is written before `flushWhenFull` or `endFile`. */
    rows: {
      accept(symbol: string, t: number, values: Float64Array, texts: readonly (string | null)[]) {
        for (const { c } of prices) if (!Number.isNaN(values[c])) rowCounter.addPrice(values[c]!);
        if (rowCounter.isShowing) rowCounter.show({ symbol, t, ...listCells(dataset, values, texts) });
        rowCounter.accept();
        // Between files, it is empty.
        if (buffer?.values.length !== values.length)
          buffer = createRowBuffer(bufferMax, values.length, textColumns.length);
        const row = buffer.add(symbol, t, texts);
        for (let c = 0; c < values.length; c++) buffer.values[c]![row] = values[c]!;
      },
      reject(symbol: string | null, rejected: RejectedInput) {
        rowCounter.reject(rejected.reason, rejected.raw);
        // The observation time of the file is added when the buffer is written.
        rejectBuffer.add({ symbol: symbol === null ? null : qualify(symbol), at: 0, ...rejected });
      },
    },
    /** Writes the buffered rows if there are enough. `observedAt`: modification time of their file, epoch ms. */
    flushWhenFull(observedAt: number) {
      if (buffer !== undefined && buffer.length >= bufferMax - rowsAtOnceMax) drain(observedAt, false);
      if (rejectBuffer.pendingCount >= rejectedMax) writeRejected(observedAt);
    },
    /** Writes all buffered rows of a file. */
    endFile(observedAt: number) {
      drain(observedAt, true);
      writeRejected(observedAt);
      rejectBuffer.nextFile();
    },
    /** Accepts all rows for the next publish, and journals rejected ones. */
    async release() {
      const items = held;
      held = undefined;
      if (items === undefined) return;
      await acceptHeld(items);
      items.close();
    },
    close() {
      spillFile?.close();
      held?.close();
    },
  };
}

/** The numbers and texts of a row by the name of their column, in file order. */
function listCells(dataset: SeriesDataset, values: Float64Array, texts: readonly (string | null)[]): StoredRow {
  const cells = toFactCells(dataset, values, texts);
  return Object.fromEntries(listFactColumns(dataset).map(({ name }, c) => [name, cells[c]!]));
}

/** Rows of one symbol, or rejected rows, that an import has read and not yet accepted. */
type HeldRows =
  | ({ readonly kind: 'rows' } & ImportedRows)
  | { readonly kind: 'rejected'; readonly items: readonly QuarantinedInput[]; readonly dropped: number };
