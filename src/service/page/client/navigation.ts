import { hashOf, parseView, type View } from './view.ts';

const listeners: ((view: View) => void)[] = [];

let current = parseView(location.hash);

export const viewed = (): View => current;

/** Looks at something else: a new entry of the history, which every listener is then told of. */
export function go(change: Partial<View>): void {
  const hash = hashOf({ ...current, ...change });
  if (hash !== hashOf(current)) location.hash = hash;
}

export const onView = (listener: (view: View) => void): void => {
  listeners.push(listener);
};

addEventListener('hashchange', () => {
  // The link that skips to the archive names a place, not a view.
  if (location.hash === '#main') return;
  current = parseView(location.hash);
  for (const listener of listeners) listener(current);
});
