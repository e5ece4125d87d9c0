/** Ticks of one symbol as columns of equal length: `t` in whole epoch milliseconds, `p` the price as it arrived. */
export interface TickColumns {
  readonly t: Float64Array;
  readonly p: Float64Array;
}

/** Input set aside as received, with the reason; `raw` is its JSON text. */
export interface RejectedInput {
  readonly reason: string;
  readonly raw: string;
}

export const emptyTicks: TickColumns = { t: new Float64Array(0), p: new Float64Array(0) };
