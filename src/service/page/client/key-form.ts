import { key } from './api.ts';
import { byId, el, failed } from './dom.ts';

/** Asks for a key, and says why where one was refused; `onKey` goes on with it. */
export function askForKey(onKey: () => void, why: string | null = null): void {
  byId('key-state').replaceChildren();
  const input = el('input', {
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
  const form = el(
    'form',
    { class: 'key-form' },
    el('label', { for: 'key-input' }, 'Market data key'),
    el('div', { class: 'joined' }, input, el('button', { type: 'submit', class: 'primary' }, 'Open the archive')),
    el(
      'p',
      { id: 'key-note', class: 'note' },
      'Days, symbols, charts and files are for holders of a key. It stays in this tab, and goes when you forget it or close the tab.',
    ),
  );
  const told = el('div', {}, why === null ? null : failed(why));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(text)) {
      told.replaceChildren(failed('A key has letters, digits and signs only, without spaces.'));
      return;
    }
    key.keep(text);
    byId('key').hidden = true;
    onKey();
  });
  const section = byId('key');
  section.replaceChildren(section.querySelector('h2')!, told, form);
  section.hidden = false;
  if (why !== null) input.focus();
}

/** Says that a key is in use, and lets it be forgotten. */
export function showKeyState(onForget: () => void): void {
  const forget = el('button', { type: 'button', id: 'forget' }, 'Forget the key');
  forget.addEventListener('click', () => {
    key.forget();
    onForget();
  });
  byId('key-state').replaceChildren(el('span', { class: 'note' }, 'Key in use'), forget);
}
