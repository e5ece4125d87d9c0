import type { Type } from 'typebox';
import { datasetShapes } from '../archive/copies/prune-files.ts';
import type { DatasetName } from '../archive/parquet/schema.ts';
import type { ExportRequest } from '../contract/export-jobs.ts';
import { readSymbol } from '../state/symbols.ts';
import type { ExportJobRow } from '../workspace/tables.ts';
import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem-details.ts';

type ExportJobRequest = Type.Static<typeof ExportRequest>;

/** The request, each symbol once. Throws where a field is no use, naming it. */
export function requireValidExport({ archive }: ServiceContext, asked: ExportJobRequest): ExportJobRequest {
  const { dataset, from, to } = asked;
  const symbols = [...new Set(asked.symbols ?? [])];
  const unknown = symbols.filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  const timeless = datasetShapes[dataset as DatasetName].timeColumns === null;
  const errors = [
    ...unknown.map((symbol) => ({
      name: `symbols[${asked.symbols!.indexOf(symbol)}]`,
      reason: 'is no symbol that this archive knows',
    })),
    ...(timeless && from !== undefined ? [{ name: 'from', reason: `${dataset} has no time` }] : []),
    ...(timeless && to !== undefined ? [{ name: 'to', reason: `${dataset} has no time` }] : []),
    ...(from !== undefined && to !== undefined && from >= to
      ? [{ name: 'to', reason: 'expected a time after from' }]
      : []),
  ];
  if (errors.length > 0) throw new ProblemError(400, 'The export cannot be made as it is asked for.', { errors });
  return { ...asked, symbols };
}

const requestFields = ['dataset', 'symbols', 'from_ms', 'to_ms', 'format'] as const;

type RequestedColumns = Pick<ExportJobRow, (typeof requestFields)[number]>;

/** Whether two jobs are of the same request. */
export const isSameRequest = (a: RequestedColumns, b: RequestedColumns): boolean =>
  requestFields.every((name) => a[name] === b[name]);
