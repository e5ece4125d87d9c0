import { join } from 'node:path';
import { encodeTexts } from '../../archive/format/text-columns.ts';
import { type ImportedCoverage, splitTicksByDay } from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RowFile, RowReader } from '../../archive/query/read-rows.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { UsageError } from '../../base/errors.ts';
import { formatCount, formatNumber } from '../../base/format-quantity.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { getFutureSkewMs } from '../../context/open-configured.ts';
import { findTimeFlaw } from '../paging/observation.ts';
import type { Run } from '../run/run.ts';
import { createJobFailure } from '../run/summary.ts';
import type { FoldedInput } from './folded-input.ts';
import { quoteValueNames } from './import-quotes.ts';
import { chooseImportSource } from './import-source.ts';
import { findInexactText } from './import-trades.ts';
import { type ImportWriter, openImportWriter } from './import-writer.ts';
import { createLazyReader } from './read-rows.ts';
import { formatTradeId } from './trade-ids.ts';

/** Imports a fold and publishes it: the same rows, coverage and conflicts as an import of its input. */
export async function importFolded(run: Run, input: FoldedInput, preferred: boolean): Promise<void> {
  const { context, archive } = run;
  const { folder: scratch, release } = acquireScratchFolder(archive, `import-${run.id}`);
  const futureMs = context.clock.nowMs() + getFutureSkewMs(context);
  const { journalTicksMax } = context.settings.publish;
  const { qualify } = chooseImportSource(run, [{ format: 'pages' }]);
  const writer = openImportWriter(run, { preferred, futureMs, scratch, journalTicksMax, qualify });
  const lazy = createLazyReader(scratch);
  const spill = openSpillFile(join(scratch, 'folded'));
  const display = await context.startDisplay('import', input.files.length, 'files');
  try {
    const reader = await lazy.reader();
    // A file that another program made is refused before anything is published.
    writer.hold();
    for (const [i, path] of input.files.entries()) {
      context.signal.throwIfAborted();
      const file: RowFile = { format: 'parquet', path: join(input.folder, path) };
      const source = { reader, file, name: `${input.place}/${path}`, futureMs };
      if (path.startsWith('ticks/')) await addTicks(writer, source, spill);
      else if (path.startsWith('quotes/')) await addQuotes(writer, source);
      else if (path.startsWith('trades/')) await addTrades(writer, source);
      else if (path.startsWith('coverage/')) await addCoverage(writer, reader, file, spill);
      else if (path.startsWith('rejected/')) await addRejected(writer, reader, file, input.dataset);
      else if (path.startsWith('unreadable/')) await reportUnreadable(run, reader, file);
      else throw createForeignError(source, 'is no file of a fold');
      display.update({ done: i + 1, ticks: writer.ticks });
    }
    await writer.release();
    await writer.flushJournal();
    display.stop();
    await writer.publish();
  } finally {
    display.stop();
    await lazy.close();
    spill.close();
    writer.close();
    release();
  }
  const { quotes, trades } = writer.series;
  const { size } = new Set([...writer.symbols, ...quotes.symbols, ...trades.symbols]);
  run.symbols.planned += size;
  run.symbols.done += size;
}

/** A file with observations. */
interface FoldedRows {
  readonly reader: RowReader;
  readonly file: RowFile;
  /** Where the fold has it, for messages. */
  readonly name: string;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
}

/** Rows of one symbol, moment of observation and layer. */
interface Group {
  readonly symbol: string;
  readonly seen: number;
  readonly layer: number;
  readonly t: number[];
  /** One array for each number column; NaN for what is missing. */
  readonly values: readonly number[][];
  /** One array for each text column. */
  readonly texts: readonly (string | null)[][];
}

/** Rows of a group after which the next time begins another one, so that a long day needs little memory. Rows of one time stay together. */
const groupRowsMax = 200_000;

/**
 * Reads the groups of a file.
 * @throws UsageError if the rows are not those of a fold
 */
async function* readGroups(
  { reader, file, name: place, futureMs }: FoldedRows,
  { numbers: numberNames = [], texts: textNames = [] }: { numbers?: readonly string[]; texts?: readonly string[] },
): AsyncGenerator<Group> {
  let group: Group | undefined;
  const columns = await reader.readColumns(file);
  const wanted = { numbers: [...numberNames, 'seen', 'layer'], texts: textNames };
  for await (const { symbol, t, values } of reader.readSeries(file, columns, 'ms', wanted)) {
    const numbers = numberNames.map((name) => values[name]!);
    const texts = textNames.map((name) => values[name]!);
    for (let i = 0; i < t.length; i++) {
      const [name, time] = [symbol[i], t[i] as number];
      const [seen, layer] = [values.seen![i] as number, values.layer![i] as number];
      const isSymbol = typeof name === 'string' && isSymbolName(name);
      if (!isSymbol || findTimeFlaw(time, futureMs) !== undefined || !Number.isSafeInteger(seen))
        throw createForeignError({ name: place }, 'has a row without a symbol or a time');
      if (seen > futureMs)
        throw new UsageError(
          `${place} has rows that were observed in the future, at ${formatIsoUtc(seen)}. Is the clock of this machine right?`,
        );
      const isSame = group?.symbol === name && group.seen === seen && group.layer === layer;
      if (group === undefined || !isSame || (group.t.length >= groupRowsMax && time > group.t.at(-1)!)) {
        if (group !== undefined) yield group;
        const empty = { t: [], values: numberNames.map(() => []), texts: textNames.map(() => []) };
        group = { symbol: name, seen, layer, ...empty };
      } else if (time < group.t.at(-1)!) throw createForeignError({ name: place }, 'is not sorted');
      group.t.push(time);
      for (let c = 0; c < numbers.length; c++) group.values[c]!.push((numbers[c]![i] as number | null) ?? Number.NaN);
      for (let c = 0; c < texts.length; c++) group.texts[c]!.push(texts[c]![i] as string | null);
    }
  }
  if (group !== undefined) yield group;
}

const createForeignError = ({ name }: Pick<FoldedRows, 'name'>, fault: string): UsageError =>
  new UsageError(`${name} ${fault}: it was made by another program or version. Run fold.py again: docs/SPARK.md.`);

async function addTicks(writer: ImportWriter, source: FoldedRows, spill: SpillFile): Promise<void> {
  for await (const { symbol, seen, t, values } of readGroups(source, { numbers: ['p'] })) {
    const ticks = { t: Float64Array.from(t), p: Float64Array.from(values[0]!) };
    if (!ticks.p.every(Number.isFinite)) throw createForeignError(source, 'has a row without a price');
    const read = { symbol, observedAt: seen, ticks: spill.append(ticks), days: splitTicksByDay(ticks), covered: [] };
    await writer.addPage(read, []);
  }
}

async function addQuotes(writer: ImportWriter, source: FoldedRows): Promise<void> {
  for await (const { symbol, seen, t, values } of readGroups(source, { numbers: quoteValueNames })) {
    const rows = { t: Float64Array.from(t), values: values.map((column) => Float64Array.from(column)), texts: [] };
    writer.series.quotes.addObserved(symbol, seen, rows);
  }
}

const tradeColumns = {
  numbers: ['price', 'size', 'block', 'copy'],
  texts: ['trade_id', 'aggressor', 'tx_hash', 'price_text', 'size_text', 'price_raw', 'size_raw'],
} as const;

async function addTrades(writer: ImportWriter, source: FoldedRows): Promise<void> {
  for await (const { symbol, seen, t, values, texts } of readGroups(source, tradeColumns)) {
    const [price, size, block, copy] = values as [number[], number[], number[], number[]];
    const [ids, aggressor, hash, priceText, sizeText, priceRaw, sizeRaw] = texts;
    const isTrade = price.every((p, i) => Number.isFinite(p) && size[i]! > 0 && (ids![i] !== null || copy[i]! >= 0));
    if (!isTrade) throw createForeignError(source, 'has a row without a price, a size or an identifier');
    const name = (i: number): string =>
      ids![i] ?? formatTradeId(t[i]!, [price[i]!, size[i]!, block[i]!], [aggressor![i]!, hash![i]!], copy[i]!);
    const columns = [
      t.map((_, i) => name(i)),
      aggressor!,
      hash!,
      t.map((_, i) => priceText![i] ?? findInexactText(priceRaw![i], price[i]!, false)),
      t.map((_, i) => sizeText![i] ?? findInexactText(sizeRaw![i], size[i]!, false)),
    ];
    const numbers = [price, size, block].map((column) => Float64Array.from(column));
    const rows = { t: Float64Array.from(t), values: numbers, texts: columns.map((column) => encodeTexts(column)) };
    writer.series.trades.addObserved(symbol, seen, rows);
  }
}

const empty = { t: new Float64Array(0), p: new Float64Array(0) };

async function addCoverage(writer: ImportWriter, reader: RowReader, file: RowFile, spill: SpillFile): Promise<void> {
  const columns = (await reader.readColumns(file)).filter(({ name }) => coverageColumns.includes(name));
  const find = (name: string): number => columns.findIndex((column) => column.name === name);
  const [symbol, from, to, seen, evidence] = coverageColumns.map(find) as [number, number, number, number, number];
  for await (const texts of reader.readTexts(file, columns)) {
    for (let i = 0; i < texts[0]!.length; i++) {
      const covered: ImportedCoverage = {
        window: { from: Number(texts[from]![i]), to: Number(texts[to]![i]) },
        evidence: texts[evidence]![i] === 'stated' ? 'stated' : 'inferred',
      };
      const observedAt = Number(texts[seen]![i]);
      const read = { symbol: texts[symbol]![i]!, observedAt, ticks: spill.append(empty), days: [], covered: [covered] };
      await writer.addPage(read, []);
    }
  }
}

const coverageColumns = ['symbol', 't_from', 't_to', 'seen', 'evidence'];

/** Keeps what is no tick in the quarantine, as an import does. */
async function addRejected(
  writer: ImportWriter,
  reader: RowReader,
  file: RowFile,
  dataset: FoldedInput['dataset'],
): Promise<void> {
  const names = ['symbol', 'seen', 'reason', 'raw'];
  const columns = (await reader.readColumns(file)).filter(({ name }) => names.includes(name));
  const sink = dataset === 'ticks' ? writer.rows : writer.series[dataset].rows;
  const [symbol, seen, reason, raw] = names.map((name) => columns.findIndex((column) => column.name === name));
  let at = 0;
  for await (const texts of reader.readTexts(file, columns)) {
    for (let i = 0; i < texts[0]!.length; i++) {
      sink.reject(texts[symbol!]![i] ?? null, { reason: texts[reason!]![i] ?? '', raw: texts[raw!]![i] ?? '' });
      at = Number(texts[seen!]![i]);
    }
    await writer.flushWhenFull(at);
  }
  await writer.flushRows(at);
}

const unreadableShown = 100;

/** Files that could not be read are failures of the run, as in an import. */
async function reportUnreadable(run: Run, reader: RowReader, file: RowFile): Promise<void> {
  const columns = (await reader.readColumns(file)).filter(({ name }) => ['path', 'reason'].includes(name));
  const [path, reason] = ['path', 'reason'].map((name) => columns.findIndex((column) => column.name === name));
  let count = 0;
  for await (const texts of reader.readTexts(file, columns))
    for (let i = 0; i < texts[0]!.length; i++)
      if (++count <= unreadableShown)
        run.failures.push(
          createJobFailure('input file', `${texts[path!]![i]}: invalid response: ${texts[reason!]![i]}`),
        );
  if (count > unreadableShown)
    run.failures.push(
      createJobFailure(
        'input file',
        `${formatCount(count - unreadableShown, 'more file')} could not be read: ${formatNumber(count)} in all.`,
      ),
    );
}
