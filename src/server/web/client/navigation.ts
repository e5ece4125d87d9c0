import { formatHash, parseView, type View } from './view.ts';

const listeners: ((view: View) => void)[] = [];

let currentView = parseView(location.hash);

export const getView = (): View => currentView;

/** Changes the view: adds an entry to the history, or replaces the current one, and notifies the listeners. */
export function updateView(change: Partial<View>, isReplacing = false): void {
  const hash = formatHash({ ...currentView, ...change });
  if (hash === formatHash(currentView)) return;
  if (!isReplacing) {
    location.hash = hash;
    return;
  }
  history.replaceState(null, '', hash);
  applyHash();
}

function applyHash(): void {
  currentView = parseView(location.hash);
  for (const listener of listeners) listener(currentView);
}

export const subscribeToView = (listener: (view: View) => void): void => {
  listeners.push(listener);
};

addEventListener('hashchange', () => {
  // The skip link names an element, not a view.
  if (location.hash === '#main') return;
  applyHash();
});
