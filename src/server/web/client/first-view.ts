// Runs before the first paint, so that the page of a symbol does not begin as the list and then move.
if (new URLSearchParams(location.hash.slice(1)).get('symbol')) document.body.dataset.page = 'symbol';
