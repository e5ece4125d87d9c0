import { apiKeyStore } from './api.ts';
import { createElement, getElementById, renderError } from './dom.ts';

/** Asks for a key, and says why where one was refused; `onKey` goes on with it. */
export function showKeyForm(onKey: () => void, why: string | null = null): void {
  getElementById('key-state').replaceChildren();
  const input = createElement('input', {
    id: 'key-input',
    type: 'password',
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
    required: true,
    maxlength: 4096,
    'aria-describedby': 'key-note',
  });
  // The field has no name and the form no target: nothing can put the key into an address.
  const form = createElement(
    'form',
    { class: 'key-form' },
    createElement('label', { for: 'key-input' }, 'Market data key'),
    createElement(
      'div',
      { class: 'joined' },
      input,
      createElement('button', { type: 'submit', class: 'primary' }, 'Open the archive'),
    ),
    createElement(
      'p',
      { id: 'key-note', class: 'note' },
      'Days, symbols, charts and files are for holders of a key. It stays in this tab, and goes when you forget it or close the tab.',
    ),
  );
  const told = createElement('div', {}, why === null ? null : renderError(why));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(text)) {
      told.replaceChildren(renderError('A key has letters, digits and signs only, without spaces.'));
      return;
    }
    apiKeyStore.keep(text);
    getElementById('key').hidden = true;
    onKey();
  });
  const section = getElementById('key');
  section.replaceChildren(section.querySelector('h2')!, told, form);
  section.hidden = false;
  if (why !== null) input.focus();
}

/** Says that a key is in use, and lets it be forgotten. */
export function showKeyState(onForget: () => void): void {
  const forget = createElement('button', { type: 'button', id: 'forget' }, 'Forget the key');
  forget.addEventListener('click', () => {
    apiKeyStore.forget();
    onForget();
  });
  getElementById('key-state').replaceChildren(createElement('span', { class: 'note' }, 'Key in use'), forget);
}
