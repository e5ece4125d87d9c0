import { join } from 'node:path';
import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { appendQuarantined, type QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import { ticksPerRejected } from '../../archive/journal/journal.ts';
import { sortSeriesByTime, splitSeriesByDay } from '../../archive/journal/journal-series.ts';
import type { SpilledSeriesChunk } from '../../archive/publish/series-intake.ts';
import { openSpillFile, type SpilledRows, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { Window } from '../../base/window.ts';
import type { Run } from '../run/run.ts';
import { type QuoteSink, quoteValueNames } from './import-quotes.ts';
import { createRejectBuffer, createRowCounter, type RowCounter } from './rejected-rows.ts';
import { createRowBuffer, type RowBuffer, rowsAtOnceMax } from './row-buffer.ts';
import { openScratchList, type ScratchList } from './scratch-list.ts';

/**
 * Writes the quotes of rows with bounded memory. All of them go to scratch files first, because an import changes nothing
 * before its row files have passed the checks. `release` then passes them to the next publish, which reads them from there.
 */
export interface QuoteWriter {
  /** Accepts the rows of one file. Nothing is written before `flushWhenFull` or `endFile`. */
  readonly rows: QuoteSink;
  /** Counts the quotes of the current file. */
  readonly rowCounter: RowCounter;
  /** The symbols of the accepted quotes. */
  readonly symbols: ReadonlySet<string>;
  /** Writes the buffered rows if there are enough. `observedAt`: modification time of their file, epoch ms. */
  flushWhenFull(observedAt: number): void;
  /** Writes all buffered rows of a file. */
  endFile(observedAt: number): void;
  /** Accepts all quotes for the next publish, and journals rejected rows. */
  release(): Promise<void>;
  /** Accepts coverage that the user declared, for the publish of the quotes. */
  addDeclaredCoverage(symbols: Iterable<string>, window: Window, fetchedAt: number): Promise<void>;
  close(): void;
}

interface QuoteWriterOptions {
  /** Accepts quotes of one UTC day for the next publish. */
  accept(day: number, quotes: Pick<SpilledSeriesChunk, 'symbol' | 'observedAt' | 'spilled'>): Promise<void>;
  /** Accepts coverage for the same publish. */
  acceptCoverage(symbol: string, window: CoveredWindow): Promise<void>;
  /** Folder for scratch files. */
  readonly scratch: string;
  /** Called after an append to the journal with its load, in ticks. Publishes the journal when it is full. */
  addLoad(load: number): Promise<void>;
}

/** Number of quotes that are buffered before they are grouped by symbol. */
const bufferRowsMax = 1 << 19;
/** Number of rejected quotes that are written together. */
const rejectedMax = 1000;

const dataset = 'quotes';

export function openQuoteWriter(run: Run, options: QuoteWriterOptions): QuoteWriter {
  const { accept, acceptCoverage, scratch, addLoad } = options;
  const { state } = run.archive;
  const rowCounter = createRowCounter();
  const rejectBuffer = createRejectBuffer(run.context.settings.quarantine.fileBytesMax);
  const symbols = new Set<string>();
  let buffer: RowBuffer | undefined;
  let spillFile: SpillFile | undefined;
  let held: ScratchList<HeldQuotes> | undefined;

  const hold = (item: HeldQuotes): void => {
    held ??= openScratchList(join(scratch, 'held-quotes'));
    held.append(item);
  };

  function drain(observedAt: number): void {
    for (const { symbol, t, values } of buffer?.drain() ?? []) {
      symbols.add(symbol);
      spillFile ??= openSpillFile(join(scratch, dataset));
      for (const { day, ...rows } of splitSeriesByDay(sortSeriesByTime({ t, values })))
        hold({ kind: 'rows', symbol, day, observedAt, spilled: spillFile.appendRows(rows) });
    }
  }

  function writeRejected(observedAt: number): void {
    const { items, dropped } = rejectBuffer.drain();
    if (items.length + dropped === 0) return;
    hold({ kind: 'rejected', items: items.map((item) => ({ ...item, at: observedAt })), dropped });
  }

  async function acceptHeld(items: ScratchList<HeldQuotes>): Promise<void> {
    for await (const item of items.items()) {
      if (item.kind === 'rows') {
        const { day, symbol, observedAt, spilled } = item;
        await accept(day, { symbol, observedAt, spilled });
      } else {
        appendQuarantined(state, run.id, dataset, item.items, item.dropped);
        await addLoad(ticksPerRejected * item.items.length);
      }
    }
  }

  return {
    rowCounter,
    symbols,
    rows: {
      accept(symbol, t, values) {
        if (!Number.isNaN(values[0])) rowCounter.addPrice(values[0]!);
        if (!Number.isNaN(values[1])) rowCounter.addPrice(values[1]!);
        if (rowCounter.isShowing) {
          const cells = quoteValueNames.map((name, c) => [name, Number.isNaN(values[c]) ? null : values[c]!] as const);
          rowCounter.show({ symbol, t, ...Object.fromEntries(cells) });
        }
        rowCounter.accept();
        buffer ??= createRowBuffer(bufferRowsMax, quoteValueNames.length);
        const row = buffer.add(symbol, t);
        for (let c = 0; c < values.length; c++) buffer.values[c]![row] = values[c]!;
      },
      reject(symbol, rejected) {
        rowCounter.reject(rejected.reason, rejected.raw);
        // The observation time of the file is added when the buffer is written.
        rejectBuffer.add({ symbol, at: 0, ...rejected });
      },
    },
    flushWhenFull(observedAt) {
      if (buffer !== undefined && buffer.length >= bufferRowsMax - rowsAtOnceMax) drain(observedAt);
      if (rejectBuffer.pendingCount >= rejectedMax) writeRejected(observedAt);
    },
    endFile(observedAt) {
      drain(observedAt);
      writeRejected(observedAt);
      rejectBuffer.nextFile();
    },
    async release() {
      const items = held;
      held = undefined;
      if (items === undefined) return;
      await acceptHeld(items);
      items.close();
    },
    async addDeclaredCoverage(covered, { from, to }, fetchedAt) {
      for (const symbol of covered)
        await acceptCoverage(symbol, { from, to, fetchedAt, origin: 'import', evidence: 'declared' });
    },
    close() {
      spillFile?.close();
      held?.close();
    },
  };
}

/** Quotes of one symbol and UTC day, or rejected rows, that an import has read and not yet accepted. */
type HeldQuotes =
  | {
      readonly kind: 'rows';
      readonly symbol: string;
      readonly day: number;
      readonly observedAt: number;
      readonly spilled: SpilledRows;
    }
  | { readonly kind: 'rejected'; readonly items: readonly QuarantinedInput[]; readonly dropped: number };
