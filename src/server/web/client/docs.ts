// Swagger UI has its dark colors under a class and not under the media query.
const dark = matchMedia('(prefers-color-scheme: dark)');
const apply = (): void => {
  document.documentElement.classList.toggle('dark-mode', dark.matches);
};
dark.addEventListener('change', apply);
apply();
