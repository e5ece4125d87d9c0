import { formatHash, parseView, type View } from './view.ts';

const listeners: ((view: View) => void)[] = [];

let currentView = parseView(location.hash);

export const getView = (): View => currentView;

/** Changes the view: adds an entry to the history and notifies the listeners. */
export function updateView(change: Partial<View>): void {
  const hash = formatHash({ ...currentView, ...change });
  if (hash !== formatHash(currentView)) location.hash = hash;
}

export const subscribeToView = (listener: (view: View) => void): void => {
  listeners.push(listener);
};

addEventListener('hashchange', () => {
  // The skip link names an element, not a view.
  if (location.hash === '#main') return;
  currentView = parseView(location.hash);
  for (const listener of listeners) listener(currentView);
});
