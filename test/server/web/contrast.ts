/** Relative luminance of a colour as in WCAG 2. */
const luminance = `(text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((c) => {
    const v = c / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}`;

/** The lowest contrast of a text with its background, including plots; and the element that has it. */
export const leastContrast = `(() => {
  const luminance = ${luminance};
  // The background of an ancestor, or of the page.
  const background = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at);
      if (!/, 0\\)$|transparent/.test(backgroundColor)) return luminance(backgroundColor);
    }
    return 1;
  };
  let least = [Infinity, ''];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '');
    if (!own || element.checkVisibility() === false || element.closest('style') !== null) continue;
    const style = getComputedStyle(element);
    const text = luminance(element.closest('svg') === null ? style.color : style.fill);
    const paper = background(element);
    const contrast = (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05);
    if (contrast < least[0]) least = [contrast, element.outerHTML.slice(0, 100)];
  }
  return least;
})()`;
