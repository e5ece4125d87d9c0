/** A page of a list, newest first: at most so many, of those that were made before one. */
export interface PageRequest {
  readonly limit: number;
  /** The ordinal of the last one of the page before; null: from the newest on. */
  readonly before: number | null;
}

export interface RowPage<Row> {
  readonly rows: Row[];
  /** What the next page is before; null where there is none. */
  readonly next: number | null;
}

/** A page out of one row more than it has, where there is one more. */
export function toRowPage<Row extends { readonly ordinal: number }>(rows: readonly Row[], limit: number): RowPage<Row> {
  const page = rows.slice(0, limit);
  return { rows: page, next: rows.length > limit ? page.at(-1)!.ordinal : null };
}
