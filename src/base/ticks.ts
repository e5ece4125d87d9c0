/** Ticks of one symbol as columns of equal length. `t` is in integer epoch milliseconds, `p` is the price as received. */
export interface TickColumns {
  readonly t: Float64Array;
  readonly p: Float64Array;
}

/** Rejected input and the reason. `raw` is its JSON text as received. */
export interface RejectedInput {
  readonly reason: string;
  readonly raw: string;
}

export const emptyTicks: TickColumns = { t: new Float64Array(0), p: new Float64Array(0) };
