type Child = Node | string | null;

interface Attributes {
  readonly [name: string]: string | number | boolean | null | undefined | ((event: Event) => void);
}

/**
 * Creates an element. Strings are inserted as text, never as HTML. A property whose value is a function adds a listener
 * (`onclick`); true adds an attribute without a value; false and null add nothing.
 */
export function createElement<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Returns an element of the served page by its ID. */
export function getElementById(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element;
}

/** Runs a change that may move the focused element within the document, and keeps its focus and the selected text. */
export function keepFocus<T>(change: () => T): T {
  const focused = document.activeElement;
  const isField = focused instanceof HTMLInputElement;
  const selection = isField ? ([focused.selectionStart, focused.selectionEnd] as const) : null;
  const result = change();
  if (!(focused instanceof HTMLElement) || !focused.isConnected || document.activeElement === focused) return result;
  focused.focus({ preventScroll: true });
  if (isField && selection !== null) focused.setSelectionRange(...selection);
  return result;
}

/** Renders a message about a running operation. Screen readers announce it. */
export const renderLoading = (text: string): HTMLElement =>
  createElement('p', { class: 'waiting', role: 'status' }, text);

/** Renders an error message with a button to try again. */
export const renderError = (text: string, again?: () => void): HTMLElement =>
  createElement(
    'p',
    { class: 'failed', role: 'alert' },
    text,
    again === undefined ? null : createElement('button', { type: 'button', onclick: again }, 'Try again'),
  );

/**
 * Renders a table in a region of its own that scrolls, also by keyboard.
 * @param label names the region for screen readers
 * @param rows the cells of each row; the first one is its header
 * @param isText whether a column is aligned to the left, by its index
 */
export const renderScrolledTable = (
  label: string,
  columns: readonly string[],
  rows: readonly (readonly (string | HTMLElement)[])[],
  isText: (column: number) => boolean = () => false,
): HTMLElement =>
  createElement(
    'div',
    { class: 'scrolled', tabindex: 0, role: 'region', 'aria-label': label },
    createElement(
      'table',
      {},
      createElement(
        'thead',
        {},
        createElement(
          'tr',
          {},
          ...columns.map((text, i) => createElement('th', { scope: 'col', class: isText(i) ? 'text' : null }, text)),
        ),
      ),
      createElement(
        'tbody',
        {},
        ...rows.map(([header, ...cells]) =>
          createElement(
            'tr',
            {},
            createElement('th', { scope: 'row' }, header!),
            ...cells.map((cell, i) => createElement('td', { class: isText(i + 1) ? 'text' : null }, cell)),
          ),
        ),
      ),
    ),
  );
