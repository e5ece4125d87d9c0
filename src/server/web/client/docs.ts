// Swagger UI has its dark colors under a class and not under the media query.
const dark = matchMedia('(prefers-color-scheme: dark)');
const apply = (): void => {
  document.documentElement.classList.toggle('dark-mode', dark.matches);
};
dark.addEventListener('change', apply);
apply();

/** Attributes that Swagger UI lacks: landmarks for what is outside its main element, and headings without a skipped level. */
const missingAttributes: readonly (readonly [selector: string, name: string, value: string])[] = [
  ['.information-container', 'role', 'region'],
  ['.information-container', 'aria-label', 'About the API'],
  ['.scheme-container', 'role', 'region'],
  ['.scheme-container', 'aria-label', 'Authorization'],
  ['h3.opblock-tag', 'aria-level', '2'],
  ['.opblock-body h4', 'aria-level', '3'],
  ['.opblock-body h5', 'aria-level', '4'],
  ['.models > h4', 'aria-level', '2'],
  ['.modal-ux h3', 'aria-level', '2'],
  ['.modal-ux h4', 'aria-level', '3'],
  ['.close-modal', 'aria-label', 'Close'],
  // They scroll, and need the focus for that.
  ['.opblock-body pre', 'tabindex', '0'],
];

function amend(root: HTMLElement): void {
  for (const [selector, name, value] of missingAttributes)
    for (const element of root.querySelectorAll(`:is(${selector}):not([${name}])`)) element.setAttribute(name, value);
  // A link in a button cannot be used by all screen readers. The button opens the operation and changes the address too.
  for (const link of root.querySelectorAll('button a[href]')) link.removeAttribute('href');
}

const root = document.getElementById('swagger-ui');
if (root !== null) {
  new MutationObserver(() => amend(root)).observe(root, { childList: true, subtree: true });
  amend(root);
}
