import type { Window } from '../core/window.ts';

/** A window to be fetched. */
export interface WindowRequest extends Window {
  /** A part of a window that was refused; the older half is asked for only where the recent one was answered. */
  readonly part?: 'some' | 'older half';
}
