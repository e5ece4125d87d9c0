/** A half-open span of time, `from <= t < to`, in epoch milliseconds UTC. */
export interface Window {
  readonly from: number;
  readonly to: number;
}
