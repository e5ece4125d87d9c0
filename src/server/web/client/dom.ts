type Child = Node | string | null;

interface Attributes {
  readonly [name: string]: string | number | boolean | null | undefined | ((event: Event) => void);
}

/**
 * An element. Text goes in as text, never as HTML; a function is a listener (`onclick`), true an attribute without a
 * value, false and null none.
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

/** The element with that id, which the page has from the server. */
export function getElementById(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/** A sentence about something that is under way, told to screen readers, too. */
export const renderLoading = (text: string): HTMLElement =>
  createElement('p', { class: 'waiting', role: 'status' }, text);

/** A sentence about something that went wrong, where it matters, with a way to try again. */
export const renderError = (text: string, again?: () => void): HTMLElement =>
  createElement(
    'p',
    { class: 'failed', role: 'alert' },
    text,
    again === undefined ? null : createElement('button', { type: 'button', onclick: again }, 'Try again'),
  );
