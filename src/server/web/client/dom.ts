import { isAbortError, toErrorMessage } from './api.ts';

/** Content of an element. */
type Content = Node | string | number | false | null | undefined | readonly Content[];
type Value = Content | boolean | ((event: Event) => void);

/** The parsed markup of each place in the source. */
const templates = new WeakMap<TemplateStringsArray, HTMLTemplateElement>();
/** Begins the value of an attribute that is set later; no markup has this character. */
const mark = '\uE000';

/**
 * Creates an element from markup. A value between tags is inserted as text or as nodes, never as HTML. A value after `name=`
 * is that of the attribute, true is an attribute without a value, and after `@click=` it is a listener. In both places, null,
 * undefined and false are left out. Line breaks beside tags and values are no blanks.
 */
export function html<E extends HTMLElement = HTMLElement>(
  strings: TemplateStringsArray,
  ...values: readonly Value[]
): E {
  const template = templates.get(strings) ?? parseMarkup(strings);
  templates.set(strings, template);
  const root = document.importNode(template.content, true).firstElementChild as E;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const nodes: Node[] = [root];
  while (walker.nextNode() !== null) nodes.push(walker.currentNode);
  for (const node of nodes) {
    if (node instanceof Comment) node.replaceWith(...toNodes(values[Number(node.data)] as Content));
    else
      for (const { name, value } of [...(node as Element).attributes])
        if (value.startsWith(mark)) setAttribute(node as Element, name, values[Number(value.slice(1))]);
  }
  return root;
}

function parseMarkup(strings: TemplateStringsArray): HTMLTemplateElement {
  const template = document.createElement('template');
  const parts = strings.map((text, i) => {
    const markup = text.replace(/(?<=^|>)\s*\n\s*|\s*\n\s*(?=<|$)/g, '');
    if (i === strings.length - 1) return markup;
    return markup.endsWith('=') ? `${markup}"${mark}${i}" ` : `${markup}<!--${i}-->`;
  });
  template.innerHTML = parts.join('');
  return template;
}

function setAttribute(element: Element, name: string, value: Value): void {
  element.removeAttribute(name);
  if (typeof value === 'function') element.addEventListener(name.slice(1), value);
  else if (value !== null && value !== undefined && value !== false)
    element.setAttribute(name, value === true ? '' : String(value));
}

const toNodes = (content: Content): (Node | string)[] =>
  content === null || content === undefined || content === false
    ? []
    : Array.isArray(content)
      ? content.flatMap(toNodes)
      : [content instanceof Node ? content : String(content)];

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
export const renderLoading = (text: string): HTMLElement => html`<p class="waiting" role="status">${text}</p>`;

/** Renders an error message with a button to try again. */
export const renderError = (text: string, again?: () => void): HTMLElement => html`
  <p class="failed" role="alert">
    ${text}
    ${again && html`<button type="button" @click=${again}>Try again</button>`}
  </p>`;

/** Replaces the content of an element by what is loaded, or by an error with a button to try again. */
export async function fillElement(target: HTMLElement, load: () => Promise<Content>): Promise<void> {
  try {
    target.replaceChildren(...toNodes(await load()));
  } catch (error) {
    if (isAbortError(error)) return;
    target.replaceChildren(renderError(toErrorMessage(error), () => void fillElement(target, load)));
  }
}

/** Renders a message until what is loaded replaces it. */
export function renderLoaded(message: string, load: () => Promise<Content>, className = ''): HTMLElement {
  const root = html`<div class=${className || null}>${renderLoading(message)}</div>`;
  void fillElement(root, load);
  return root;
}

/** Copies a text. @returns whether that worked: the clipboard requires https or this machine */
export const copyText = async (text: string): Promise<boolean> =>
  (await navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  )) === true;

/** Renders the head of a table. @param isText whether a column is aligned to the left, by its index */
export const renderTableHead = (
  columns: readonly string[],
  isText: (column: number) => boolean = () => false,
): HTMLElement => html`
  <thead>
    <tr>${columns.map((text, i) => html`<th scope="col" class=${isText(i) && 'text'}>${text}</th>`)}</tr>
  </thead>`;

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
): HTMLElement => html`
  <div class="scrolled" tabindex="0" role="region" aria-label=${label}>
    <table>
      ${renderTableHead(columns, isText)}
      <tbody>
        ${rows.map(
          ([header, ...cells]) => html`
            <tr>
              <th scope="row">${header}</th>
              ${cells.map((cell, i) => html`<td class=${isText(i + 1) && 'text'}>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
